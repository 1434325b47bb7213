"""Exec, attach, logs and port-forward of an embedded member, over TLS as any client does them."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import orjson
import pytest

PORT = 7007  # an unprivileged one: members run as anybody
ECHO = (
    "import asyncio, os\n"
    "async def echo(r, w):\n"
    "    while d := await r.read(999):\n"
    "        w.write(d.upper())\n"
    "async def main():\n"
    "    address = os.environ['FLEET_POD_IP']\n"
    f"    await (await asyncio.start_server(echo, address, {PORT})).serve_forever()\n"
    "asyncio.run(main())\n"
)


@pytest.fixture
async def session(member):
    connector = aiohttp.TCPConnector(ssl=member.ssl_context())
    async with aiohttp.ClientSession(member.server, connector=connector) as made:
        yield made


def running(found):
    return found["status"].get("phase") == "Running"


async def test_the_member_is_reached_by_its_kubeconfig_like_any_other(member, over_tls, pod):
    async with over_tls(member.kubeconfig) as api:
        version = await api.call("GET", "/version")
        assert version["gitVersion"].endswith("+embedded")
        assert (await api.call("GET", "/api/v1/namespaces/kube-system"))["metadata"]["uid"]
        await api.create("pods", pod("p", "echo", "hello"))
        await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Succeeded")
        assert await api.logs("p") == "hello\n"


async def channels(socket) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async for message in socket:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


def exec_path(*argv: str, **flags: bool) -> str:
    words = [f"command={word}" for word in argv]
    words += [f"{name}=true" for name, value in flags.items() if value]
    return "/api/v1/namespaces/default/pods/p/exec?" + "&".join(words)


async def test_exec_carries_input_output_and_the_exit_code(api, session, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", running)
    path = exec_path("sh", "-c", "cat; echo no >%262; exit 4", stdin=True, stdout=True, stderr=True)
    async with session.ws_connect(path, protocols=("v5.channel.k8s.io",)) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        big = b"x" * 300_000
        for at in range(0, len(big), 30_000):
            await socket.send_bytes(b"\0" + big[at : at + 30_000])
        await socket.send_bytes(b"\xff\0")
        found = await channels(socket)
    assert found[1] == big and found[2] == b"no\n"
    assert orjson.loads(found[3])["details"]["causes"][0]["message"] == "4"


async def test_exec_with_a_terminal(api, session, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", running)
    path = exec_path("sh", "-c", "read x; stty size; tty", stdin=True, stdout=True, tty=True)
    async with session.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
        await socket.send_bytes(b'\4{"Width":90,"Height":20}')
        await socket.send_bytes(b"\0go\n")
        found = await channels(socket)
    assert b"20 90" in found[1] and b"/dev/" in found[1]


async def test_an_exec_ends_with_its_client(api, session, pod, member):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", running)
    path = exec_path("sh", "-c", "echo $$; sleep 1000", stdout=True)
    async with session.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
        while len(message := await socket.receive_bytes()) < 2:
            pass
        pid = int(message[1:])
    while True:
        try:
            with open(f"/proc/{pid}/stat") as stat:  # noqa: ASYNC230, a file of the kernel's
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    break
        except (FileNotFoundError, ProcessLookupError):  # gone, before it was read or meanwhile
            break
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        (exec_path(stdout=True), 400, "at least one command"),
        (exec_path("true"), 400, "at least one of stdin"),
        (exec_path("true", stdout=True) + "&container=x", 400, "container x is not valid"),
        ("/api/v1/namespaces/default/pods/none/exec?command=x&stdout=1", 404, "not found"),
        ("/api/v1/namespaces/default/pods/p/log?tailLines=-1", 422, "tailLines"),
        ("/api/v1/namespaces/default/pods/p/log?container=x", 400, "not valid"),
        ("/api/v1/namespaces/default/pods/p/log?previous=true", 400, "previous terminated"),
        ("/api/v1/namespaces/default/pods/p/portforward", 405, "SPDY"),
    ],
)
async def test_bad_requests_are_answered_and_not_upgraded(api, session, pod, path, status, word):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", running)
    async with session.get(path) as answer:
        assert answer.status == status
        assert word in (await answer.json())["message"]


async def test_spdy_is_declined_so_that_clients_say_why(api, session, pod):
    await api.create("pods", pod("p", "sleep", "1000"))
    await api.until_one("pods", "p", running)
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    async with session.post(exec_path("true", stdout=True), headers=headers) as answer:
        assert answer.status == 405 and "WebSockets" in (await answer.json())["message"]


async def test_attach_shows_what_comes_and_passes_input(api, session, pod):
    container = {"stdin": True}
    script = "read line; echo got $line"
    await api.create("pods", pod("p", "sh", "-c", script, container=container))
    await api.until_one("pods", "p", running)
    path = "/api/v1/namespaces/default/pods/p/attach?stdin=true&stdout=true&stderr=true"
    async with session.ws_connect(path, protocols=("v5.channel.k8s.io",)) as socket:
        await socket.send_bytes(b"\0hello\n")
        found = await channels(socket)
    assert found[1] == b"got hello\n"
    assert orjson.loads(found[3])["status"] == "Success"


ATTACH = "/api/v1/namespaces/default/pods/p/attach?stdin=true&stdout=true&stderr=true"


async def test_the_end_of_the_input_ends_that_of_a_container_which_takes_it_once(api, session, pod):
    container = {"stdin": True, "stdinOnce": True}
    await api.create("pods", pod("p", "cat", container=container))
    await api.until_one("pods", "p", running)
    async with session.ws_connect(ATTACH, protocols=("v5.channel.k8s.io",)) as socket:
        await socket.send_bytes(b"\0hello\n")
        await socket.send_bytes(b"\xff\0")
        found = await channels(socket)
    assert found[1] == b"hello\n"
    await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Succeeded")


async def test_a_client_that_goes_is_the_end_of_the_input_too(api, session, pod):
    container = {"stdin": True, "stdinOnce": True}
    await api.create("pods", pod("p", "cat", container=container))
    await api.until_one("pods", "p", running)
    async with session.ws_connect(ATTACH, protocols=("v4.channel.k8s.io",)):
        pass
    await api.until_one("pods", "p", lambda found: found["status"]["phase"] == "Succeeded")


async def test_other_containers_take_the_input_of_several_clients(api, session, pod):
    await api.create("pods", pod("p", "cat", container={"stdin": True}))
    await api.until_one("pods", "p", running)
    for said in (b"one\n", b"two\n"):
        looks = ATTACH.replace("stdin=true&", "")
        async with session.ws_connect(looks, protocols=("v5.channel.k8s.io",)) as other:
            await other.send_bytes(b"\0nobody asked\n")
        async with session.ws_connect(ATTACH, protocols=("v5.channel.k8s.io",)) as socket:
            await socket.send_bytes(b"\0" + said)
            await socket.send_bytes(b"\xff\0")
            while said not in await socket.receive_bytes():
                pass
    assert await api.logs("p") == "one\ntwo\n"


async def test_a_log_is_followed_to_its_end(api, session, pod):
    script = "for i in 1 2 3; do echo $i; sleep 0.05; done"
    await api.create("pods", pod("p", "sh", "-c", script))
    await api.until_one("pods", "p", lambda found: found["status"]["phase"] != "Pending")
    async with session.get("/api/v1/namespaces/default/pods/p/log?follow=1") as answer:
        assert await answer.text() == "1\n2\n3\n"


async def test_a_port_is_forwarded(api, session, pod):
    probe = {"readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1}}
    await api.create("pods", pod("p", sys.executable, "-c", ECHO, container=probe))
    await api.until_one(
        "pods", "p", lambda found: found["status"].get("containerStatuses", [{}])[0].get("ready")
    )
    path = "/api/v1/namespaces/default/pods/p/portforward"
    async with session.ws_connect(
        f"{path}?ports={PORT}", protocols=("v4.channel.k8s.io",)
    ) as socket:
        assert await socket.receive_bytes() == b"\0" + PORT.to_bytes(2, "little")
        assert await socket.receive_bytes() == b"\1" + PORT.to_bytes(2, "little")
        await socket.send_bytes(b"\0hello")
        assert await socket.receive_bytes() == b"\0HELLO"
    async with session.ws_connect(
        f"{path}?ports={PORT + 1}", protocols=("v4.channel.k8s.io",)
    ) as bad:
        await bad.receive_bytes()
        await bad.receive_bytes()
        assert f"error forwarding port {PORT + 1}".encode() in await bad.receive_bytes()
