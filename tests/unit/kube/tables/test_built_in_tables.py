"""Cells of the built-in kinds other than pods: the rules that are easy to get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Cells = Callable[..., list[Any]]

APPS, NETWORKING, STORAGE = "apps", "networking.k8s.io", "storage.k8s.io"
FLOW = "flowcontrol.apiserver.k8s.io"
POD_SPEC = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}
TEMPLATE = {"spec": POD_SPEC}


def named(**rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, **rest}


def spec(**fields: Any) -> dict[str, Any]:
    return named(spec=fields)


def status(*conditions: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}


def service(kind: str, *ingress: dict[str, str], **fields: Any) -> dict[str, Any]:
    balanced = {"loadBalancer": {"ingress": list(ingress)}}
    return named(spec={"type": kind, "clusterIPs": ["1.2.3.4"], **fields}, status=balanced)


HELD = {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}

# (group, resource), object, cells behind the name; "…" stands for an age that is not known.
CASES: list[tuple[tuple[str, str], dict[str, Any], list[Any]]] = [
    (("", "replicationcontrollers"), named(), [0, 0, 0, "…", "", "", "<none>"]),
    (
        (APPS, "replicasets"),
        named(
            spec={"replicas": 3, "template": TEMPLATE, "selector": {"matchLabels": {"b": "1"}}},
            status={"replicas": 2, "readyReplicas": 1},
        ),
        [3, 2, 1, "…", "a,b", "i,j", "b=1"],
    ),
    ((APPS, "deployments"), named(), ["0/0", 0, 0, "…", "", "", ""]),
    (
        (APPS, "deployments"),
        spec(replicas=2, selector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        ["0/2", 0, 0, "…", "", "", "<invalid>"],
    ),
    (
        (APPS, "daemonsets"),
        spec(template={"spec": {"nodeSelector": {"b": "1", "a": "2"}}}, selector={}),
        [0, 0, 0, 0, 0, "a=2,b=1", "…", "", "", "<none>"],
    ),
    (
        (APPS, "replicasets"),
        spec(selector={"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
        [0, 0, 0, "…", "", "", "<error>"],
    ),
    ((APPS, "controllerrevisions"), named(revision=4), ["<none>", 4, "…"]),
    (("policy", "poddisruptionbudgets"), spec(minAvailable="33%"), ["33%", "N/A", 0, "…"]),
    (("policy", "poddisruptionbudgets"), spec(maxUnavailable=1), ["N/A", "1", 0, "…"]),
    (("batch", "jobs"), named(), ["Running", "0/1", "", "…", "", "", "<none>"]),
    (
        ("batch", "jobs"),
        spec(parallelism=3),
        ["Running", "0/1 of 3", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        named(
            spec={"completions": 2, "parallelism": 3},
            status={
                "succeeded": 1,
                "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T01:30:00Z",
            },
        ),
        ["Running", "1/2", "90m", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        named(status=status("Failed", "Complete")),
        ["Complete", "0/1", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        {"metadata": HELD, "status": status("Suspended")},
        ["Terminating", "0/1", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        {"metadata": HELD, "status": status("Failed")},
        ["Failed", "0/1", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        named(status=status("SuccessCriteriaMet", "FailureTarget")),
        ["FailureTarget", "0/1", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "jobs"),
        named(status=status("FailureTarget", "Suspended")),
        ["Suspended", "0/1", "", "…", "", "", "<none>"],
    ),
    (
        ("batch", "cronjobs"),
        spec(schedule="@daily"),
        ["@daily", "<none>", "<unset>", 0, "<none>", "…", "", "", "<none>"],
    ),
    (
        ("batch", "cronjobs"),
        named(spec={"suspend": False, "timeZone": "UTC"}, status={"active": [{}, {}]}),
        ["", "UTC", "False", 2, "<none>", "…", "", "", "<none>"],
    ),
    (
        ("", "services"),
        service("LoadBalancer", {"ip": "9.9.9.9"}, {"hostname": "h"}, {"ip": "2.2.2.2"}),
        ["LoadBalancer", "1.2.3.4", "2.2.2.2,9.9.9.9,h", "<none>", "…", "<none>"],
    ),
    (
        ("", "services"),
        service("LoadBalancer"),
        ["LoadBalancer", "1.2.3.4", "<pending>", "<none>", "…", "<none>"],
    ),
    (
        ("", "services"),
        service("LoadBalancer", {"ip": "9.9.9.9"}, externalIPs=["1.1.1.1"]),
        ["LoadBalancer", "1.2.3.4", "9.9.9.9,1.1.1.1", "<none>", "…", "<none>"],
    ),
    (
        ("", "services"),
        service("LoadBalancer", externalIPs=["1.1.1.1"]),
        ["LoadBalancer", "1.2.3.4", "1.1.1.1", "<none>", "…", "<none>"],
    ),
    (
        ("", "services"),
        service("ExternalName", externalName="e.example"),
        ["ExternalName", "1.2.3.4", "e.example", "<none>", "…", "<none>"],
    ),
    (
        ("", "services"),
        spec(
            type="NodePort", clusterIP="None", ports=[{"port": 80, "nodePort": 3, "protocol": "X"}]
        ),
        ["NodePort", "None", "<none>", "80:3/X", "…", "<none>"],
    ),
    (("", "services"), named(), ["", "<none>", "<unknown>", "<none>", "…", "<none>"]),
    (("", "endpoints"), named(), ["<none>", "…"]),
    (("", "endpoints"), named(subsets=[{}]), ["", "…"]),
    (
        ("discovery.k8s.io", "endpointslices"),
        named(addressType="IPv4", ports=[{"port": 1}, {"name": "n"}, {}]),
        ["IPv4", "1,n,*", "<unset>", "…"],
    ),
    (
        (NETWORKING, "ingresses"),
        spec(rules=[{"host": h} for h in ("a", "", "b", "c", "d")], tls=[{}]),
        ["<none>", "a,b,c + 2 more...", "", "80, 443", "…"],
    ),
    ((NETWORKING, "ingresses"), named(), ["<none>", "*", "", "80", "…"]),
    ((NETWORKING, "ipaddresses"), named(), ["<none>", "…"]),
    (
        (NETWORKING, "ipaddresses"),
        spec(parentRef={"resource": "Services", "namespace": "n", "name": "s"}),
        ["services/n/s", "…"],
    ),
    (("", "nodes"), named(), ["Unknown", "<none>", "…", ""] + ["<none>"] * 2 + ["<unknown>"] * 3),
    (
        ("", "nodes"),
        {
            "metadata": {"name": "x", "labels": {"node-role.kubernetes.io/": "", "a": "b"}},
            "status": {"nodeInfo": {"architecture": "arm64"}},
        },
        [
            *("Unknown", "<none>", "…", "", "<none>", "<none>"),
            *("<unknown>", "<unknown> (arm64)", "<unknown>"),
        ],
    ),
    (
        ("", "persistentvolumes"),
        {"metadata": HELD, "spec": {"capacity": {"storage": "1024Mi"}}},
        ["1Gi", "", "", "Terminating", "", "", "<unset>", "", "…", "<unset>"],
    ),
    (
        ("", "persistentvolumes"),
        spec(accessModes=["ReadWriteOncePod", "ReadWriteOnce", "ReadWriteOnce", "Odd"]),
        ["0", "RWO,RWOP", "", "", "", "", "<unset>", "", "…", "<unset>"],
    ),
    (
        ("", "persistentvolumeclaims"),
        named(status={"phase": "Bound", "capacity": {"storage": "1Gi"}}),
        ["Bound", "", "", "", "", "<unset>", "…", "<unset>"],
    ),
    (
        ("", "persistentvolumeclaims"),
        named(spec={"volumeName": "v"}, status={"capacity": {"storage": "1Gi"}}),
        ["", "v", "1Gi", "", "", "<unset>", "…", "<unset>"],
    ),
    ((STORAGE, "storageclasses"), named(), ["", "Delete", "Immediate", False, "…"]),
    (
        (STORAGE, "csidrivers"),
        spec(tokenRequests=[]),
        [True, False, False, "", False, "<none>", "…"],
    ),
    ((STORAGE, "csidrivers"), named(), [True, False, False, "<unset>", False, "<none>", "…"]),
    ((STORAGE, "csistoragecapacities"), named(capacity="1Gi"), ["0001-01-01T00:00:00Z"]),
    (("", "limitranges"), named(), ["0001-01-01T00:00:00Z"]),
    (
        ("", "resourcequotas"),
        named(status={"hard": {"limits.cpu": "8", "pods": 9, "cpu": "1500m"}, "used": {"pods": 2}}),
        ["cpu: 0/1500m, pods: 2/9", "limits.cpu: 0/8", "…"],
    ),
    (("", "secrets"), named(type="Opaque", data={"a": "", "b": ""}), ["Opaque", 2, "…"]),
    (("", "configmaps"), named(data={"a": ""}, binaryData={"b": ""}), [2, "…"]),
    (("", "componentstatuses"), named(), ["Unknown", "", ""]),
    (
        ("", "componentstatuses"),
        named(conditions=[{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]),
        ["Unhealthy", "m", "e"],
    ),
    (
        ("certificates.k8s.io", "certificatesigningrequests"),
        named(
            spec={"signerName": "s", "username": "u", "expirationSeconds": 7200},
            status={**status("Failed", "Approved", "Denied"), "certificate": "eA=="},
        ),
        ["…", "s", "u", "120m", "Denied,Failed,Issued"],
    ),
    (
        ("certificates.k8s.io", "certificatesigningrequests"),
        named(),
        ["…", "<none>", "", "<none>", "Pending"],
    ),
    (
        ("certificates.k8s.io", "podcertificaterequests"),
        named(
            spec={"podName": "p", "unverifiedUserAnnotations": {"b": "2", "a": "1"}},
            status=status("Issued"),
        ),
        ["p", "", "", "", "Issued", "a=1,b=2"],
    ),
    ((FLOW, "flowschemas"), named(), ["", 0, "<none>", "…", "?"]),
    (
        (FLOW, "prioritylevelconfigurations"),
        spec(type="Limited", limited={"nominalConcurrencyShares": 5}),
        ["Limited", 5, "<none>", "<none>", "<none>", "…"],
    ),
    (
        (FLOW, "prioritylevelconfigurations"),
        spec(type="Exempt", exempt={}),
        ["Exempt", *["<none>"] * 4, "…"],
    ),
    (("resource.k8s.io", "resourceclaims"), {"metadata": HELD}, ["deleted", "…"]),
    (
        ("resource.k8s.io", "resourceclaims"),
        {"metadata": HELD, "status": {"allocation": {}, "reservedFor": [{}]}},
        ["deleted,allocated,reserved", "…"],
    ),
    (
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        named(status={**status("Failed"), "poolCount": 3, "pools": [{"totalDevices": 3}]}),
        ["", "-", "-", "-", "-", "-", 3, "Failed", "<none>"],
    ),
    (
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        named(status={"pools": [{"totalDevices": 3}, {"validationError": "e"}]}),
        ["", "3", "0", "0", "0", "1", 0, "Pending", "<none>"],
    ),
    (
        ("scheduling.k8s.io", "podgroups"),
        named(status=status("PodGroupScheduled")),
        ["Basic", "<none>", "Scheduled", "…"],
    ),
    (
        ("scheduling.k8s.io", "podgroups"),
        named(
            status={
                "conditions": [
                    {"type": "PodGroupScheduled", "status": "False"},
                    {"type": "DisruptionTarget", "status": "True", "reason": "Preempted"},
                ]
            }
        ),
        ["Basic", "<none>", "Preempted", "…"],
    ),
    (
        ("storagemigration.k8s.io", "storageversionmigrations"),
        named(spec={"resource": {"resource": "pods"}}, status=status("Running", "Failed")),
        ["pods", "Failed"],
    ),
    (
        ("apiregistration.k8s.io", "apiservices"),
        named(
            spec={"service": {"namespace": "n", "name": "s"}},
            status={"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
        ),
        ["n/s", "False (Gone)", "…"],
    ),
    (
        ("metrics.k8s.io", "nodes"),
        named(usage={"cpu": "1500000000n", "memory": "2048Ki"}, window="10s"),
        ["1500m", "2Mi", "10s"],
    ),
    (
        ("metrics.k8s.io", "pods"),
        named(
            containers=[
                {"usage": {"cpu": "250000000n", "memory": "1Mi"}},
                {"usage": {"cpu": "250000001n", "memory": "1024Ki"}},
            ],
            window="15s",
        ),
        ["500000001n", "2Mi", "15s"],
    ),
    (("metrics.k8s.io", "pods"), named(), ["0", "0", ""]),
    (("apps", "deployments/scale"), named(spec={"replicas": 3}), [3, 0, "…"]),
    (("some.example", "things"), named(), ["0001-01-01T00:00:00Z"]),
]


@pytest.mark.parametrize(("kind", "obj", "shown"), CASES)
def test_cells(cells: Cells, kind: tuple[str, str], obj: dict[str, Any], shown: list[Any]) -> None:
    assert cells(*kind, obj) == ["x", *("<unknown>" if cell == "…" else cell for cell in shown)]


def event(**fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "x"},
        "type": "Warning",
        "reason": "R",
        "involvedObject": {"kind": "Pod", "name": "p.east", "fieldPath": "spec"},
        "source": {"component": "kubelet", "host": "n"},
        **fields,
    }


def test_events_of_both_groups(cells: Cells, ago: Callable[[float], str]) -> None:
    old = event(firstTimestamp=ago(300_000), lastTimestamp=ago(200_000), count=6, message=" m\n")
    shown = ["2d7h", "Warning", "R", "pod/p.east", "spec", "kubelet, n", "m", "3d11h", 6, "x"]
    assert cells("", "events", old) == shown
    new = {
        "metadata": {"name": "x"},
        "type": "Warning",
        "reason": "R",
        "regarding": {"kind": "Pod", "name": "p.east", "fieldPath": "spec"},
        "deprecatedSource": {"component": "kubelet", "host": "n"},
        "deprecatedFirstTimestamp": ago(300_000),
        "deprecatedLastTimestamp": ago(200_000),
        "deprecatedCount": 6,
        "note": " m\n",
    }
    assert cells("events.k8s.io", "events", new) == shown


def test_what_an_event_falls_back_to(cells: Cells, ago: Callable[[float], str]) -> None:
    def seen(obj: dict[str, Any]) -> tuple[Any, Any, Any]:
        row = cells("", "events", obj)
        return row[0], row[7], row[8]

    assert seen(event()) == ("<unknown>", "<unknown>", 1)
    assert seen(event(eventTime=ago(60))) == ("60s", "60s", 1)
    assert seen(event(firstTimestamp=ago(60))) == ("60s", "60s", 1)
    assert seen(event(eventTime=ago(60), lastTimestamp=ago(50), count=3)) == ("50s", "60s", 3)
    series = {"lastObservedTime": ago(7), "count": 9}
    assert seen(event(eventTime=ago(60), lastTimestamp=ago(50), series=series)) == ("7s", "60s", 9)
    assert seen(event(eventTime=ago(60), series={})) == ("<unknown>", "60s", 0)
    reporter = {"source": {}, "reportingComponent": "c", "reportingInstance": "i"}
    assert cells("", "events", event(**reporter))[5] == "c, i"
    assert cells("", "events", event(source={"component": "c"}))[5] == "c"
    assert cells("", "events", event(involvedObject={"kind": "Node"}))[3] == "node"


def test_a_running_job_and_a_schedule_age(cells: Cells, ago: Callable[[float], str]) -> None:
    job = {"metadata": {"creationTimestamp": ago(400)}, "status": {"startTime": ago(300)}}
    assert cells("batch", "jobs", job)[3:5] == ["5m", "6m40s"]
    cron = {"status": {"lastScheduleTime": ago(86_400)}}
    assert cells("batch", "cronjobs", cron)[5] == "24h"


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"}, "statefulset.apps/s"),
        ({"apiVersion": "v1", "kind": "Node", "name": "n"}, "node/n"),
        ({"name": "n"}, "n"),
    ],
)
def test_the_controller_of_a_revision(cells: Cells, owner: dict[str, str], shown: str) -> None:
    owners = [{"kind": "Other", "name": "o"}, {**owner, "controller": True}]
    obj = {"metadata": {"ownerReferences": owners}}
    assert cells("apps", "controllerrevisions", obj)[1] == shown


def test_selectors_are_sorted_by_key_and_labels_as_text(cells: Cells) -> None:
    selector = {
        "matchLabels": {"b": "2", "a-b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["z", "y"]},
            {"key": "c", "operator": "NotIn", "values": ["q"]},
            {"key": "b", "operator": "Exists"},
            {"key": "zz", "operator": "DoesNotExist"},
        ],
    }
    shown = cells("networking.k8s.io", "networkpolicies", {"spec": {"podSelector": selector}})[1]
    assert shown == "a in (y,z),a-b=1,b=2,b,c notin (q),!zz"
    # `-` sorts before `=`, so labels come in another order than keys.
    template = {"template": {"metadata": {"labels": {"a": "1", "a-b": "2"}}}}
    assert cells("", "podtemplates", template)[3] == "a-b=2,a=1"
