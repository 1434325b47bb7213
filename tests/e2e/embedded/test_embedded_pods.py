"""Pods of an embedded member are real processes: what they see, say, and come to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

PYTHON = sys.executable
SERVE = "import http.server as h, os; " + (
    "h.HTTPServer((os.environ['FLEET_POD_IP'], 8080), h.SimpleHTTPRequestHandler).serve_forever()"
)


def phase(wanted):
    return lambda found: found["status"].get("phase") == wanted


def state(found, container="main"):
    for status in (
        *found["status"].get("containerStatuses", ()),
        *found["status"].get("initContainerStatuses", ()),
    ):
        if status["name"] == container:
            return status["state"]
    return {}


def restarts(found):
    return sum(each["restartCount"] for each in found["status"].get("containerStatuses", ()))


def ready(found):
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in found["status"].get("conditions", ())
    )


def children() -> set[int]:
    """Every live process of this machine that was started below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


async def test_a_pod_runs_to_its_end_with_its_output_exit_code_and_message(api, pod):
    script = "echo out; echo err >&2; echo why > /dev/termination-log; exit 3"
    await api.create("pods", pod("p", "sh", "-c", script))
    found = await api.until_one("pods", "p", phase("Failed"))
    ended = state(found)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "why\n")
    assert sorted((await api.logs("p")).split()) == ["err", "out"]
    assert await api.logs("p", stream="Stderr") == "err\n"
    assert found["status"]["podIP"].startswith("127.")


async def test_the_environment_is_the_pods_and_nothing_of_ours(api, pod, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_GATEWAY", "x")
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(NAME)-x"},
    ]
    subject = pod("p", "sh", "-c", "env; pwd", container={"env": env}, hostname="h0")
    await api.create("pods", subject)
    found = await api.until_one("pods", "p", phase("Succeeded"))
    seen = dict(line.split("=", 1) for line in (await api.logs("p")).splitlines() if "=" in line)
    address = found["status"]["podIP"]
    assert seen["BOTH"] == "p-x" and seen["IP"] == seen["FLEET_POD_IP"] == address
    assert seen["HOSTNAME"] == "h0"
    assert "SECRET_OF_THE_GATEWAY" not in seen
    assert not (await api.logs("p")).splitlines()[-1].startswith(os.getcwd())


async def test_volumes_are_at_their_mount_paths(api, pod):
    await api.create("configmaps", {"metadata": {"name": "cm"}, "data": {"a": "A\n", "b": "B\n"}})
    await api.create(
        "secrets", {"metadata": {"name": "sec"}, "stringData": {}, "data": {"t": "VAo="}}
    )
    mounts = [
        {"name": "cm", "mountPath": "/etc/fleet-test/cm"},
        {"name": "cm", "mountPath": "/fleet-one/b.txt", "subPath": "b"},
        {"name": "sec", "mountPath": "/run-secret"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "down", "mountPath": "/down"},
    ]
    script = (
        "cat /etc/fleet-test/cm/a /fleet-one/b.txt /run-secret/t /down/labels; "
        "echo S > /scratch/x && cat /scratch/x"
    )
    subject = pod("p", "sh", "-c", script, container={"volumeMounts": mounts}, volumes=[
        {"name": "cm", "configMap": {"name": "cm"}},
        {"name": "sec", "secret": {"secretName": "sec"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "down", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ])  # fmt: skip
    subject["metadata"]["labels"] = {"app": "x"}
    await api.create("pods", subject)
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == 'A\nB\nT\napp="x"S\n'
    assert not os.path.exists("/etc/fleet-test") and not os.path.exists("/scratch")  # noqa: ASYNC240


async def test_a_volume_follows_its_config_map(api, pod):
    await api.create("configmaps", {"metadata": {"name": "cm"}, "data": {"a": "old"}})
    mount = {"volumeMounts": [{"name": "cm", "mountPath": "/cm"}]}
    script = "until grep -q new /cm/a; do sleep 0.02; done; cat /cm/a"
    volumes = [{"name": "cm", "configMap": {"name": "cm"}}]
    await api.create("pods", pod("p", "sh", "-c", script, container=mount, volumes=volumes))
    await api.until_one("pods", "p", phase("Running"))
    await api.patch("configmaps", "cm", {"data": {"a": "new"}})
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "new\n"


async def test_a_pod_whose_config_map_is_missing_waits_bound_without_address(api, pod):
    volumes = [{"name": "gate", "configMap": {"name": "p-gate"}}]
    mount = {"volumeMounts": [{"name": "gate", "mountPath": "/gate"}]}
    await api.create("pods", pod("p", "cat", "/gate/peers", container=mount, volumes=volumes))
    found = await api.until_one("pods", "p", lambda found: state(found))
    assert found["spec"]["nodeName"] and "podIP" not in found["status"]
    assert state(found) == {"waiting": {"reason": "ContainerCreating"}}
    events = await api.until(
        "events", lambda found: any(e["reason"] == "FailedMount" for e in found)
    )
    (failed,) = [each for each in events if each["reason"] == "FailedMount"]
    assert failed["message"].endswith('configmap "p-gate" not found')
    await api.create("configmaps", {"metadata": {"name": "p-gate"}, "data": {"peers": "me"}})
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "me\n"


async def test_a_variable_whose_config_map_is_missing_waits_too(api, pod):
    reference = {"configMapKeyRef": {"name": "later", "key": "k"}}
    env = [{"name": "K", "valueFrom": reference}]
    await api.create("pods", pod("p", "sh", "-c", "echo $K", container={"env": env}))
    found = await api.until_one(
        "pods", "p", lambda found: "message" in state(found).get("waiting", {})
    )
    assert state(found)["waiting"] == {
        "reason": "CreateContainerConfigError", "message": 'configmap "later" not found',
    }  # fmt: skip
    await api.create("configmaps", {"metadata": {"name": "later"}, "data": {"k": "v"}})
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "v\n"


@pytest.mark.parametrize(
    ("change", "reason", "word"),
    [
        ({"container": {"command": None}}, "CreateContainerConfigError", "only a name here"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "VolumeRefused", "hostPath"),
    ],
)
async def test_what_cannot_be_had_is_refused_with_a_reason(api, pod, change, reason, word):
    subject = pod("p", "true", **change)
    if subject["spec"]["containers"][0]["command"] is None:
        del subject["spec"]["containers"][0]["command"]
    await api.create("pods", subject)
    found = await api.until_one(
        "pods", "p", lambda found: "message" in state(found).get("waiting", {})
    )
    waiting = state(found)["waiting"]
    assert waiting["reason"] == reason and word in waiting["message"]
    await api.until("events", lambda found: any(word in e["message"] for e in found))


async def test_a_program_that_is_not_there(api, pod):
    await api.create("pods", pod("p", "no-such-program"))
    found = await api.until_one("pods", "p", phase("Failed"))
    ended = state(found)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert ended["message"] == 'exec: "no-such-program": executable file not found in $PATH'


async def test_a_program_that_is_not_there_is_tried_again(api, pod):
    await api.create("pods", pod("p", "no-such-program", restartPolicy="Always"))
    found = await api.until_one("pods", "p", lambda found: restarts(found) >= 3)
    last = found["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["reason"] == "StartError"


async def test_init_containers_run_before_and_sidecars_beside(api, pod):
    init = [
        {"name": "side", "image": "x", "restartPolicy": "Always", "command": ["sleep", "1000"]},
        {"name": "first", "image": "x", "command": ["sh", "-c", "echo 1 > /s/order"],
         "volumeMounts": [{"name": "s", "mountPath": "/s"}]},
    ]  # fmt: skip
    script = "echo 2 >> /s/order; cat /s/order"
    subject = pod("p", "sh", "-c", script, initContainers=init,
                  container={"volumeMounts": [{"name": "s", "mountPath": "/s"}]},
                  volumes=[{"name": "s", "emptyDir": {}}])  # fmt: skip
    await api.create("pods", subject)
    found = await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "1\n2\n"
    assert state(found, "side")["terminated"]["exitCode"] == 143


async def test_an_init_container_that_fails_fails_the_pod(api, pod):
    init = [{"name": "first", "image": "x", "command": ["false"]}]
    await api.create("pods", pod("p", "true", initContainers=init))
    found = await api.until_one("pods", "p", phase("Failed"))
    assert state(found, "first")["terminated"]["exitCode"] == 1
    assert "waiting" in state(found)


async def test_what_fails_is_restarted_with_growing_delays_and_keeps_its_last_log(api, pod):
    await api.create("pods", pod("p", "sh", "-c", "echo run; exit 1", restartPolicy="Always"))
    found = await api.until_one("pods", "p", lambda found: restarts(found) >= 3)
    status = found["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 1
    await api.until_one(
        "pods",
        "p",
        lambda found: state(found).get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )
    assert await api.logs("p", previous="true") == "run\n"


async def test_success_is_not_restarted_on_failure(api, pod):
    script = "[ -e /s/again ] || { touch /s/again; exit 1; }"
    subject = pod("p", "sh", "-c", script, restartPolicy="OnFailure",
                  container={"volumeMounts": [{"name": "s", "mountPath": "/s"}]},
                  volumes=[{"name": "s", "emptyDir": {}}])  # fmt: skip
    await api.create("pods", subject)
    found = await api.until_one("pods", "p", phase("Succeeded"))
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_deletion_asks_first_and_then_kills(api, pod):
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    deaf = "trap '' TERM; echo up; while :; do sleep 0.02; done"
    for name, script, grace_s in (("polite", polite, 30), ("deaf", deaf, 1)):
        await api.create("pods", pod(name, "sh", "-c", script))
        await api.until_one("pods", name, phase("Running"))
        following = await api.send(
            "GET", f"{api.place('pods')}/{name}/log", query={"follow": "true"}
        )
        text = await anext(following.body)
        await api.delete("pods", name, gracePeriodSeconds=grace_s)
        text += b"".join([piece async for piece in following.body])
        assert (b"bye" in text) is (name == "polite")
        await api.until_gone("pods", fieldSelector=f"metadata.name={name}")


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="/proc is not mounted: nothing tells of processes here"
)
async def test_nothing_of_a_pod_is_left_when_it_ends(api, pod):
    before = children()
    script = "setsid sleep 1000 & (sleep 1000 &) ; sleep 1000 & echo up; exec sleep 1000"
    await api.create("pods", pod("p", "sh", "-c", script))
    await api.until_one("pods", "p", phase("Running"))
    following = await api.send("GET", f"{api.place('pods')}/p/log", query={"follow": "true"})
    await anext(following.body)
    assert len(children() - before) >= 4
    await api.delete("pods", "p", gracePeriodSeconds=0)
    await api.until_gone("pods")
    await following.aclose()
    while children() - before:  # noqa: ASYNC110, the end of a process that is none of ours
        await asyncio.sleep(0.01)


async def test_a_signal_is_an_exit_code(api, member, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", phase("Running"))
    worker = member.cluster.kubelet.worker(("default", "p"))
    await worker.running["main"].signal(signal.SIGKILL)
    ended = state(await api.until_one("pods", "p", phase("Failed")))["terminated"]
    assert (ended["exitCode"], ended["signal"]) == (137, 9)


async def test_pods_reach_each_other_at_their_addresses(api, pod):
    probe = {"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}
    await api.create("pods", pod("server", PYTHON, "-c", SERVE, container=probe))
    server = await api.until_one("pods", "server", ready)
    url = f"http://{server['status']['podIP']}:8080/"
    ask = f"import urllib.request as u; print(u.urlopen({url!r}).status)"
    await api.create("pods", pod("client", PYTHON, "-c", ask))
    await api.until_one("pods", "client", phase("Succeeded"))
    assert await api.logs("client") == "200\n"


async def test_a_probe_that_fails_restarts_the_container(api, pod):
    probe = {"exec": {"command": ["test", "-e", "/nonexistent-file"]}, "periodSeconds": 1,
             "failureThreshold": 1, "terminationGracePeriodSeconds": 1}  # fmt: skip
    subject = pod("p", "sleep", "1000", container={"livenessProbe": probe}, restartPolicy="Always")
    await api.create("pods", subject)
    await api.until_one("pods", "p", lambda found: restarts(found) >= 1)
    await api.until("events", lambda found: any(e["reason"] == "Unhealthy" for e in found))


async def test_a_pod_has_no_longer_than_its_deadline(api, pod):
    await api.create("pods", pod("p", "sleep", "1000", activeDeadlineSeconds=1))
    found = await api.until_one("pods", "p", phase("Failed"))
    assert found["status"]["reason"] == "DeadlineExceeded"


async def test_the_next_pod_of_a_name_is_another(api, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", phase("Running"))
    await api.delete("pods", "p", gracePeriodSeconds=0)
    await api.until_gone("pods")
    await api.create("pods", pod("p", "echo", "second"))
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "second\n"


async def test_names_of_headless_services_resolve_where_files_can_be_shown(api, member, pod):
    if not member.mounted:
        pytest.skip("without a mount namespace names go by environment")
    service = {"metadata": {"name": "train"}, "spec": {"clusterIP": "None"}}
    await api.create("services", service)
    await api.create("endpointslices", {
        "metadata": {"name": "train-x", "labels": {"kubernetes.io/service-name": "train"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.64.9.9"], "hostname": "train-0"}],
    })  # fmt: skip
    ask = "import socket; print(socket.gethostbyname('train-0.train'), socket.gethostname())"
    await api.create("pods", pod("p", PYTHON, "-c", ask, hostname="train-1", subdomain="train"))
    await api.until_one("pods", "p", phase("Succeeded"))
    assert await api.logs("p") == "127.64.9.9 train-1\n"
