"""Where one member keeps its things: folders, ports, certificates, and what it was made with.

A layout is written once, before anything starts, and read again by `down`, `status` and the next
`up`: ports and keys stay what they are while the member exists.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from fleet.errors import TestbedError
from fleet.gateway import pki
from fleet.testbed.locking import make_private

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
NETWORKS = 64
# Below the range that the kernel gives to outgoing connections, so that none takes a port between
# the choice and the bind.
_PORTS = range(20_000, 32_000)
_FILE = "member.json"


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    api: int
    kubelet: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One member's folder. `network` (0..63) numbers its pod and service address ranges."""

    name: str
    root: Path
    network: int
    ports: Ports
    components: tuple[str, ...] = field(default=())

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.api}"

    @property
    def pod_cidr(self) -> str:
        return f"10.{64 + self.network}.0.0/16"

    @property
    def service_cidr(self) -> str:
        return f"10.{128 + self.network}.0.0/16"

    @property
    def service_ip(self) -> str:
        return f"10.{128 + self.network}.0.1"

    @property
    def run(self) -> Path:
        """Process records."""
        return self.root / "run"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    def log(self, component: str) -> Path:
        return self.root / "log" / f"{component}.log"

    def cert(self, name: str) -> Path:
        return self.root / "pki" / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.root / "pki" / f"{name}.key"

    @property
    def ca(self) -> Path:
        return self.cert("ca")

    def authority(self) -> pki.Authority:
        """The cluster's own authority, to issue further certificates."""
        return pki.Authority.load(
            pki.KeyPair(self.cert("ca").read_bytes(), self.key("ca").read_bytes())
        )

    def kubeconfig_text(self, credentials: pki.KeyPair, *, user: str) -> str:
        """A kubeconfig that stands alone: certificates are inside, not named by path.

        Every name in it is the member's own, so that several can be listed in KUBECONFIG.
        """
        login = f"{self.name}-{user}"
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": self.name,
                "clusters": [
                    {
                        "name": self.name,
                        "cluster": {
                            "server": self.server,
                            "certificate-authority-data": _base64(self.ca.read_bytes()),
                        },
                    }
                ],
                "users": [
                    {
                        "name": login,
                        "user": {
                            "client-certificate-data": _base64(credentials.certificate),
                            "client-key-data": _base64(credentials.key),
                        },
                    }
                ],
                "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": login}}],
            },
            sort_keys=False,
        )


def state_home() -> Path:
    """Where members of the command line live."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "fleet" / "testbed"


def members(home: Path) -> list[str]:
    """The names of the members that have a folder in `home`."""
    return sorted(path.parent.name for path in home.glob(f"*/{_FILE}"))


def load(root: Path) -> Layout | None:
    """The layout in `root`, or None when there is none. Raises TestbedError when it is damaged."""
    try:
        stored = json.loads((root / _FILE).read_text())
        return Layout(
            name=stored["name"],
            root=root,
            network=stored["network"],
            ports=Ports(**stored["ports"]),
            components=tuple(stored["components"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TestbedError(
            f"{root / _FILE} cannot be read ({error!r}); stop what runs there and delete {root}"
        ) from error


def create(name: str, *, root: Path, network: int | None, components: Sequence[str]) -> Layout:
    """Make the folder of a member: certificates, kubeconfig, chosen ports. Only the owner reads it.

    Without a `network` the name decides; `commands` hands out distinct ones.
    """
    layout = Layout(
        name=name,
        root=root,
        network=zlib.crc32(name.encode()) % NETWORKS if network is None else network,
        ports=Ports(*free_ports(4)),
        components=tuple(components),
    )
    make_private(root)
    for folder in ("run", "log", "pki", "etcd"):
        (root / folder).mkdir(mode=0o700, exist_ok=True)
    _write_certificates(layout)
    # Written last: a folder without it was never finished and is made again.
    stored = asdict(layout)
    del stored["root"]
    partial = root / f"{_FILE}.partial"
    partial.write_text(json.dumps(stored, indent=2))
    partial.replace(root / _FILE)
    return layout


def delete(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=False)


def free_ports(count: int) -> list[int]:
    """Distinct ports on loopback that nothing listens on at this moment."""
    taken: list[socket.socket] = []
    try:
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(taken) == count:
                break
            probe = socket.socket()
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                probe.close()
            else:
                taken.append(probe)
        if len(taken) < count:
            raise TestbedError(
                f"{count} free ports are needed on {LOOPBACK}, "
                f"but {_PORTS.start} to {_PORTS.stop - 1} have {len(taken)}"
            )
        return [probe.getsockname()[1] for probe in taken]
    finally:
        for probe in taken:
            probe.close()


def _write_certificates(layout: Layout) -> None:
    """Two authorities: etcd's is apart, so that no client of the API server is one of etcd."""
    cluster = pki.Authority.create(f"{layout.name}-ca")
    store = pki.Authority.create(f"{layout.name}-etcd-ca")
    local = (LOOPBACK, "localhost")
    admin = cluster.client("admin", groups=(pki.ADMIN_GROUP,))
    pairs = {
        "ca": cluster.pair,
        "etcd-ca": store.pair,
        "etcd": store.peer("etcd", hosts=local),
        "etcd-client": store.client("kube-apiserver"),
        "kube-apiserver": cluster.server(
            "kube-apiserver",
            hosts=(
                *local,
                layout.service_ip,
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
            ),
        ),
        "kubelet-client": cluster.client("kube-apiserver", groups=(pki.ADMIN_GROUP,)),
        "kubelet": cluster.server("kubelet", hosts=local),
        "admin": admin,
    }
    for name, pair in pairs.items():
        layout.cert(name).write_bytes(pair.certificate)
        _write_private(layout.key(name), pair.key)
    tokens = pki.signing_key()
    layout.key("sa").with_suffix(".pub").write_bytes(tokens.public)
    _write_private(layout.key("sa"), tokens.private)
    _write_private(layout.kubeconfig, layout.kubeconfig_text(admin, user="admin").encode())


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
