"""What goes with a workload: the ConfigMaps, Secrets and ServiceAccounts that its pods refer to.

A copy has the content of the fleet's object and the marks of who made it; it belongs to the Jobs of
the shards that need it, so the member itself removes it with the last of them. What the fleet does
not have is the member's own and left alone; what both have is a conflict, and nothing is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch.marks import (
    COPY_ANNOTATION,
    FLEET_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Object = dict[str, Any]

CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
SECRETS: Final = GroupVersionResource("", "v1", "secrets")
SERVICE_ACCOUNTS: Final = GroupVersionResource("", "v1", "serviceaccounts")
CARRIED: Final = (SERVICE_ACCOUNTS, CONFIG_MAPS, SECRETS)
"""In the order in which they are put there: a pod is refused without its ServiceAccount."""

# Every namespace has its own of these.
_NATIVE: Final = frozenset({(CONFIG_MAPS, "kube-root-ca.crt"), (SERVICE_ACCOUNTS, "default")})
_TOKEN: Final = "kubernetes.io/service-account-token"
_CONTENT: Final = {
    CONFIG_MAPS: ("data", "binaryData"),
    SECRETS: ("type", "data"),
    SERVICE_ACCOUNTS: ("imagePullSecrets", "automountServiceAccountToken"),
}
_LEFT_BEHIND: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


class Reference(NamedTuple):
    """An object in the workload's namespace that its pods need."""

    gvr: GroupVersionResource
    name: str


def references(pod_spec: Mapping[str, Any]) -> set[Reference]:
    """What a pod refers to by name and takes from its own namespace."""
    found: set[Reference] = set()
    if account := pod_spec.get("serviceAccountName"):
        found.add(Reference(SERVICE_ACCOUNTS, account))
    for secret in pod_spec.get("imagePullSecrets") or ():
        found.add(Reference(SECRETS, secret.get("name") or ""))
    for volume in pod_spec.get("volumes") or ():
        found.update(_of_volume(volume))
    for kind in ("initContainers", "containers"):
        for container in pod_spec.get(kind) or ():
            found.update(_of_container(container))
    return {each for each in found if each.name and each not in _NATIVE}


def pull_secrets(account: Mapping[str, Any]) -> set[Reference]:
    """The Secrets that a ServiceAccount lends to its pods."""
    secrets = account.get("imagePullSecrets") or ()
    return {Reference(SECRETS, each["name"]) for each in secrets if each.get("name")}


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    sources = (volume.get("projected") or {}).get("sources") or ()
    for source in (volume, *sources):
        if config_map := source.get("configMap"):
            yield Reference(CONFIG_MAPS, config_map.get("name") or "")
        if secret := source.get("secret"):
            yield Reference(SECRETS, secret.get("secretName") or secret.get("name") or "")
    for driver in ("csi", "cephfs", "rbd", "iscsi", "scaleIO", "storageos", "flexVolume"):
        details = volume.get(driver) or {}
        for field in ("nodePublishSecretRef", "secretRef"):
            if secret := details.get(field):
                yield Reference(SECRETS, secret.get("name") or "")
    if azure := volume.get("azureFile"):
        yield Reference(SECRETS, azure.get("secretName") or "")


def _of_container(container: Mapping[str, Any]) -> Iterator[Reference]:
    for source in container.get("envFrom") or ():
        yield from _of_source(source)
    for variable in container.get("env") or ():
        value = variable.get("valueFrom") or {}
        if ref := value.get("configMapKeyRef"):
            yield Reference(CONFIG_MAPS, ref.get("name") or "")
        if ref := value.get("secretKeyRef"):
            yield Reference(SECRETS, ref.get("name") or "")


def _of_source(source: Mapping[str, Any]) -> Iterator[Reference]:
    if ref := source.get("configMapRef"):
        yield Reference(CONFIG_MAPS, ref.get("name") or "")
    if ref := source.get("secretRef"):
        yield Reference(SECRETS, ref.get("name") or "")


def source_of(env_from: Mapping[str, Any]) -> Reference | None:
    """The object that one entry of `envFrom` reads."""
    return next(_of_source(env_from), None)


def copy_of(source: Mapping[str, Any], gvr: GroupVersionResource, *, fleet: str) -> Object | None:
    """The copy of a fleet's object for a member; None for one that means nothing elsewhere."""
    if gvr == SECRETS and source.get("type") == _TOKEN:
        return None
    metadata = source["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in _LEFT_BEHIND
    }
    return {
        "apiVersion": source["apiVersion"],
        "kind": source["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {
                **annotations,
                FLEET_ANNOTATION: fleet,
                COPY_ANNOTATION: metadata["uid"],
            },
        },
        **{field: source[field] for field in _CONTENT[gvr] if field in source},
    }


def is_copy(present: Mapping[str, Any], *, fleet: str) -> bool:
    """Whether a member's object is a copy that this fleet made."""
    annotations = (present.get("metadata") or {}).get("annotations") or {}
    return annotations.get(FLEET_ANNOTATION) == fleet and COPY_ANNOTATION in annotations


def updated(
    present: Object, wanted: Mapping[str, Any], gvr: GroupVersionResource, *, owner: Object | None
) -> Object | None:
    """The copy brought up to date and owned by `owner` besides; None when it is so already."""
    metadata = dict(present["metadata"])
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), **wanted["metadata"][field]}
    owners = metadata.get("ownerReferences") or []
    if owner is not None and not any(each.get("uid") == owner["uid"] for each in owners):
        owners = [*owners, owner]
    if owners:
        metadata["ownerReferences"] = owners
    changed = {key: value for key, value in present.items() if key not in _CONTENT[gvr]}
    changed |= {field: wanted[field] for field in _CONTENT[gvr] if field in wanted}
    changed["metadata"] = metadata
    return None if changed == present else changed
