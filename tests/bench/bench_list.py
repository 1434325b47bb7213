"""LIST through the gateway beside one kube-apiserver that holds the same objects.

Two members with half the pods each and a third API server with all of them; calls to gateway and
API server alternate in one run. A ratio is API server / gateway: above 1 the gateway is faster.
`resourceVersion=0` and unset are both taken and the worse counts. CPU is that of the gateway's
process against that of the kube-apiserver's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pods
from gateway_process import GatewayProcess
from rawclient import RawClient

from fleet.testbed.local import API_ONLY, LocalCluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TARGETS = {
    "list_all_speedup": 3.5,
    "list_all_cpu_speedup": 6.0,
    "list_gzip_speedup": 3.0,
    "list_page_speedup": 4.0,
    "list_page_gzip_speedup": 2.5,
    "list_table_speedup": 3.0,
}
MEMORY_KEY, MEMORY_BOUND = "rss_per_byte_held", 1.5


@dataclass
class Sample:
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.seconds) * 1e3

    @property
    def mean_cpu_ms(self) -> float:
        return statistics.mean(self.cpu_s) * 1e3


@dataclass(frozen=True)
class Peer:
    client: RawClient
    pid: int

    def cpu_s(self) -> float:
        """User and system time of the process so far, from the scheduler's own accounting."""
        return (
            sum(
                int(Path(task, "schedstat").read_text().split()[0])
                for task in Path(f"/proc/{self.pid}/task").iterdir()
            )
            / 1e9
        )


def measure(peer: Peer, call: Call, sample: Sample) -> None:
    cpu_s, started_s = peer.cpu_s(), time.perf_counter()
    call.run(peer.client)
    sample.seconds.append(time.perf_counter() - started_s)
    sample.cpu_s.append(peer.cpu_s() - cpu_s)


@dataclass(frozen=True)
class Call:
    """One thing a client does. `pages` follows continue tokens, `limit` objects a page."""

    key: str
    revision: str
    gzip: bool = False
    accept: str = "application/json"
    pages: bool = False

    def run(self, client: RawClient) -> None:
        path = "/api/v1/pods?"
        if self.revision:
            path += f"resourceVersion={self.revision}&"
        if not self.pages:
            client.get(path, accept=self.accept, gzip=self.gzip)
            return
        token = ""
        while True:
            after = f"&continue={token}" if token else ""
            client.get(f"{path}limit=500{after}", accept=self.accept, gzip=self.gzip)
            token = client.continue_token()
            path = "/api/v1/pods?"
            if not token:
                return


def calls() -> list[Call]:
    both = ("0", "")
    return [
        *(Call("list_all", rv) for rv in both),
        *(Call("list_gzip", rv, gzip=True) for rv in both),
        # the API server ignores a limit at resourceVersion=0: pages are of the most recent state
        Call("list_page", "", pages=True),
        Call("list_page_gzip", "", gzip=True, pages=True),
        *(Call("list_table", rv, accept=TABLE) for rv in both),
    ]


def client_of(cluster: LocalCluster) -> RawClient:
    return RawClient(cluster.server, ca=cluster.ca, cert=cluster.admin_cert, key=cluster.admin_key)


def pid_of_apiserver(cluster: LocalCluster) -> int:
    port = cluster.server.rpartition(":")[2]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = process.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if b"kube-apiserver" in command and f"--secure-port={port}".encode() in command:
            return int(process.name)
    raise RuntimeError("the API server's process was not found")


async def run(options: argparse.Namespace) -> dict[str, float]:
    half = options.pods // 2
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        east, west, alone = [
            LocalCluster(name, components=API_ONLY, network=number)
            for number, name in enumerate(("east", "west", "alone"), 1)
        ]
        for cluster in (east, west, alone):
            await stack.enter_async_context(cluster)
        note("two members without pods: what the gateway takes by itself")
        with GatewayProcess(root / "empty", [east, west]) as gateway:
            RawClient(gateway.url, **gateway.identity).get("/api/v1/pods?")
            empty_bytes = gateway.settled_rss_bytes()
        note(f"{options.pods} pods into the members and the API server beside them")
        first, second = range(half), range(half, options.pods)
        await pods.fill(east, prefix="e", numbers=first)
        await pods.fill(west, prefix="w", numbers=second)
        await pods.fill(alone, prefix="e", numbers=first)
        await pods.fill(alone, prefix="w", numbers=second)
        gateway = stack.enter_context(GatewayProcess(root / "full", [east, west]))
        ours = Peer(RawClient(gateway.url, **gateway.identity), gateway.pid)
        theirs = Peer(client_of(alone), pid_of_apiserver(alone))
        return compare(ours, theirs, options, gateway, empty_bytes)


def compare(
    ours: Peer, theirs: Peer, options: argparse.Namespace, gateway: GatewayProcess, empty: int
) -> dict[str, float]:
    samples: dict[Call, tuple[Sample, Sample]] = {c: (Sample(), Sample()) for c in calls()}
    for call in samples:
        for peer in (ours, theirs):
            call.run(peer.client)
    for _ in range(options.rounds):
        for call, (our, their) in samples.items():
            measure(ours, call, our)
            measure(theirs, call, their)
    check_equal(ours.client, theirs.client, options.pods)
    results: dict[str, float] = {}
    print(f"{'':26}{'gateway':>12}{'apiserver':>12}{'ratio':>8}{'CPU':>8}")
    for call, (our, their) in samples.items():
        ratio = their.median_ms / our.median_ms
        cpu = their.mean_cpu_ms / our.mean_cpu_ms
        name = f"{call.key} rv={call.revision or 'unset'}"
        print(f"{name:26}{our.median_ms:9.1f} ms{their.median_ms:9.1f} ms{ratio:7.1f}x{cpu:7.1f}x")
        for key, value in ((f"{call.key}_speedup", ratio), (f"{call.key}_cpu_speedup", cpu)):
            results[key] = min(results.get(key, value), value)
    ours.client.get("/api/v1/pods?resourceVersion=0")
    held = sum(
        len(json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode())
        for item in ours.client.json()["items"]
    )
    grown = gateway.settled_rss_bytes() - empty
    results[MEMORY_KEY] = grown / held
    print(f"memory: {grown / 2**20:.1f} MiB above empty for {held / 2**20:.1f} MiB of JSON held")
    return results


def check_equal(ours: RawClient, theirs: RawClient, count: int) -> None:
    """Both must have answered the same objects, or the comparison says nothing."""
    for client in (ours, theirs):
        client.get("/api/v1/pods?")
        client.parsed = {item["metadata"]["uid"]: item for item in client.json()["items"]}
        assert len(client.parsed) == count
    names = [
        sorted(item["metadata"]["name"] for item in client.parsed.values())
        for client in (ours, theirs)
    ]
    assert names[0] == names[1]


def note(text: str) -> None:
    print(f"▸ {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    results = asyncio.run(run(options))
    missed = [
        f"{key} {results[key]:.2f} < {target}"
        for key, target in TARGETS.items()
        if results[key] < target
    ]
    if results[MEMORY_KEY] > MEMORY_BOUND:
        missed.append(f"{MEMORY_KEY} {results[MEMORY_KEY]:.2f} > {MEMORY_BOUND}")
    print("missed: " + ", ".join(missed) if missed else "every bound holds")
    if options.json:
        print(json.dumps({k: round(v, 3) for k, v in results.items()}))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
