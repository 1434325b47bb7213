"""What we refuse to store against what a real kube-apiserver refuses.

The same wrong body or wrong change goes to both: code, reason and each cause must be equal. Where
upstream prints a whole object or a Go diff into a message, only its words are compared.
"""

from __future__ import annotations

import asyncio
import copy
import http.client
import json
import random
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import ApiError
from fleet.kube.defaults import create, update
from fleet.kube.patch import MERGE_PATCH, apply_patch
from fleet.kube.schema import FieldValidation, decode, schema_for
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]

ADMISSION = "ServiceAccount,Priority,DefaultTolerationSeconds,TaintNodesByCondition"


class Oracle:
    """A kube-apiserver, spoken to in plain JSON."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, port = cluster.server.removeprefix("https://").split(":")
        self._connection = http.client.HTTPSConnection(
            host, int(port), context=cluster.ssl_context(), timeout=60
        )

    def call(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> tuple[int, Object]:
        self._connection.request(method, path, body=body, headers={"Content-Type": content_type})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    cluster = LocalCluster(
        "validation-oracle",
        components=API_ONLY,
        extra_args={"kube-apiserver": [f"--disable-admission-plugins={ADMISSION}"]},
    )
    asyncio.run(cluster.start())
    client = Oracle(cluster)
    try:
        yield client
    finally:
        client.close()
        asyncio.run(cluster.stop())


KINDS = {
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
    "Deployment": ("apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "Pod": ("v1", "pods"),
    "Service": ("v1", "services"),
    "ConfigMap": ("v1", "configmaps"),
    "Secret": ("v1", "secrets"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Namespace": ("v1", "namespaces"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Event": ("v1", "events"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
}
CLUSTER_SCOPED = {"Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}

APP = {"app": "web"}
SELECTOR = {"matchLabels": APP}
LONG = "a" * 64


def template(labels: Object | None = None, container: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "app:1", **(container or {})}
    metadata = {"labels": labels} if labels is not None else {}
    return {"metadata": metadata, "spec": {"containers": [main], **spec}}


def pod(container: Object | None = None, **spec: Any) -> Object:
    return {"spec": template(None, container, **spec)["spec"]}


def job(container: Object | None = None, spec: Object | None = None, **pod_spec: Any) -> Object:
    pod_spec = {"restartPolicy": "Never", **pod_spec}
    return {"spec": {"template": template(None, container, **pod_spec), **(spec or {})}}


def deployment(spec: Object | None = None, labels: Object = APP, **pod_spec: Any) -> Object:
    base = {"selector": SELECTOR, "template": template(labels, **pod_spec)}
    return {"spec": {**base, **(spec or {})}}


def volumes(*sources: Object) -> Object:
    return pod(volumes=[{"name": f"v{i}", **source} for i, source in enumerate(sources)])


def claim(**spec: Any) -> Object:
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"spec": {**base, **spec}}


def service(*ports: Object, **spec: Any) -> Object:
    return {"spec": {"ports": list(ports), **spec}}


def probe(**handler: Any) -> Object:
    return {"livenessProbe": handler}


# Each entry: the kind, its fields, and metadata beyond the name.
WRONG: dict[str, tuple[str, Object]] = {
    "name-upper": ("ConfigMap", {"metadata": {"name": "Upper"}}),
    "name-long": ("ConfigMap", {"metadata": {"name": "a" * 254}}),
    "name-dots-in-namespace": ("Namespace", {"metadata": {"name": "a.b"}}),
    "name-dots-in-statefulset": (
        "StatefulSet",
        {**deployment(), "metadata": {"name": "a.b"}},
    ),
    "name-dots-in-service": ("Service", {**service({"port": 1}), "metadata": {"name": "a.b"}}),
    "name-slash-role": ("Role", {"metadata": {"name": "a/b"}}),
    "name-missing": ("ConfigMap", {"metadata": {"name": ""}}),
    "generate-name-bad": ("ConfigMap", {"metadata": {"name": "", "generateName": "A-"}}),
    "labels": (
        "ConfigMap",
        {"metadata": {"labels": {"-bad": "ok", "a/b/c": "x", "good": "-bad", "é": LONG}}},
    ),
    "label-prefixes": (
        "ConfigMap",
        {"metadata": {"labels": {"/x": "", "UP.com/x": "", "a.com/": "", f"a.com/{LONG}": ""}}},
    ),
    "annotations": ("ConfigMap", {"metadata": {"annotations": {"bad key": "", "A/b": "ok"}}}),
    "finalizers": (
        "ConfigMap",
        {"metadata": {"finalizers": ["bad!", "orphan", "foregroundDeletion"]}},
    ),
    "owners": (
        "ConfigMap",
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "", "kind": "", "name": "", "uid": ""},
                    {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": True},
                    {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": True},
                ]
            }
        },
    ),
    "owner-event": (
        "ConfigMap",
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]
            }
        },
    ),
    # pods
    "pod-empty": ("Pod", {"spec": {}}),
    "pod-no-containers": ("Pod", {"spec": {"containers": []}}),
    "container-empty": ("Pod", {"spec": {"containers": [{}]}}),
    "container-name": ("Pod", pod({"name": "Bad_Name"})),
    "container-names": ("Pod", {"spec": {"containers": [{"name": "a", "image": "i"}] * 2}}),
    "container-image-blanks": ("Pod", pod({"image": " x "})),
    "container-pull-policy": ("Pod", pod({"imagePullPolicy": "Sometimes"})),
    "container-termination": ("Pod", pod({"terminationMessagePolicy": "x"})),
    "container-restart": ("Pod", pod({"restartPolicy": "Whenever"})),
    "ports": (
        "Pod",
        pod(
            {
                "ports": [
                    {"containerPort": 0},
                    {"containerPort": 70000, "hostPort": 70000},
                    {"containerPort": 1, "name": "Bad--Name-"},
                    {"containerPort": 2, "name": "way-too-long-a-name"},
                    {"containerPort": 3, "name": "123"},
                    {"containerPort": 4, "protocol": "ICMP"},
                    {"containerPort": 5, "name": "twice"},
                    {"containerPort": 6, "name": "twice"},
                    {"containerPort": 7, "hostPort": 80},
                    {"containerPort": 8, "hostPort": 80},
                ]
            }
        ),
    ),
    "env": (
        "Pod",
        pod(
            {
                "env": [
                    {"name": ""},
                    {"name": "a=b"},
                    {"name": "A", "valueFrom": {}},
                    {
                        "name": "B",
                        "value": "x",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                    },
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": ""}}},
                    {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}},
                    {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
                    {
                        "name": "F",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['-x']"}},
                    },
                    {"name": "G", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name['x']"}}},
                    {"name": "H", "valueFrom": {"resourceFieldRef": {"resource": "limits.nope"}}},
                    {
                        "name": "I",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}
                        },
                    },
                    {"name": "J", "valueFrom": {"secretKeyRef": {"name": "", "key": ""}}},
                    {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "A", "key": ".."}}},
                    {
                        "name": "L",
                        "valueFrom": {
                            "secretKeyRef": {"name": "a", "key": "k"},
                            "configMapKeyRef": {"name": "a", "key": "k"},
                        },
                    },
                ]
            }
        ),
    ),
    "env-from": (
        "Pod",
        pod(
            {
                "envFrom": [
                    {},
                    {"prefix": "=", "configMapRef": {"name": ""}},
                    {"configMapRef": {"name": "A"}, "secretRef": {"name": "a"}},
                ]
            }
        ),
    ),
    "mounts": (
        "Pod",
        pod(
            {
                "volumeMounts": [
                    {"name": "none", "mountPath": "/a"},
                    {"name": "v", "mountPath": ""},
                    {"name": "v", "mountPath": "/a"},
                    {"name": "v", "mountPath": "/b", "subPath": "/abs/../x"},
                    {"name": "v", "mountPath": "/c", "subPath": "s", "subPathExpr": "t"},
                    {"name": "v", "mountPath": "/d", "mountPropagation": "Bidirectional"},
                    {"name": "v", "mountPath": "/e", "mountPropagation": "Odd"},
                ]
            },
            volumes=[{"name": "v", "emptyDir": {}}],
        ),
    ),
    "devices": (
        "Pod",
        pod(
            {
                "volumeMounts": [{"name": "p", "mountPath": "/dev/p"}],
                "volumeDevices": [
                    {"name": "", "devicePath": ""},
                    {"name": "v", "devicePath": "/dev/x"},
                    {"name": "p", "devicePath": "/dev/p"},
                    {"name": "p", "devicePath": "../x"},
                ],
            },
            volumes=[
                {"name": "v", "emptyDir": {}},
                {"name": "p", "persistentVolumeClaim": {"claimName": "c"}},
            ],
        ),
    ),
    "resources": (
        "Pod",
        pod(
            {
                "resources": {
                    "limits": {"cpu": "-1", "memory": "1Gi", "bad name": "1", "gpu": "1"},
                    "requests": {"memory": "2Gi", "nvidia.com/gpu": "1", "pods": "1"},
                }
            }
        ),
    ),
    "resources-extended": (
        "Pod",
        pod(
            {
                "resources": {
                    "limits": {"nvidia.com/gpu": "2", "example.com/half": "1500m"},
                    "requests": {"nvidia.com/gpu": "1", "example.com/half": "1500m"},
                }
            }
        ),
    ),
    "resources-hugepages": (
        "Pod",
        pod({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}),
    ),
    "probes": (
        "Pod",
        pod(
            {
                "livenessProbe": {"successThreshold": 2, "exec": {"command": []}},
                "readinessProbe": {
                    "httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]},
                    "terminationGracePeriodSeconds": 3,
                    "periodSeconds": -1,
                },
                "startupProbe": {"tcpSocket": {"port": "UP"}, "grpc": {"port": 1}},
            }
        ),
    ),
    "probe-without-handler": ("Pod", pod(probe(periodSeconds=3))),
    "probe-grace-period": (
        "Pod",
        pod(probe(exec={"command": ["x"]}, terminationGracePeriodSeconds=0)),
    ),
    "lifecycle": (
        "Pod",
        pod(
            {
                "lifecycle": {
                    "postStart": {},
                    "preStop": {"exec": {"command": ["a"]}, "httpGet": {"port": 1}},
                }
            }
        ),
    ),
    "lifecycle-sleep": ("Pod", pod({"lifecycle": {"preStop": {"sleep": {"seconds": 99}}}})),
    "init-containers": (
        "Pod",
        pod(
            initContainers=[
                {"name": "main", "image": "i"},
                {"name": "b", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}},
                {"name": "c", "image": "i", "restartPolicy": "Odd"},
                {"name": "d", "image": "i", "lifecycle": {}},
            ]
        ),
    ),
    "security-context": (
        "Pod",
        pod(
            {
                "securityContext": {
                    "runAsUser": -1,
                    "runAsGroup": 2**31,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                }
            },
            securityContext={"runAsUser": -1, "fsGroup": -2, "supplementalGroups": [-1]},
        ),
    ),
    "pod-policies": (
        "Pod",
        pod(restartPolicy="Odd", dnsPolicy="Odd", preemptionPolicy="Odd"),
    ),
    "pod-names": (
        "Pod",
        pod(
            serviceAccountName="A",
            nodeName="A_",
            hostname="a.b",
            subdomain="-a",
            priorityClassName="A",
        ),
    ),
    "pod-deadline": ("Pod", pod(activeDeadlineSeconds=0)),
    "pod-node-selector": ("Pod", pod(nodeSelector={"-a": "-b"})),
    "pod-dns-none": ("Pod", pod(dnsPolicy="None")),
    "pod-dns-servers": ("Pod", pod(dnsConfig={"nameservers": ["1.1.1.1"] * 4})),
    "pod-host-network": (
        "Pod",
        pod({"ports": [{"containerPort": 80, "hostPort": 81}]}, hostNetwork=True),
    ),
    "pod-host-aliases": ("Pod", pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["A"]}])),
    "pod-gates": ("Pod", pod(schedulingGates=[{"name": "bad!"}, {"name": "a"}, {"name": "a"}])),
    "pod-readiness-gates": ("Pod", pod(readinessGates=[{"conditionType": "bad!"}])),
    "pod-os": ("Pod", pod(os={"name": "plan9"})),
    "pod-token": (
        "Pod",
        volumes({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
    ),
    "tolerations": (
        "Pod",
        pod(
            tolerations=[
                {"key": "-bad"},
                {"operator": "Equal"},
                {"key": "a", "tolerationSeconds": 3},
                {"key": "a", "value": "-b"},
                {"key": "a", "operator": "Exists", "value": "b"},
                {"key": "a", "operator": "Odd"},
                {"key": "a", "operator": "Lt", "value": "3"},
                {"key": "a", "effect": "Odd"},
            ]
        ),
    ),
    "node-affinity": (
        "Pod",
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 0,
                            "preference": {
                                "matchExpressions": [
                                    {"key": "-a", "operator": "In"},
                                    {"key": "a", "operator": "Exists", "values": ["x"]},
                                    {"key": "a", "operator": "Gt", "values": ["1", "2"]},
                                    {"key": "a", "operator": "Odd"},
                                ]
                            },
                        }
                    ],
                }
            }
        ),
    ),
    "pod-affinity": (
        "Pod",
        pod(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "",
                            "namespaces": ["A"],
                            "labelSelector": {"matchLabels": {"-a": "b"}},
                        }
                    ],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "podAffinityTerm": {"topologyKey": "-x"}}
                    ],
                }
            }
        ),
    ),
    "topology-spread": (
        "Pod",
        pod(
            topologySpreadConstraints=[
                {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Odd"},
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "minDomains": 0,
                },
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
            ]
        ),
    ),
    "volumes": (
        "Pod",
        volumes(
            {"emptyDir": {}, "hostPath": {"path": "/x"}},
            {"emptyDir": {"sizeLimit": "-1"}},
            {"hostPath": {"path": ""}},
            {"hostPath": {"path": "/a/../b", "type": "Odd"}},
            {"secret": {"secretName": "", "defaultMode": 0o1000}},
            {"configMap": {"items": [{"key": "", "path": ""}, {"key": "a", "path": "/x"}]}},
            {"configMap": {"name": "a", "items": [{"key": "a", "path": "..b", "mode": -1}]}},
            {"persistentVolumeClaim": {"claimName": ""}},
            {"nfs": {"server": "", "path": "x"}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": ""},
                        {"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}},
                    ]
                }
            },
            {
                "downwardAPI": {
                    "items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]
                }
            },
            {"ephemeral": {}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"csi": {"driver": ""}},
        ),
    ),
    "volume-names": (
        "Pod",
        pod(volumes=[{"name": "A"}, {"name": ""}, {"name": "a"}, {"name": "a"}]),
    ),
    "volume-projected": (
        "Pod",
        pod(
            serviceAccountName="s",
            volumes=[
                {
                    "name": "p",
                    "projected": {
                        "defaultMode": 0o1000,
                        "sources": [
                            {"secret": {"name": ""}},
                            {"serviceAccountToken": {"path": "", "expirationSeconds": 1}},
                            {"secret": {"name": "a"}, "configMap": {"name": "a"}},
                        ],
                    },
                }
            ],
        ),
    ),
    # jobs
    "job-no-restart-policy": ("Job", {"spec": {"template": template()}}),
    "job-restart-always": ("Job", job(restartPolicy="Always")),
    "job-restart-odd": ("Job", job(restartPolicy="Odd")),
    "job-no-template": ("Job", {"spec": {}}),
    "job-negative": (
        "Job",
        job(
            spec={
                "parallelism": -1,
                "completions": -2,
                "activeDeadlineSeconds": -3,
                "backoffLimit": -4,
                "ttlSecondsAfterFinished": -5,
            }
        ),
    ),
    "job-mode": ("Job", job(spec={"completionMode": "Odd"})),
    "job-indexed": ("Job", job(spec={"completionMode": "Indexed", "parallelism": 100_001})),
    "job-indexed-name": (
        "Job",
        {
            **job(spec={"completionMode": "Indexed", "completions": 5}),
            "metadata": {"name": "a" * 62},
        },
    ),
    "job-indexed-many": (
        "Job",
        job(
            spec={
                "completionMode": "Indexed",
                "completions": 100_001,
                "parallelism": 10_001,
                "backoffLimitPerIndex": 1,
            }
        ),
    ),
    "job-per-index-nonindexed": (
        "Job",
        job(spec={"backoffLimitPerIndex": 1, "maxFailedIndexes": 2}),
    ),
    "job-max-failed": (
        "Job",
        job(spec={"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3}),
    ),
    "job-manual-selector": (
        "Job",
        {"spec": {"manualSelector": True, "template": template(APP, restartPolicy="Never")}},
    ),
    "job-manual-mismatch": (
        "Job",
        {
            "spec": {
                "manualSelector": True,
                "selector": {"matchLabels": {"x": "y"}},
                "template": template(APP, restartPolicy="Never"),
            }
        },
    ),
    "job-own-controller-uid": (
        "Job",
        {
            "spec": {
                "template": template(
                    {"controller-uid": "x", "job-name": "y"}, restartPolicy="Never"
                )
            }
        },
    ),
    "job-own-selector": ("Job", job(spec={"selector": {"matchLabels": {"a": "b"}}})),
    "job-managed-by": ("Job", job(spec={"managedBy": "nobody"})),
    "job-managed-by-bad": ("Job", job(spec={"managedBy": "UP.com/a b"})),
    "job-failure-policy": (
        "Job",
        job(
            spec={
                "podReplacementPolicy": "TerminatingOrFailed",
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Odd", "onExitCodes": {"operator": "Odd", "values": []}},
                        {"action": "", "onPodConditions": [{"type": "!", "status": "Odd"}]},
                        {
                            "action": "FailIndex",
                            "onExitCodes": {"operator": "In", "values": [0, 3, 2, 3]},
                        },
                        {"action": "Count"},
                        {
                            "action": "Count",
                            "onExitCodes": {"containerName": "x", "operator": "In", "values": [1]},
                            "onPodConditions": [{"type": "a"}],
                        },
                    ]
                },
            },
            restartPolicy="OnFailure",
        ),
    ),
    "job-success-policy": (
        "Job",
        job(
            spec={
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {
                    "rules": [
                        {},
                        {"succeededIndexes": "0,9"},
                        {"succeededIndexes": "1-0"},
                        {"succeededIndexes": "x"},
                        {"succeededIndexes": "0-1-2"},
                        {"succeededCount": 4},
                        {"succeededCount": 2, "succeededIndexes": "0"},
                    ]
                },
            }
        ),
    ),
    "job-success-policy-nonindexed": ("Job", job(spec={"successPolicy": {"rules": []}})),
    "job-replacement-policy": ("Job", job(spec={"podReplacementPolicy": "Odd"})),
    "cron-schedule": (
        "CronJob",
        {
            "spec": {
                "schedule": "x",
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
            }
        },
    ),
    "cron-everything": (
        "CronJob",
        {
            "metadata": {"name": "a" * 53},
            "spec": {
                "schedule": "61 * * * *",
                "timeZone": "Mars/Olympus",
                "concurrencyPolicy": "Odd",
                "startingDeadlineSeconds": -1,
                "successfulJobsHistoryLimit": -1,
                "failedJobsHistoryLimit": -1,
                "jobTemplate": {
                    "spec": {
                        "manualSelector": True,
                        "selector": SELECTOR,
                        "template": template(restartPolicy="Always"),
                    }
                },
            },
        },
    ),
    # deployments and the like
    "deployment-empty": ("Deployment", {"spec": {}}),
    "deployment-mismatch": ("Deployment", deployment(labels={"app": "other"})),
    "deployment-empty-selector": ("Deployment", deployment({"selector": {}})),
    "deployment-bad-selector": (
        "Deployment",
        deployment(
            {
                "selector": {
                    "matchLabels": {"-a": "-b"},
                    "matchExpressions": [
                        {"key": "a", "operator": "In"},
                        {"key": "a", "operator": "Exists", "values": ["b"]},
                        {"key": "a", "operator": "Odd"},
                    ],
                }
            }
        ),
    ),
    "deployment-negative": (
        "Deployment",
        deployment({"replicas": -1, "minReadySeconds": -1, "revisionHistoryLimit": -1}),
    ),
    "deployment-deadline": (
        "Deployment",
        deployment({"minReadySeconds": 10, "progressDeadlineSeconds": 5}),
    ),
    "deployment-strategy": ("Deployment", deployment({"strategy": {"type": "Odd"}})),
    "deployment-recreate": (
        "Deployment",
        deployment({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}),
    ),
    "deployment-rolling": (
        "Deployment",
        deployment({"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}}),
    ),
    "deployment-rolling-percent": (
        "Deployment",
        deployment({"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "101%"}}}),
    ),
    "deployment-restart": (
        "Deployment",
        deployment(restartPolicy="Never", activeDeadlineSeconds=3),
    ),
    "deployment-template-labels": (
        "Deployment",
        deployment({"template": template({**APP, "-a": "-b"})}),
    ),
    "replicaset-mismatch": ("ReplicaSet", deployment({"replicas": -1}, labels={"a": "b"})),
    "replicationcontroller": ("ReplicationController", {"spec": {"replicas": -1}}),
    "statefulset": (
        "StatefulSet",
        deployment(
            {
                "podManagementPolicy": "Odd",
                "updateStrategy": {"type": "Odd"},
                "replicas": -1,
                "serviceName": "A",
                "ordinals": {"start": -1},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Odd"},
                "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}],
            }
        ),
    ),
    "statefulset-on-delete": (
        "StatefulSet",
        deployment({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
    ),
    "daemonset": (
        "DaemonSet",
        deployment(
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}},
            labels={"x": "y"},
        ),
    ),
    "daemonset-zero": (
        "DaemonSet",
        deployment({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}, "selector": {}}),
    ),
    "daemonset-strategy": ("DaemonSet", deployment({"updateStrategy": {"type": "Odd"}})),
    # services
    "service-no-ports": ("Service", service()),
    "service-ports": (
        "Service",
        service(
            {"port": 0},
            {"port": 1, "name": "A"},
            {"port": 2, "name": "b", "protocol": "ICMP"},
            {"port": 2, "name": "b", "targetPort": "UP"},
            {"port": 2, "name": "c", "nodePort": 30000, "appProtocol": "-"},
        ),
    ),
    "service-type": ("Service", service({"port": 1}, type="Odd")),
    "service-selector": ("Service", service({"port": 1}, selector={"-a": "-b"})),
    "service-affinity": ("Service", service({"port": 1}, sessionAffinity="Odd")),
    "service-affinity-timeout": (
        "Service",
        service(
            {"port": 1},
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}},
        ),
    ),
    "service-external-name": ("Service", service(type="ExternalName")),
    "service-external-name-bad": ("Service", service(type="ExternalName", externalName="A_")),
    "service-external-ips": (
        "Service",
        service({"port": 1}, externalIPs=["x", "127.0.0.1", "0.0.0.0", "169.254.1.1"]),
    ),
    "service-balancer-fields": (
        "Service",
        service({"port": 1}, loadBalancerSourceRanges=["x"], allocateLoadBalancerNodePorts=True),
    ),
    "service-traffic": (
        "Service",
        service({"port": 1}, externalTrafficPolicy="Local", internalTrafficPolicy="Odd"),
    ),
    # data
    "configmap-keys": (
        "ConfigMap",
        {
            "data": {"a b": "", "..": "", "..x": "", "both": ""},
            "binaryData": {"both": "", "c/d": ""},
        },
    ),
    "configmap-large": ("ConfigMap", {"data": {"a": "x" * (1024 * 1024 + 1)}}),
    "secret-keys": ("Secret", {"data": {"a b": ""}}),
    "secret-tls": ("Secret", {"type": "kubernetes.io/tls"}),
    "secret-basic": ("Secret", {"type": "kubernetes.io/basic-auth"}),
    "secret-ssh": ("Secret", {"type": "kubernetes.io/ssh-auth"}),
    "secret-docker": ("Secret", {"type": "kubernetes.io/dockerconfigjson"}),
    "secret-token": ("Secret", {"type": "kubernetes.io/service-account-token"}),
    "claim-empty": ("PersistentVolumeClaim", {"spec": {}}),
    "claim": (
        "PersistentVolumeClaim",
        claim(
            accessModes=["Odd", "ReadWriteOncePod", "ReadOnlyMany"],
            storageClassName="A",
            volumeMode="Odd",
            selector={"matchLabels": {"-a": "b"}},
        ),
    ),
    "claim-size": ("PersistentVolumeClaim", claim(resources={"requests": {"storage": "0"}})),
    "claim-source": (
        "PersistentVolumeClaim",
        claim(dataSourceRef={"kind": "X", "name": "", "apiGroup": ""}),
    ),
    # policies
    "namespace-finalizers": ("Namespace", {"spec": {"finalizers": ["odd", "bad!"]}}),
    "role": (
        "Role",
        {
            "rules": [
                {},
                {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]},
            ]
        },
    ),
    "clusterrole": ("ClusterRole", {"aggregationRule": {}, "rules": [{"verbs": ["get"]}]}),
    "rolebinding": (
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "x", "kind": "Odd", "name": ""},
            "subjects": [
                {"kind": "Odd", "name": ""},
                {"kind": "User", "name": "u", "apiGroup": "x"},
                {"kind": "ServiceAccount", "name": "A_", "apiGroup": "x"},
            ],
        },
    ),
    "clusterrolebinding": (
        "ClusterRoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "a/b"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}],
        },
    ),
    "hpa-empty": ("HorizontalPodAutoscaler", {"spec": {}}),
    "hpa": (
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "minReplicas": 5,
                "maxReplicas": -1,
                "scaleTargetRef": {"kind": "a/b", "name": "x"},
                "metrics": [{"type": "Odd"}, {"type": "Pods"}],
            }
        },
    ),
    "pdb": (
        "PodDisruptionBudget",
        {
            "spec": {
                "minAvailable": -1,
                "maxUnavailable": "101%",
                "selector": {"matchLabels": {"-a": "b"}},
                "unhealthyPodEvictionPolicy": "Odd",
            }
        },
    ),
    "networkpolicy": (
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {"matchLabels": {"-a": "b"}},
                "policyTypes": ["Odd"],
                "ingress": [
                    {
                        "from": [
                            {},
                            {"ipBlock": {"cidr": ""}},
                            {"ipBlock": {"cidr": "x"}},
                            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
                            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
                        ],
                        "ports": [
                            {"protocol": "ICMP"},
                            {"port": 0},
                            {"port": 5, "endPort": 4},
                            {"port": "UP", "endPort": 4},
                            {"endPort": 4},
                        ],
                    }
                ],
            }
        },
    ),
    "ingress-empty": ("Ingress", {"spec": {}}),
    "ingress": (
        "Ingress",
        {
            "spec": {
                "ingressClassName": "A",
                "defaultBackend": {},
                "tls": [{"hosts": ["A", "*.*.x"], "secretName": "A"}],
                "rules": [
                    {"host": "1.2.3.4"},
                    {"host": "*x"},
                    {"host": "a.com", "http": {"paths": []}},
                    {
                        "http": {
                            "paths": [
                                {"backend": {}},
                                {"pathType": "Odd", "backend": {"service": {"name": "a"}}},
                                {
                                    "pathType": "Prefix",
                                    "path": "a//b/..",
                                    "backend": {
                                        "service": {"name": "A", "port": {"number": 1, "name": "x"}}
                                    },
                                },
                            ]
                        }
                    },
                ],
            }
        },
    ),
    "priority-policy": ("PriorityClass", {"value": 1000, "preemptionPolicy": "Sometimes"}),
    "priority-policy-empty": ("PriorityClass", {"value": 1000, "preemptionPolicy": ""}),
    "priority-value": ("PriorityClass", {"value": 1_000_000_001, "preemptionPolicy": "Odd"}),
    "priority-name": ("PriorityClass", {"metadata": {"name": "Upper"}, "value": 1}),
    "priority-system": ("PriorityClass", {"metadata": {"name": "system-mine"}, "value": 1}),
    "priority-system-value": (
        "PriorityClass",
        {"metadata": {"name": "system-node-critical"}, "value": 2_000_000_001},
    ),
    "priority-system-default": (
        "PriorityClass",
        {
            "metadata": {"name": "system-cluster-critical"},
            "value": 2_000_000_000,
            "globalDefault": True,
        },
    ),
    "lease": (
        "Lease",
        {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1, "preferredHolder": "x"}},
    ),
    "event": (
        "Event",
        {"involvedObject": {"namespace": "other"}, "reason": "x", "message": "m", "type": "Odd"},
    ),
}

BODIES: dict[str, tuple[str, Any]] = {
    "unknown-fields": ("Job", {**job(), "bogus": 1, "spec": {**job()["spec"], "nope": {"a": 1}}}),
    "unknown-in-list": ("Pod", pod({"nope": 1, "env": [{"name": "A", "valeu": "x"}]})),
    "text-for-number": ("Job", job(spec={"parallelism": "3"})),
    "fraction-for-number": ("Job", job(spec={"parallelism": 1.5})),
    "too-large-a-number": ("Job", job(spec={"parallelism": 2**31})),
    "number-for-text": ("Pod", pod({"image": 3})),
    "bool-for-text": ("Pod", pod({"image": True})),
    "text-for-bool": ("Pod", pod(hostNetwork="true")),
    "number-for-bool": ("Pod", pod(hostNetwork=1)),
    "object-for-list": ("Pod", {"spec": {"containers": {}}}),
    "list-for-object": ("Pod", {"spec": []}),
    "text-for-object": ("Pod", {"spec": "x"}),
    "text-for-list": ("Pod", pod({"args": "x"})),
    "number-in-labels": ("ConfigMap", {"metadata": {"name": "a", "labels": {"a": 1}}}),
    "list-for-map": ("ConfigMap", {"data": ["a"]}),
    "number-in-data": ("ConfigMap", {"data": {"a": 1}}),
    "base64": ("Secret", {"data": {"a": "not base64!"}}),
    "quantity": ("Pod", pod({"resources": {"limits": {"cpu": "1x"}}})),
    "quantity-suffix": ("Pod", pod({"resources": {"limits": {"cpu": "1mm"}}})),
    "quantity-object": ("Pod", pod({"resources": {"limits": {"cpu": {}}}})),
    "port-bool": ("Service", service({"port": 1, "targetPort": True})),
    "port-fraction": ("Service", service({"port": 1, "targetPort": 1.5})),
    "inlined-handler": ("Pod", pod(probe(httpGet="x"))),
    "inlined-volume": ("Pod", volumes({"emptyDir": 3})),
    "time-number": ("Lease", {"spec": {"renewTime": 3}}),
    "priority-text": ("PriorityClass", {"value": "1000"}),
    "priority-too-large": ("PriorityClass", {"value": 2**31}),
    "priority-unknown": ("PriorityClass", {"value": 1, "descripton": "x"}),
    "priority-description": ("PriorityClass", {"value": 1, "description": 3}),
    "other-kind": ("Pod", {"kind": "Job", "apiVersion": "batch/v1"}),
    "no-such-kind": ("Pod", {"kind": "Nope"}),
    "no-such-version": ("Pod", {"apiVersion": "v7"}),
    "other-version": ("HorizontalPodAutoscaler", {"apiVersion": "autoscaling/v1"}),
    "a-list": ("Pod", []),
    "a-text": ("Pod", "x"),
    "a-null": ("Pod", None),
    "other-namespace": ("ConfigMap", {"metadata": {"name": "a", "namespace": "other"}}),
}

TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("application/json", ""),
    "cut-off": ("application/json", '{"a":'),
    "cut-off-text": ("application/json", '{"a'),
    "no-quotes": ("application/json", "{a: 1}"),
    "single-quotes": ("application/json", "{'a': 1}"),
    "trailing": ("application/json", "{} x"),
    "comma": ("application/json", '{"a":1,}'),
    "garbage": ("application/json", "garbage"),
    "no-colon": ("application/json", '{"a" 1}'),
    "twice": (
        "application/json",
        '{"metadata":{"name":"a","name":"b"},"data":{"x":"1","x":"2"},"data":{"y":"1"}}',
    ),
    "yaml-twice": ("application/yaml", "metadata:\n  name: a\n  name: b\ndata: {}\n"),
    "yaml-unknown": ("application/yaml", "metadata: {name: a}\nbogus: 1\n"),
    "yaml-bool": ("application/yaml", "metadata: {name: a}\ndata: {a: yes}\n"),
    "yaml-list": ("application/yaml", "- a\n"),
}

# kind, the fields of the object, a merge patch that is refused
CHANGES: dict[str, tuple[str, Object, Object]] = {
    "priority-value": ("PriorityClass", {"value": 5}, {"value": 6, "description": "x"}),
    "priority-value-zero": ("PriorityClass", {"value": 5}, {"value": None}),
    "priority-policy": (
        "PriorityClass", {"value": 5}, {"preemptionPolicy": "Never", "description": "x"},
    ),
    "priority-policy-odd": ("PriorityClass", {"value": 5}, {"preemptionPolicy": "Sometimes"}),
    "priority-policy-unset": (
        "PriorityClass", {"value": 5, "preemptionPolicy": "Never"}, {"preemptionPolicy": None},
    ),
    "priority-all": (
        "PriorityClass", {"value": 5}, {"value": 2_000_000_000, "preemptionPolicy": "Odd"},
    ),
    "job-template": ("Job", job(), {"spec": {"template": {"spec": {"hostname": "x"}}}}),
    "job-template-metadata": (
        "Job", job(), {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
    ),
    "job-selector": ("Job", job(), {"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
    "job-completions": ("Job", job(), {"spec": {"completions": 7}}),
    "job-mode": ("Job", job(), {"spec": {"completionMode": "Indexed"}}),
    "job-indexed-completions": (
        "Job",
        job(spec={"completionMode": "Indexed", "completions": 3, "parallelism": 3}),
        {"spec": {"completions": 4}},
    ),
    "job-suspended-template": (
        "Job",
        job(spec={"suspend": True}),
        {"spec": {"template": {"spec": {"hostname": "x"}}}},
    ),
    "job-managed-by": ("Job", job(), {"spec": {"managedBy": "a.com/b"}}),
    "job-negative": ("Job", job(), {"spec": {"parallelism": -1}}),
    "deployment-selector": (
        "Deployment",
        deployment(labels={**APP, "b": "c"}),
        {"spec": {"selector": {"matchLabels": {"b": "c"}}}},
    ),
    "deployment-mismatch": (
        "Deployment",
        deployment(),
        {"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}},
    ),
    "replicaset-selector": (
        "ReplicaSet",
        deployment(labels={**APP, "b": "c"}),
        {"spec": {"selector": {"matchLabels": {"b": "c"}}}},
    ),
    "daemonset-selector": (
        "DaemonSet",
        deployment(labels={**APP, "b": "c"}),
        {"spec": {"selector": {"matchLabels": {"b": "c"}}}},
    ),
    "statefulset": ("StatefulSet", deployment(), {"spec": {"serviceName": "other"}}),
    "pod-containers": ("Pod", pod(), {"spec": {"containers": []}}),
    "pod-spec": ("Pod", pod(), {"spec": {"hostname": "x"}}),
    "pod-image-emptied": (
        "Pod", pod(), {"spec": {"containers": [{"name": "main", "image": ""}]}},
    ),
    "pod-deadline-raised": (
        "Pod", pod(activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": 9}},
    ),
    "pod-deadline-unset": (
        "Pod", pod(activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": None}},
    ),
    "pod-gate-added": ("Pod", pod(), {"spec": {"schedulingGates": [{"name": "a"}]}}),
    "pod-toleration-removed": (
        "Pod", pod(tolerations=[{"key": "a", "operator": "Exists"}]), {"spec": {"tolerations": []}},
    ),
    "service-cluster-ip": (
        "Service", service({"port": 1}), {"spec": {"clusterIP": "10.255.255.1"}},
    ),
    "service-ports": ("Service", service({"port": 1}), {"spec": {"ports": []}}),
    "configmap-immutable": (
        "ConfigMap",
        {"immutable": True, "data": {"a": "b"}},
        {"data": {"a": "c"}, "immutable": None},
    ),
    "secret-immutable": ("Secret", {"immutable": True}, {"data": {"a": ""}}),
    "secret-type": ("Secret", {}, {"type": "other"}),
    "claim-spec": ("PersistentVolumeClaim", claim(), {"spec": {"accessModes": ["ReadOnlyMany"]}}),
    "claim-grown": (
        "PersistentVolumeClaim", claim(), {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
    ),
    "rolebinding-ref": (
        "RoleBinding",
        {"roleRef": {"kind": "Role", "name": "a"}},
        {"roleRef": {"name": "b"}},
    ),
    "labels": ("ConfigMap", {}, {"metadata": {"labels": {"-a": "-b"}}}),
    "uid": ("ConfigMap", {}, {"metadata": {"uid": "x"}}),
    "deletion": ("ConfigMap", {}, {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    "generation-ignored-fault-kept": (
        "Deployment", deployment(), {"metadata": {"generation": 99}, "spec": {"replicas": -1}},
    ),
    "cron-schedule": (
        "CronJob",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
            }
        },
        {"spec": {"schedule": "* * *"}},
    ),
}  # fmt: skip


def path_of(kind: str) -> str:
    api_version, plural = KINDS[kind]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/{plural}" if kind in CLUSTER_SCOPED else f"{root}/namespaces/default/{plural}"


def kind_of(kind: str) -> tuple[str, str, str]:
    group, _, version = KINDS[kind][0].rpartition("/")
    return group, version, kind


def body_of(kind: str, fields: Object, name: str) -> bytes:
    metadata = {"name": name, **fields.get("metadata", {})}
    return json.dumps(
        {"apiVersion": KINDS[kind][0], "kind": kind, **fields, "metadata": metadata}
    ).encode()


def ours_create(kind: str, body: bytes, *, media_type: str, validation: FieldValidation) -> Any:
    group, version, _ = kind_of(kind)
    decoded = decode(
        body,
        schema=schema_for(group, version, kind),
        kind=(group, version, kind),
        media_type=media_type,
        validation=validation,
    )
    created = create(
        group, version, kind, decoded.object,
        namespace="" if kind in CLUSTER_SCOPED else "default",
        now=datetime.now(UTC), uid="00000000-0000-0000-0000-000000000000",
        random=random.Random(0),
    )  # fmt: skip
    return created, decoded.warnings


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def words(text: str) -> str:
    """A message without objects, uids, source files and Go diffs."""
    text = text.partition("\n")[0]
    text = UUID.sub("UID", text)
    text = re.sub(r'"([^"]*-)[bcdfghjklmnpqrstvwxz2456789]{5}"', r'"\1*"', text)
    text = re.sub(r' in scheme "[^"]*"', "", text)
    return re.sub(r"value: (?:[{\[].*[}\]]|null|\d+)(?=: |$)", "value: …", text)


def causes_of(details: Any) -> set[tuple[str, str, str]]:
    return {
        (c.get("reason", ""), UUID.sub("UID", c.get("field", "")), words(c.get("message", "")))
        for c in (details or {}).get("causes", [])
    }


def disagreement(error: ApiError, answer: Object) -> str:
    """Where our refusal and the apiserver's differ, one line each."""
    found = []
    if (error.http_code, error.reason) != (answer["code"], answer.get("reason", "")):
        found.append(f"{error.http_code} {error.reason} != {answer['code']} {answer.get('reason')}")
    given = error.details.causes if error.details else ()
    ours = causes_of(
        {"causes": [{"reason": c.reason, "field": c.field, "message": c.message} for c in given]}
    )
    theirs = causes_of(answer.get("details"))
    found += [f"only ours: {cause}" for cause in sorted(ours - theirs)]
    found += [f"only theirs: {cause}" for cause in sorted(theirs - ours)]
    subject = " is invalid"
    mine, other = words(error.message), words(answer["message"])
    if theirs:
        mine, other = mine.partition(subject)[0], other.partition(subject)[0]
    if mine != other:
        found.append(f"{mine} != {other}")
    return "\n".join(found)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_object_is_refused_for_the_same_reasons(oracle: Oracle, name: str) -> None:
    kind, fields = WRONG[name]
    body = body_of(kind, fields, f"x-{name}")
    status, answer = oracle.call("POST", path_of(kind), body)
    assert status == 422, answer
    with pytest.raises(ApiError) as caught:
        ours_create(kind, body, media_type="application/json", validation=FieldValidation.WARN)
    assert disagreement(caught.value, answer) == ""


@pytest.mark.parametrize("validation", ["Strict", "Ignore"])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_the_wrong_shape_is_answered_alike(
    oracle: Oracle, name: str, validation: str
) -> None:
    kind, fields = BODIES[name]
    body = json.dumps(fields).encode()
    if isinstance(fields, dict):
        metadata = {"name": f"b-{name}-{validation.lower()}", **fields.get("metadata", {})}
        body = json.dumps({**fields, "metadata": metadata}).encode()
    status, answer = oracle.call("POST", f"{path_of(kind)}?fieldValidation={validation}", body)
    try:
        ours_create(
            kind, body, media_type="application/json", validation=FieldValidation(validation)
        )
    except ApiError as error:
        assert disagreement(error, answer) == ""
    else:
        assert status == 201, answer


@pytest.mark.parametrize("validation", ["Strict", "Ignore"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_does_not_parse_is_answered_alike(
    oracle: Oracle, name: str, validation: str
) -> None:
    media_type, text = TEXTS[name]
    path = f"{path_of('ConfigMap')}?fieldValidation={validation}&dryRun=All"
    status, answer = oracle.call("POST", path, text.encode(), media_type)
    try:
        ours_create(
            "ConfigMap", text.encode(), media_type=media_type,
            validation=FieldValidation(validation),
        )  # fmt: skip
    except ApiError as error:
        assert disagreement(error, answer) == ""
    else:
        assert status == 201, answer


@pytest.mark.parametrize("name", CHANGES)
def test_a_forbidden_change_is_refused_for_the_same_reasons(oracle: Oracle, name: str) -> None:
    kind, fields, patch = CHANGES[name]
    group, version, _ = kind_of(kind)
    object_name = f"c-{name}"[:50]
    status, current = oracle.call("POST", path_of(kind), body_of(kind, fields, object_name))
    assert status == 201, current
    current["metadata"].pop("managedFields", None)
    body = json.dumps(patch).encode()
    status, answer = oracle.call("PATCH", f"{path_of(kind)}/{object_name}", body, MERGE_PATCH)
    assert status == 422, answer
    with pytest.raises(ApiError) as caught:
        patched = apply_patch(
            MERGE_PATCH, copy.deepcopy(current), body, schema=schema_for(group, version, kind)
        )
        update(
            group, version, kind, patched, current,
            namespace="" if kind in CLUSTER_SCOPED else "default",
        )  # fmt: skip
    assert disagreement(caught.value, answer) == ""
