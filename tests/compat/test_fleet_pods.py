"""Pods of the fleet: `kubectl run` at the gateway, and all that one does with a pod after that.

The namespace is the fleet's alone; it makes it in the member that a Pod goes to.
"""

from __future__ import annotations

import json
import re
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.controlplane

FOREVER = "--annotations=testbed.fleet.dev/run-for=forever"


@pytest.fixture(scope="module")
def place(kubectl: Any) -> Iterator[str]:
    namespace = f"pods-{kubectl.version.replace('.', '-')}"
    kubectl("create", "namespace", namespace)
    yield namespace
    kubectl("delete", "namespace", namespace)
    for member in ("east", "west"):  # what the fleet made there stays: leave it as it was found
        there = kubectl.at(member)
        there("delete", "namespace", namespace, "--ignore-not-found")
        there("delete", "priorityclass", "fleet-hold", "--ignore-not-found")


@pytest.fixture
def speak(east: Any, west: Any) -> Any:
    """`with speak("east") as say`: each `say()` has the containers of that member write a line."""

    @contextmanager
    def speaking(member: str) -> Iterator[Callable[[], None]]:
        log = {"east": east, "west": west}[member].layout.root / "pod.log"
        before = log.read_bytes()

        def say() -> None:
            with log.open("a") as file:
                file.write("2026-01-01T00:00:09.000000000Z stdout F just now\n")

        try:
            yield say
        finally:
            log.write_bytes(before)

    return speaking


def what_is_said_of(kubectl: Any, place: str, name: str) -> str:
    """The Pod and its Placement at the gateway, and what the members have."""
    looks = [
        kubectl.run("get", f"pod/{name}", f"placement/pod-{name}", "-n", place, "-o", "yaml"),
        *(
            kubectl.at(member).run("get", "pods,cm,events", "-n", place, "-o", "yaml")
            for member in ("east", "west")
        ),
    ]
    return "\n".join(look.out + look.err for look in looks)


def run(kubectl: Any, place: str, name: str, *arguments: str) -> dict[str, Any]:
    """A Pod that is ready."""
    kubectl("run", name, "--image=registry.example/web:1", "-n", place, *arguments)
    wait = ("wait", "--for=condition=Ready", f"pod/{name}", "-n", place, "--timeout=60s")
    waited = kubectl.run(*wait)
    assert waited.code == 0, f"{waited}\n{what_is_said_of(kubectl, place, name)}"
    found: dict[str, Any] = kubectl.json("get", "pod", name, "-n", place)
    return found


@pytest.fixture(scope="module")
def web(kubectl: Any, place: str) -> dict[str, Any]:
    """One to look at."""
    return run(kubectl, place, "web", "--labels=app=web,tier=front")


def cluster(pod: dict[str, Any]) -> str:
    found: str = pod["metadata"]["labels"]["fleet.dev/cluster"]
    return found


def shard_of(kubectl: Any, pod: dict[str, Any]) -> dict[str, Any]:
    """What stands for it in its member, past the gateway."""
    metadata = pod["metadata"]
    there = kubectl.at(cluster(pod))
    found: dict[str, Any] = there.json(
        "get", "pod", f"{metadata['name']}-g1-{cluster(pod)}", "-n", metadata["namespace"]
    )
    return found


def test_it_is_shown_once_and_under_its_own_name(
    kubectl: Any, place: str, web: dict[str, Any]
) -> None:
    shard = shard_of(kubectl, web)
    rows = [row for row in kubectl.table("get", "pods", "-A", "-o", "wide") if "web" in row["NAME"]]
    mine = [row for row in rows if row["NAMESPACE"].startswith(place)]
    assert [(row["NAMESPACE"], row["NAME"], row["CLUSTER"]) for row in mine] == [
        (place, "web", cluster(web))
    ]
    assert mine[0]["NODE"] == f"{shard['spec']['nodeName']}.{cluster(web)}"
    assert (mine[0]["READY"], mine[0]["STATUS"]) == ("1/1", "Running")
    assert mine[0]["IP"] == shard["status"]["podIP"]
    chosen = kubectl("get", "pods", "-A", "-l", f"fleet.dev/cluster={cluster(web)}", "-o", "name")
    assert "pod/web\n" in chosen
    inside = f"{place}.{cluster(web)}"
    assert kubectl("get", "pods", "-n", inside, "-o", "name") == ""
    exact = kubectl("get", "pod", shard["metadata"]["name"], "-n", inside, "-o", "name")
    assert exact == f"pod/{shard['metadata']['name']}\n"


def test_its_shard_can_be_worked_with_and_stays_out_of_sight(
    kubectl: Any, place: str, web: dict[str, Any]
) -> None:
    shard = shard_of(kubectl, web)["metadata"]["name"]
    inside = ("-n", f"{place}.{cluster(web)}")
    kubectl("label", "pod", shard, *inside, "seen=there")
    kubectl("annotate", "pod", shard, *inside, "note=there")
    assert kubectl.json("get", "pod", shard, *inside)["metadata"]["labels"]["seen"] == "there"
    assert kubectl("get", "pods", *inside, "-o", "name") == ""
    every = kubectl("get", "--raw", f"/api/v1/namespaces/{inside[1]}/pods?freshness=complete")
    assert json.loads(every)["items"] == []


def test_on_its_node_it_is_found(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    node = web["spec"]["nodeName"]
    there = kubectl("get", "pods", "-A", "--field-selector", f"spec.nodeName={node}")
    assert re.search(rf"^{place} +web ", there, re.MULTILINE)
    assert re.search(rf"^  {place} +web ", kubectl("describe", "node", node), re.MULTILINE)


def test_describe_tells_what_happened_to_it(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    said = kubectl("describe", "pod", "web", "-n", place)
    assert f"{web['spec']['nodeName']}/" in said
    assert re.search(r"Normal +Scheduled ", said)
    assert re.search(r"Normal +Committed .*fleet-dispatch", said)
    assert "g1-" not in said.partition("Events:")[0]


def test_logs_exec_and_attach_reach_it(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    where = ("-n", place)
    logs, tail, labelled, inside = kubectl.together(
        ("logs", "web", *where),
        ("logs", "web", *where, "--tail=1", "-c", "web"),
        ("logs", *where, "-l", "app=web", "--prefix"),
        ("exec", "web", *where, "--", "sh", "-c", "echo in $FLEET_MEMBER"),
    )
    assert logs.splitlines() == [f"member {cluster(web)}", "started", "ready"]
    assert tail == "ready\n"
    assert f"[pod/web/web] member {cluster(web)}" in labelled
    assert inside == f"in {cluster(web)}\n"


def test_attach_shows_what_it_writes(
    kubectl: Any, place: str, web: dict[str, Any], speak: Any
) -> None:
    with kubectl.running("attach", "web", "-n", place) as running, speak(cluster(web)) as say:
        kubectl.until(lambda: say() or any("just now" in line for line in running.seen))


def test_refusals_are_of_the_fleets_pod(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    err = kubectl.refused("logs", "web", "-n", place, "-c", "nope")
    assert "container nope is not valid for pod web" in err
    assert 'pods "nope" not found' in kubectl.refused("logs", "nope", "-n", place)


def test_exit_codes_come_back(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    failing = ("--", "sh", "-c", "echo lost >&2; exit 7")
    ended = kubectl.run("exec", "web", "-n", place, *failing)
    shard = shard_of(kubectl, web)["metadata"]["name"]
    direct = kubectl.at(cluster(web)).run("exec", shard, "-n", place, *failing)
    assert (ended.code, ended.out, ended.err) == (direct.code, direct.out, direct.err)
    echoed = kubectl("exec", "-i", "web", "-n", place, "--", "cat", stdin="there and back\n" * 1000)
    assert echoed == "there and back\n" * 1000


def test_a_port_is_forwarded(kubectl: Any, place: str, web: dict[str, Any]) -> None:
    with kubectl.running("port-forward", "pod/web", "-n", place, ":8080") as running:
        local = re.search(r"127\.0\.0\.1:(\d+)", running.line(r"Forwarding from 127\.0\.0\.1:"))
        assert local is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{local[1]}/", timeout=60) as answer:
            assert answer.read() == f"member {cluster(web)}\n".encode()


def test_logs_follow_as_soon_as_it_is_made(kubectl: Any, place: str) -> None:
    kubectl("run", "fresh", "--image=x", "-n", place)
    with kubectl.running("logs", "-f", "fresh", "-n", place, "--pod-running-timeout=60s") as logs:
        kubectl("wait", "--for=condition=Ready", "pod/fresh", "-n", place, "--timeout=60s")
        if not logs.seen:  # too early for the container: as on one cluster it may be refused
            assert "ready" in kubectl("logs", "fresh", "-n", place)
    kubectl("delete", "pod", "fresh", "-n", place)


def test_what_is_changed_follows(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "changed", "--labels=app=changed,gone=soon")
    where = ("-n", place)
    kubectl("label", "pod", "changed", *where, "tier=back", "gone-")
    kubectl("annotate", "pod", "changed", *where, "note=x")
    kubectl("set", "image", "pod/changed", *where, "changed=registry.example/web:2")

    def followed() -> bool:
        shard = shard_of(kubectl, pod)
        metadata, image = shard["metadata"], shard["spec"]["containers"][0]["image"]
        return (
            metadata["labels"].get("tier") == "back"
            and "gone" not in metadata["labels"]
            and metadata["annotations"].get("note") == "x"
            and image == "registry.example/web:2"
        )

    kubectl.until(followed)
    assert kubectl.json("get", "pod", "changed", *where)["spec"]["containers"][0]["image"] == (
        "registry.example/web:2"
    )
    kubectl("delete", "pod", "changed", *where)


def test_a_debugging_container_joins_it(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "odd")
    kubectl("debug", "odd", "-n", place, "--image=tools", "-c", "look", "--", "sleep", "600")
    found = kubectl.json("get", "pod", "odd", "-n", place)
    assert [each["name"] for each in found["spec"]["ephemeralContainers"]] == ["look"]
    shard = shard_of(kubectl, pod)
    assert [each["name"] for each in shard["spec"]["ephemeralContainers"]] == ["look"]
    kubectl.until(
        lambda: (
            kubectl.json("get", "pod", "odd", "-n", place)["status"]
            .get("ephemeralContainerStatuses", [{}])[0]
            .get("name")
            == "look"
        )
    )
    kubectl("delete", "pod", "odd", "-n", place)


def test_a_watch_sees_it_come_run_and_go(kubectl: Any, place: str) -> None:
    with kubectl.running("get", "pods", "-n", place, "-w", "--no-headers") as running:
        run(kubectl, place, "brief")
        kubectl("delete", "pod", "brief", "-n", place)
        running.line(r"^brief +fleet +0/1 +Pending")
        running.line(r"^brief +(east|west) +1/1 +Running")
        running.line(r"^brief +(east|west) +\S+ +Terminating")


def test_deleting_it_leaves_nothing(kubectl: Any, place: str) -> None:
    kubectl("create", "configmap", "settings", "-n", place, "--from-literal=colour=green")
    source = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    spec = {"containers": [{"name": "gone", "image": "x", **source}]}
    pod = run(kubectl, place, "gone", f"--overrides={json.dumps({'spec': spec})}")
    there = kubectl.at(cluster(pod))
    assert there.json("get", "cm", "settings", "-n", place)["data"] == {"colour": "green"}
    assert kubectl("delete", "pod", "gone", "-n", place).startswith('pod "gone" deleted')
    assert 'pods "gone" not found' in kubectl.refused("get", "pod", "gone", "-n", place)
    assert "gone" not in there("get", "pods", "-n", place, "-o", "name")
    there.until(lambda: "gone" not in there("get", "cm", "-n", place, "-o", "name"))
    there.until(lambda: "settings" not in there("get", "cm", "-n", place, "-o", "name"))


def test_forced_it_goes_at_once(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "forced")
    kubectl("delete", "pod", "forced", "-n", place, "--force", "--grace-period=0")
    assert "not found" in kubectl.refused("get", "pod", "forced", "-n", place)
    there = kubectl.at(cluster(pod))
    there.until(lambda: "forced" not in there("get", "pods", "-n", place, "-o", "name"))


def test_an_interactive_run_attaches_to_it(kubectl: Any, place: str, speak: Any) -> None:
    with kubectl.running(
        "run", "once", "--rm", "-i", "--image=x", "-n", place, "--restart=Never", FOREVER
    ) as running:  # fmt: skip
        kubectl.until(lambda: kubectl.run("get", "pod", "once", "-n", place).code == 0)
        kubectl("wait", "--for=condition=Ready", "pod/once", "-n", place, "--timeout=60s")
        pod = kubectl.json("get", "pod", "once", "-n", place)
        with speak(cluster(pod)) as say:
            kubectl.until(lambda: say() or any("just now" in line for line in running.seen))
    kubectl("delete", "pod", "once", "-n", place, "--ignore-not-found")


def test_an_end_is_kept_when_its_member_forgets_it(kubectl: Any, place: str) -> None:
    kubectl("run", "done", "--image=x", "-n", place, "--restart=Never",
            "--annotations=testbed.fleet.dev/run-for=1s")  # fmt: skip
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/done", "-n", place,
            "--timeout=60s")  # fmt: skip
    pod = kubectl.json("get", "pod", "done", "-n", place)
    shard = shard_of(kubectl, pod)["metadata"]["name"]
    assert "ready" in kubectl("logs", "done", "-n", place)
    kubectl.at(cluster(pod))("delete", "pod", shard, "-n", place)
    later = kubectl.json("get", "pod", "done", "-n", place)
    assert later["status"] == pod["status"]
    kubectl("delete", "pod", "done", "-n", place)


def test_a_pod_taken_away_in_its_member_goes(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "taken")
    shard = shard_of(kubectl, pod)["metadata"]["name"]
    kubectl.at(cluster(pod))("delete", "pod", shard, "-n", place)
    kubectl("wait", "--for=delete", "pod/taken", "-n", place, "--timeout=60s")
    assert "taken" not in kubectl.at(cluster(pod))("get", "pods", "-n", place, "-o", "name")


def test_draining_its_node_evicts_it(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "drained", "--labels=app=drained")
    node = pod["spec"]["nodeName"]
    out = kubectl("drain", node, "--pod-selector=app=drained", "--force", "--ignore-daemonsets",
                  "--timeout=60s")  # fmt: skip
    kubectl("uncordon", node)
    assert f"evicting pod {place}/drained" in out
    assert "not found" in kubectl.refused("get", "pod", "drained", "-n", place)


def test_a_budget_of_the_member_forbids_an_eviction(kubectl: Any, place: str) -> None:
    pod = run(kubectl, place, "guarded", "--labels=app=guarded")
    there = kubectl.at(cluster(pod))
    there("create", "pdb", "guarded", "-n", place, "--selector=app=guarded", "--min-available=1")
    there.until(
        lambda: there.json("get", "pdb", "guarded", "-n", place)["status"].get("observedGeneration")
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}}
    path = f"/api/v1/namespaces/{place}/pods/guarded/eviction"
    err = kubectl.refused("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert "disruption budget" in err
    there("delete", "pdb", "guarded", "-n", place)
    kubectl("delete", "pod", "guarded", "-n", place)


def test_one_that_fits_nowhere_says_so(kubectl: Any, place: str) -> None:
    asked = {"resources": {"requests": {"cpu": "4000"}}}
    spec = {"containers": [{"name": "vast", "image": "x", **asked}]}
    kubectl("run", "vast", "--image=x", "-n", place, f"--overrides={json.dumps({'spec': spec})}")

    def waiting() -> dict[str, Any] | None:
        pod = kubectl.json("get", "pod", "vast", "-n", place)
        conditions = pod["status"].get("conditions") or ()
        return next((c for c in conditions if c.get("reason") == "Unschedulable"), None)

    told = kubectl.until(waiting)
    assert (told["type"], told["status"]) == ("PodScheduled", "False")
    for command in (("logs", "vast"), ("exec", "vast", "--", "true")):
        err = kubectl.refused(command[0], "-n", place, *command[1:])
        assert f"pod vast does not have a host assigned: {told['message']}" in err
    assert told["message"][:60] in kubectl("describe", "pod", "vast", "-n", place)
    kubectl("delete", "pod", "vast", "-n", place)


def test_a_namespace_of_the_members_own_is_entered_once_it_says_so(
    kubectl: Any, place: str
) -> None:
    namespace = f"{place}-own"
    for there in (kubectl.at("east"), kubectl.at("west"), kubectl):
        there("create", "namespace", namespace)
    kubectl("run", "guest", "--image=x", "-n", namespace)

    def refused() -> bool:
        pod = kubectl.json("get", "pod", "guest", "-n", namespace)
        conditions = pod["status"].get("conditions") or ()
        return any("does not take the fleet's work" in c.get("message", "") for c in conditions)

    kubectl.until(refused)
    kubectl.at("west")("label", "namespace", namespace, "fleet.dev/accept=true")
    kubectl("wait", "--for=condition=Ready", "pod/guest", "-n", namespace, "--timeout=60s")
    assert cluster(kubectl.json("get", "pod", "guest", "-n", namespace)) == "west"
    for there in (kubectl, kubectl.at("east"), kubectl.at("west")):
        there("delete", "namespace", namespace)


def test_a_node_of_a_member_may_be_named(kubectl: Any, place: str) -> None:
    def on(node: str) -> str:
        return f"--overrides={json.dumps({'spec': {'nodeName': node}})}"

    pod = run(kubectl, place, "there", on("n2.west"))
    assert (cluster(pod), pod["spec"]["nodeName"]) == ("west", "n2.west")
    kubectl("delete", "pod", "there", "-n", place)
    err = kubectl.refused("run", "where", "--image=x", "-n", place, on("n2"))
    assert "spec.nodeName" in err
    assert "NODE.MEMBER" in err


def test_what_is_not_run_yet_says_so_at_once(kubectl: Any, place: str) -> None:
    ended = kubectl.run("create", "deployment", "later", "--image=x", "-n", place)
    assert ended.code == 0
    assert ended.err.startswith("Warning: the fleet does not run a Deployment yet")
    kubectl.until(lambda: "NotPlaced" in kubectl("describe", "deployment", "later", "-n", place))
    there = kubectl.run("create", "deployment", "native", "--image=x", "-n", f"{place}.east")
    assert "does not run" not in there.err
    kubectl("delete", "deployment", "later", "-n", place)
