"""What every namespace has from its beginning: ServiceAccount `default` and `kube-root-ca.crt`.

Pods are run under the one and trust what the other holds. Both come back when they are deleted,
and the certificate is put right when somebody changes it (k8s.io/kubernetes,
pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.apiserver.controllers.objects import Key
from fleet.apiserver.controllers.queue import Queue
from fleet.errors import AlreadyExists, Forbidden, NotFound
from fleet.kube.wire import UserInfo

if TYPE_CHECKING:
    from fleet.apiserver.controllers.objects import Objects
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event

Object = dict[str, Any]

NAMESPACES, ACCOUNTS, CONFIG_MAPS = "namespaces", "serviceaccounts", "configmaps"
ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
ROOT_CA_KEY = "ca.crt"
_USER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))
_WORKERS = 4


class NamespaceFurnishing:
    """Keeps both in every namespace that is not going away."""

    def __init__(self, objects: Objects, *, root_ca: str) -> None:
        """`root_ca` is the PEM bundle that clients inside the namespace trust."""
        self._objects = objects
        self._root_ca = root_ca
        self._queue: Queue[str] = Queue("furnishing")

    def start(self, namespaces: Resource) -> None:
        """Look at every namespace there is."""
        for entry in self._objects.entries(namespaces):
            self._queue.add(entry.name)

    def changed(self, resource: Resource, event: Event) -> None:
        """Take note of a change in the store."""
        entry = event.entry
        match resource.gvr.group_resource:
            case "namespaces":
                if event.previous is None:
                    self._queue.add(entry.name)
            case "serviceaccounts":
                if event.deleted and entry.name == ACCOUNT:
                    self._queue.add(entry.namespace)
            case "configmaps":
                if entry.name == ROOT_CA:
                    self._queue.add(entry.namespace)

    async def run(self) -> None:
        await self._queue.work(self.reconcile, workers=_WORKERS)

    async def reconcile(self, namespace: str) -> None:
        """Give one namespace what it lacks."""
        spaces = self._objects.row(NAMESPACES)
        found = self._objects.get(spaces, "", namespace) if spaces is not None else None
        if found is None or found.parse()["metadata"].get("deletionTimestamp"):
            return
        try:
            await self._account(namespace)
            await self._certificate(namespace)
        except AlreadyExists:
            self._queue.add(namespace)  # made by somebody else meanwhile: look whether it is right
        except (Forbidden, NotFound):
            if not self._is_going(spaces, namespace):
                raise

    def _is_going(self, spaces: Resource | None, namespace: str) -> bool:
        entry = self._objects.get(spaces, "", namespace) if spaces is not None else None
        return entry is None or bool(entry.parse()["metadata"].get("deletionTimestamp"))

    async def _account(self, namespace: str) -> None:
        row = self._objects.row(ACCOUNTS)
        if row is None or self._objects.get(row, namespace, ACCOUNT) is not None:
            return
        metadata = {"name": ACCOUNT, "namespace": namespace}
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
        await self._objects.make(row, account, user=_USER)

    async def _certificate(self, namespace: str) -> None:
        row = self._objects.row(CONFIG_MAPS)
        if row is None:
            return
        entry = self._objects.get(row, namespace, ROOT_CA)
        data = {ROOT_CA_KEY: self._root_ca}
        if entry is None:
            await self._objects.make(row, root_ca_map(namespace, data), user=_USER)
            return

        def put_right(found: Object) -> Object:
            return found if found.get("data") == data else {**found, "data": data}

        key = Key(CONFIG_MAPS, namespace, ROOT_CA)
        await self._objects.change(row, key, put_right, uid=entry.uid)


def root_ca_map(namespace: str, data: dict[str, str]) -> Object:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": ROOT_CA,
            "namespace": namespace,
            "annotations": {
                "kubernetes.io/description": "The certificate authority of the API server, for "
                "clients in this namespace."
            },
        },
        "data": data,
    }
