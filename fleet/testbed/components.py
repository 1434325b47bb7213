"""The command line of each component of a member, from its layout. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.testbed.layout import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.testbed.layout import Layout

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
GATEKEEPER = "gatekeeper"

API_ONLY = (ETCD, API_SERVER)
ALL = (*API_ONLY, CONTROLLER_MANAGER, SCHEDULER, KWOK, GATEKEEPER)


def arguments(component: str, layout: Layout) -> list[str]:
    """The flags of a program (all but the gatekeeper, which is a module of ours)."""
    return _FLAGS[component](layout)


def _etcd(layout: Layout) -> list[str]:
    client = f"https://{LOOPBACK}:{layout.ports.etcd}"
    peer = f"https://{LOOPBACK}:{layout.ports.etcd_peer}"
    return [
        f"--name={layout.name}",
        f"--data-dir={layout.root / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={layout.name}={peer}",
        f"--cert-file={layout.cert('etcd')}",
        f"--key-file={layout.key('etcd')}",
        "--client-cert-auth",
        f"--trusted-ca-file={layout.cert('etcd-ca')}",
        f"--peer-cert-file={layout.cert('etcd')}",
        f"--peer-key-file={layout.key('etcd')}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={layout.cert('etcd-ca')}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(layout: Layout) -> list[str]:
    return [
        f"--etcd-servers=https://{LOOPBACK}:{layout.ports.etcd}",
        f"--etcd-cafile={layout.cert('etcd-ca')}",
        f"--etcd-certfile={layout.cert('etcd-client')}",
        f"--etcd-keyfile={layout.key('etcd-client')}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={layout.ports.api}",
        f"--tls-cert-file={layout.cert('kube-apiserver')}",
        f"--tls-private-key-file={layout.key('kube-apiserver')}",
        f"--client-ca-file={layout.ca}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={layout.key('sa').with_suffix('.pub')}",
        f"--service-account-signing-key-file={layout.key('sa')}",
        f"--service-cluster-ip-range={layout.service_cidr}",
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",
        # Nothing in a kwok pod uses a token, and pods may come before their ServiceAccount.
        "--disable-admission-plugins=ServiceAccount",
        f"--kubelet-certificate-authority={layout.ca}",
        f"--kubelet-client-certificate={layout.cert('kubelet-client')}",
        f"--kubelet-client-key={layout.key('kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
    ]


def _controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        f"--bind-address={LOOPBACK}",
        "--secure-port=0",
        "--leader-elect=false",
        f"--service-account-private-key-file={layout.key('sa')}",
        f"--root-ca-file={layout.ca}",
        f"--cluster-signing-cert-file={layout.ca}",
        f"--cluster-signing-key-file={layout.key('ca')}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _scheduler(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        f"--bind-address={LOOPBACK}",
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _kwok(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={layout.root / 'kwok.yaml'}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--cidr={layout.pod_cidr}",
        f"--server-address={LOOPBACK}:{layout.ports.kubelet}",
        f"--node-ip={LOOPBACK}",
        f"--node-port={layout.ports.kubelet}",
        f"--tls-cert-file={layout.cert('kubelet')}",
        f"--tls-private-key-file={layout.key('kubelet')}",
    ]


_FLAGS: dict[str, Callable[[Layout], list[str]]] = {
    ETCD: _etcd,
    API_SERVER: _api_server,
    CONTROLLER_MANAGER: _controller_manager,
    SCHEDULER: _scheduler,
    KWOK: _kwok,
}
