"""A real Kueue in a member of the testbed: its kinds, its webhooks, and one process more.

The process is the member's: it ends with it. Webhooks are reached by URL instead of through a
Service, so what Kueue validates and defaults is as anywhere. Only Jobs are managed. With a
`dispatcher` it is a MultiKueue manager that leaves it to that one who gets which Workload.
"""

from __future__ import annotations

import asyncio
import base64
import os
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import yaml

from fleet.errors import TestbedError
from fleet.testbed import binaries, processes
from fleet.testbed.layout import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from fleet.testbed.admin import AdminClient
    from fleet.testbed.local import LocalCluster

Object = dict[str, Any]

NAME: Final = "kueue"
_NAMESPACE: Final = "kueue-system"
_GROUPS: Final = frozenset({"kueue.x-k8s.io", "batch"})
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/"
_POLL_S: Final = 0.1
_LOG_TAIL_LINES: Final = 8


async def start(
    cluster: LocalCluster,
    *,
    dispatcher: str = "",
    timeout_s: float = 120,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Start Kueue in a member that runs, and wait until it can be used.

    Raises TestbedError with the end of its log when it does not come up in time.
    """
    program = await binaries.ensure(NAME, progress=progress)
    manifests = program.parent / binaries.MANIFESTS
    layout = cluster.layout
    folder = layout.root / NAME
    folder.mkdir(mode=0o700, exist_ok=True)
    pair = layout.authority().server(NAME, hosts=(LOOPBACK,))
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").touch(mode=0o600)
    (folder / "tls.key").write_bytes(pair.key)
    webhook, metrics, health = free_ports(3)
    config = folder / "config.yaml"
    config.write_text(
        yaml.safe_dump(configuration(folder, webhook, metrics, health, dispatcher=dispatcher))
    )
    try:
        async with asyncio.timeout(timeout_s), cluster.client() as client:
            await _define(client, _documents(manifests.glob("kueue.x-k8s.io_*.yaml")))
            await client.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
            processes.spawn(
                NAME,
                [
                    str(program),
                    f"--config={config}",
                    f"--kubeconfig={layout.kubeconfig}",
                    "--feature-gates=VisibilityOnDemand=false",
                    "--zap-log-level=2",
                ],
                run=layout.run,
                log=layout.log(NAME),
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "HOME": str(layout.root),
                    "KUEUE_METRICS_CERTS": str(folder),
                },
            )
            await _ready(cluster, f"http://{LOOPBACK}:{health}/readyz")
            for hooks in _documents([manifests / "manifests.yaml"]):
                url, ca = f"https://{LOOPBACK}:{webhook}", layout.ca.read_bytes()
                path = _WEBHOOKS + hooks["kind"].lower() + "s"
                await client.create(path, by_url(hooks, url=url, ca=ca))
    except TimeoutError as error:
        raise TestbedError(
            f"member {cluster.name}: kueue was not ready within {timeout_s:g} s. "
            f"{_end_of_log(cluster)}"
        ) from error


def configuration(
    folder: Path, webhook: int, metrics: int, health: int, *, dispatcher: str
) -> Object:
    """Kueue's own, with everything on loopback; the numbers are ports."""
    found: Object = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": f"{LOOPBACK}:{metrics}"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"], "labelKeysToCopy": ["fleet.dev/policy"]},
        "clientConnection": {"qps": 200, "burst": 400},
    }
    if dispatcher:
        found["multiKueue"] = {"dispatcherName": dispatcher}
    return found


def by_url(hooks: Object, *, url: str, ca: bytes) -> Object:
    """Webhooks of the kinds that are there, called directly."""
    kept = []
    for each in hooks["webhooks"]:
        groups = {group for rule in each["rules"] for group in rule["apiGroups"]}
        if groups <= _GROUPS:
            path = each["clientConfig"]["service"]["path"]
            client = {"url": url + path, "caBundle": base64.b64encode(ca).decode()}
            kept.append({**each, "clientConfig": client})
    metadata = {**hooks["metadata"], "name": f"kueue-{hooks['metadata']['name']}"}
    return {**hooks, "metadata": metadata, "webhooks": kept}


async def _define(client: AdminClient, kinds: Iterable[Object]) -> None:
    """Create the kinds and wait until they are served."""
    names = []
    for each in kinds:
        await client.create(_CRDS, each)
        names.append(each["metadata"]["name"])
    for name in names:
        while True:
            if _established(await client.get(f"{_CRDS}/{name}") or {}):
                break
            await asyncio.sleep(_POLL_S)


def _established(kind: Object) -> bool:
    conditions = (kind.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def _ready(cluster: LocalCluster, url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass  # it does not listen yet
            if NAME not in cluster.running():
                raise TestbedError(
                    f"member {cluster.name}: kueue ended while starting. {_end_of_log(cluster)}"
                )
            await asyncio.sleep(_POLL_S)


def _end_of_log(cluster: LocalCluster) -> str:
    log = cluster.layout.log(NAME)
    if not log.exists():
        return "It was not started yet."
    tail = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return f"The end of {log}:\n  " + "\n  ".join(tail)


def _documents(files: Iterable[Path]) -> list[Object]:
    found = []
    for file in sorted(files):
        with file.open() as text:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            found += [each for each in yaml.load_all(text, Loader=loader) if each]
    return found
