"""The API of an embedded member beyond pods: who is calling, what is added, what is refused."""

from __future__ import annotations

import aiohttp
import pytest

from fleet.errors import Forbidden
from fleet.kube.wire import Request, UserInfo
from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import NodeShape
from virtualnode.access import impersonated
from virtualnode.nodes import ISOLATION_ANNOTATION

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def member():
    shape = NodeShape(count=2, capacity={"cpu": "4", "pods": "10"})
    async with EmbeddedCluster("api", nodes=[shape], parameter_plane="roce-1") as made:
        yield made


@pytest.fixture
async def session(member):
    connector = aiohttp.TCPConnector(ssl=member.ssl_context())
    async with aiohttp.ClientSession(member.server, connector=connector) as made:
        yield made


async def test_the_admin_acts_as_whom_the_gateway_says(member, session):
    headers = [("Impersonate-User", "fleet:jane"), ("Impersonate-Group", "fleet:dev, ops"),
               ("Impersonate-Group", "fleet:admins")]  # fmt: skip
    async with session.post(REVIEW, json={}, headers=headers) as answer:
        found = (await answer.json())["status"]["userInfo"]
    assert found["username"] == "fleet:jane"
    assert found["groups"] == ["fleet:dev, ops", "fleet:admins", "system:authenticated"]
    record = member.cluster.audit.records[-1]
    assert (record.user, record.by, record.method) == ("fleet:jane", "admin", "POST")


async def test_nobody_else_may_act_as_somebody_else():
    headers = {"impersonate-user": "fleet:admin"}
    with pytest.raises(Forbidden, match='User "jane" cannot impersonate resource "users"'):
        impersonated(Request("GET", "/api", headers=headers, user=UserInfo("jane")))
    with pytest.raises(Forbidden, match="without a user"):
        masters = UserInfo("admin", groups=("system:masters",))
        impersonated(Request("GET", "/", headers={"impersonate-group": "x"}, user=masters))


async def test_callers_without_a_certificate_may_ask_for_health_alone(member):
    import ssl

    tls = ssl.create_default_context(cafile=str(member.layout.ca))
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(member.server, connector=connector) as anybody:
        for path, status in (
            ("/readyz", 200),
            ("/livez/ping", 200),
            ("/version", 200),
            (NODES, 401),
        ):
            async with anybody.get(path) as answer:
                assert answer.status == status


async def test_reviews_say_that_nothing_is_forbidden_and_why(api):
    spec = {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    found = (await api.call("POST", ACCESS, {"spec": spec}))["status"]
    assert found["allowed"] and "not enforce" in found["reason"]
    with pytest.raises(LookupError, match="neither a user nor a group"):
        await api.call("POST", ACCESS, {"spec": {"resourceAttributes": {}}})


async def test_a_node_says_what_it_is(api):
    found = await api.call("GET", f"{NODES}/n1")
    assert found["metadata"]["annotations"][ISOLATION_ANNOTATION].startswith("none:")
    assert found["metadata"]["labels"]["fleet.dev/parameter-plane"] == "roce-1"
    assert found["status"]["allocatable"]["cpu"] == "4"


@pytest.mark.parametrize(
    "path",
    ["/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/batch/v1/cronjobs",
     "/apis/policy/v1/poddisruptionbudgets", "/api/v1/persistentvolumeclaims"],
)  # fmt: skip
async def test_what_nobody_here_would_act_on_is_not_served(api, path):
    with pytest.raises(LookupError, match="could not find the requested resource"):
        await api.call("GET", path)


async def test_what_the_job_controller_does_not_do_is_refused(api):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"completionMode": "Indexed", "completions": 1, "parallelism": 1,
            "backoffLimitPerIndex": 1, "template": template}  # fmt: skip
    with pytest.raises(LookupError, match="does not count failures per index"):
        await api.create("jobs", {"metadata": {"name": "j"}, "spec": spec})
    del spec["backoffLimitPerIndex"]
    template["metadata"] = {"annotations": {"fleet.dev/index-offset": "four"}}
    with pytest.raises(LookupError, match='"four": must be a number of ranks'):
        await api.create("jobs", {"metadata": {"name": "j"}, "spec": spec})


async def test_a_pod_gets_its_priority_account_and_tolerations(api, pod):
    await api.call("POST", CLASSES, {"metadata": {"name": "low"}, "value": -5,
                                     "preemptionPolicy": "Never"})  # fmt: skip
    made = (await api.create("pods", pod("p", priorityClassName="low")))["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (-5, "Never")
    assert made["serviceAccountName"] == "default"
    assert {each["key"] for each in made["tolerations"]} == {
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
    }  # fmt: skip
    plain = (await api.create("pods", pod("q")))["spec"]
    assert plain["priority"] == 0
    with pytest.raises(LookupError, match="no PriorityClass with name none was found"):
        await api.create("pods", pod("r", priorityClassName="none"))
    await api.call(
        "POST", CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    )
    assert (await api.create("pods", pod("s")))["spec"]["priorityClassName"] == "usual"


async def test_services_get_addresses_and_node_ports_and_keep_them(api):
    ports = [{"port": 80}]
    first = await api.create("services", {"metadata": {"name": "a"}, "spec": {"ports": ports}})
    second = await api.create(
        "services", {"metadata": {"name": "b"}, "spec": {"ports": ports, "type": "NodePort"}}
    )
    addresses = {each["spec"]["clusterIP"] for each in (first, second)}
    assert len(addresses) == 2 and all(each.startswith("127.") for each in addresses)
    assert 30_000 <= second["spec"]["ports"][0]["nodePort"] < 32_768
    patched = await api.patch("services", "a", {"metadata": {"labels": {"x": "y"}}})
    assert patched["spec"]["clusterIP"] == first["spec"]["clusterIP"]
    headless = await api.create(
        "services", {"metadata": {"name": "c"}, "spec": {"clusterIP": "None"}}
    )
    assert headless["spec"]["clusterIPs"] == ["None"]
    for wanted, word in ((first["spec"]["clusterIP"], "already allocated"), ("10.0.0.1", "match")):
        spec = {"ports": ports, "clusterIP": wanted}
        with pytest.raises(LookupError, match=word):
            await api.create("services", {"metadata": {"name": "d"}, "spec": spec})
    taken = [{"port": 80, "nodePort": second["spec"]["ports"][0]["nodePort"]}]
    with pytest.raises(LookupError, match="already allocated"):
        spec = {"ports": taken, "type": "NodePort"}
        await api.create("services", {"metadata": {"name": "e"}, "spec": spec})


async def test_a_pod_is_bound_by_hand(api, pod):
    subject = pod("p", "sleep", "1000", schedulerName="mine")
    await api.create("pods", subject)
    binding = {"target": {"name": "n2"}}
    place = f"{api.place('pods')}/p/binding"
    with pytest.raises(LookupError, match='"n9" not found'):
        await api.call("POST", place, {"target": {"name": "n9"}})
    await api.call("POST", place, binding)
    found = await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Running")
    assert found["spec"]["nodeName"] == "n2"
    with pytest.raises(LookupError, match="already assigned"):
        await api.call("POST", place, binding)


async def test_an_eviction_is_a_deletion(api, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Running")
    place = f"{api.place('pods')}/p/eviction"
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}
    dry = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}
    assert (await api.call("POST", place, dry))["status"] == "Success"
    assert await api.list("pods")
    assert (await api.call("POST", place, body))["status"] == "Success"
    await api.until_gone("pods")


async def test_an_evicted_pod_says_why_it_ends_and_a_job_may_forgive_it(api, pod):
    evicted = pod("p", "sleep", "1000")
    evicted["metadata"]["finalizers"] = ["fleet.dev/test"]
    await api.create("pods", evicted)
    await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Running")
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}
    await api.call("POST", f"{api.place('pods')}/p/eviction", body)
    found = await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Failed")
    told = {each["type"]: each for each in found["status"]["conditions"]}["DisruptionTarget"]
    assert (told["status"], told["reason"]) == ("True", "EvictionByEvictionAPI")
    assert told["message"] == "Eviction API: evicting"
    headers = {"content-type": "application/merge-patch+json"}
    change = {"metadata": {"finalizers": None}}
    await api.call("PATCH", f"{api.place('pods')}/p", change, headers=headers)
    await api.until_gone("pods")

    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {"restartPolicy": "Never", **pod("x", "sleep", "1000")["spec"]}
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [ignore]},
            "template": {"spec": {**spec, "restartPolicy": "Never"}},
        },
    }
    await api.create("jobs", job)
    (first,) = await api.until("pods", lambda pods: pods and pods[0]["status"].get("startTime"))
    name = first["metadata"]["name"]
    body = {"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 1}}
    await api.call("POST", f"{api.place('pods')}/{name}/eviction", body)
    await api.until("pods", lambda pods: [p["metadata"]["name"] for p in pods] not in ([], [name]))
    (job,) = await api.list("jobs")
    assert not any(each["type"] == "Failed" for each in job["status"].get("conditions") or ())


async def test_a_cordoned_node_takes_no_more_pods_until_it_is_uncordoned(api, pod):
    headers = {"content-type": "application/merge-patch+json"}
    for name in ("n1", "n2"):
        change = {"spec": {"unschedulable": True}}
        await api.call("PATCH", f"{NODES}/{name}", change, headers=headers)
    await api.create("pods", pod("p"))
    await api.until(
        "events", lambda found: any("were unschedulable" in e["message"] for e in found)
    )
    change = {"spec": {"unschedulable": False}}
    await api.call("PATCH", f"{NODES}/n1", change, headers=headers)
    await api.until_one("pods", "p", lambda found: found["spec"].get("nodeName") == "n1")


async def test_priority_decides_who_comes_first(api, pod):
    await api.call("POST", CLASSES, {"metadata": {"name": "high"}, "value": 100})
    whole = {"resources": {"requests": {"cpu": "4"}}}
    for name in ("a", "b"):
        await api.create("pods", pod(name, "sleep", "1000", container=whole))
    await api.until("pods", lambda pods: all(p["spec"].get("nodeName") for p in pods))
    await api.create("pods", pod("low", "sleep", "1000", container=whole))
    await api.create(
        "pods", pod("high", "sleep", "1000", container=whole, priorityClassName="high")
    )
    await api.until_one("pods", "high", lambda found: found["status"].get("conditions"))
    await api.delete("pods", "a", gracePeriodSeconds=0)
    await api.until_one("pods", "high", lambda found: found["spec"].get("nodeName"))
    assert not (await api.get("pods", "low"))["spec"].get("nodeName")


async def test_events_that_repeat_are_counted(api, pod):
    script = {"livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1,
                                "failureThreshold": 9}}  # fmt: skip
    await api.create("pods", pod("p", "sleep", "1000", container=script))

    def twice(found):
        return [e for e in found if e["reason"] == "Unhealthy" and e["count"] > 1]

    found = await api.until("events", twice)
    assert len([each for each in found if each["reason"] == "Unhealthy"]) == 1


async def test_a_namespace_goes_with_everything_in_it(api, member, over_tls, pod):
    async with over_tls(member.kubeconfig, namespace="team") as team:
        await team.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        await team.create("pods", pod("p", "sleep", "1000"))
        await team.until_one("pods", "p", lambda found: found["status"]["phase"] == "Running")
        await team.call("DELETE", "/api/v1/namespaces/team")
        await team.until_gone("pods")
        with pytest.raises(LookupError, match="not found"):
            while True:
                await team.call("GET", "/api/v1/namespaces/team")
