"""Volumes, claims, and the classes and drivers that provide them."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.quantities import quantity
from fleet.kube.tables.reading import (
    Object,
    flag,
    items,
    mapping,
    sequence,
    string_map,
    strings,
    text,
)
from fleet.kube.tables.rows import Cells, Printer, since
from fleet.kube.tables.wording import NONE, UNSET

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _access_modes(parent: Object) -> str:
    modes = strings(parent, "accessModes")
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _storage_class_of(metadata: Object, spec: Object) -> str:
    annotated = string_map(metadata, "annotations").get(_CLASS_ANNOTATION)
    return text(spec, "storageClassName") if annotated is None else annotated


def _or_unset(parent: Object, key: str) -> str:
    value = parent.get(key)
    return value if isinstance(value, str) else UNSET


def _phase(obj: Object) -> str:
    if mapping(obj, "metadata").get("deletionTimestamp") is not None:
        return "Terminating"
    return text(mapping(obj, "status"), "phase")


def _volume(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    claim = ""
    if isinstance(spec.get("claimRef"), dict):
        reference = mapping(spec, "claimRef")
        claim = f"{text(reference, 'namespace')}/{text(reference, 'name')}"
    return (
        text(metadata, "name"),
        quantity(mapping(spec, "capacity").get("storage")),
        _access_modes(spec),
        text(spec, "persistentVolumeReclaimPolicy"),
        _phase(obj),
        claim,
        _storage_class_of(metadata, spec),
        _or_unset(spec, "volumeAttributesClassName"),
        text(mapping(obj, "status"), "reason"),
        since(metadata, "creationTimestamp"),
        _or_unset(spec, "volumeMode"),
    )


def _claim(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    volume = text(spec, "volumeName")
    return (
        text(metadata, "name"),
        _phase(obj),
        volume,
        quantity(mapping(status, "capacity").get("storage")) if volume else "",
        _access_modes(status) if volume else "",
        _storage_class_of(metadata, spec),
        _or_unset(spec, "volumeAttributesClassName"),
        since(metadata, "creationTimestamp"),
        _or_unset(spec, "volumeMode"),
    )


def _storage_class(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    name = text(metadata, "name")
    annotations = string_map(metadata, "annotations")
    if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS):
        name += " (default)"
    return (
        name,
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy") or "Delete",
        text(obj, "volumeBindingMode") or "Immediate",
        flag(obj, "allowVolumeExpansion"),
        since(metadata, "creationTimestamp"),
    )


def _attributes_class(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        text(obj, "driverName"),
        since(metadata, "creationTimestamp"),
    )


def _attachment(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return (
        text(metadata, "name"),
        text(spec, "attacher"),
        text(mapping(spec, "source"), "persistentVolumeName"),
        text(spec, "nodeName"),
        flag(mapping(obj, "status"), "attached"),
        since(metadata, "creationTimestamp"),
    )


def _csi_node(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        len(sequence(mapping(obj, "spec"), "drivers")),
        since(metadata, "creationTimestamp"),
    )


def _csi_driver(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    tokens = UNSET
    if isinstance(spec.get("tokenRequests"), list):
        tokens = ",".join(text(each, "audience") for each in items(spec, "tokenRequests"))
    return (
        text(metadata, "name"),
        flag(spec, "attachRequired", default=True),
        flag(spec, "podInfoOnMount"),
        flag(spec, "storageCapacity"),
        tokens,
        flag(spec, "requiresRepublish"),
        ",".join(strings(spec, "volumeLifecycleModes")) or NONE,
        since(metadata, "creationTimestamp"),
    )


_PV: Final = "core/v1.PersistentVolumeSpec"
_CLAIM: Final = "core/v1.PersistentVolumeClaim"
_DRIVER: Final = "storage/v1.CSIDriverSpec"

PRINTERS: Final = {
    ("", "persistentvolumes"): Printer(
        columns=(
            NAME,
            column("Capacity", doc=f"{_PV}.capacity"),
            column("Access Modes", doc=f"{_PV}.accessModes"),
            column("Reclaim Policy", doc=f"{_PV}.persistentVolumeReclaimPolicy"),
            column("Status", doc="core/v1.PersistentVolumeStatus.phase"),
            column("Claim", doc=f"{_PV}.claimRef"),
            column("StorageClass", "StorageClass of the pv"),
            column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
            column("Reason", doc="core/v1.PersistentVolumeStatus.reason"),
            AGE,
            column("VolumeMode", doc=f"{_PV}.volumeMode", priority=1),
        ),
        render=_volume,
    ),
    ("", "persistentvolumeclaims"): Printer(
        columns=(
            NAME,
            column("Status", doc=f"{_CLAIM}Status.phase"),
            column("Volume", doc=f"{_CLAIM}Spec.volumeName"),
            column("Capacity", doc=f"{_CLAIM}Status.capacity"),
            column("Access Modes", doc=f"{_CLAIM}Status.accessModes"),
            column("StorageClass", "StorageClass of the pvc"),
            column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
            AGE,
            column("VolumeMode", doc=f"{_CLAIM}Spec.volumeMode", priority=1),
        ),
        render=_claim,
    ),
    ("storage.k8s.io", "storageclasses"): Printer(
        columns=(
            NAME,
            column("Provisioner", doc="storage/v1.StorageClass.provisioner"),
            column("ReclaimPolicy", doc="storage/v1.StorageClass.reclaimPolicy"),
            column("VolumeBindingMode", doc="storage/v1.StorageClass.volumeBindingMode"),
            column("AllowVolumeExpansion", doc="storage/v1.StorageClass.allowVolumeExpansion"),
            AGE,
        ),
        render=_storage_class,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Printer(
        columns=(
            NAME,
            column("DriverName", doc="storage/v1.VolumeAttributesClass.driverName"),
            AGE,
        ),
        render=_attributes_class,
    ),
    ("storage.k8s.io", "volumeattachments"): Printer(
        columns=(
            NAME,
            column("Attacher", doc="storage/v1.VolumeAttachmentSpec.attacher", format="name"),
            column("PV", doc="storage/v1.VolumeAttachmentSource.persistentVolumeName"),
            column("Node", doc="storage/v1.VolumeAttachmentSpec.nodeName"),
            column("Attached", doc="storage/v1.VolumeAttachmentStatus.attached", type="boolean"),
            AGE,
        ),
        render=_attachment,
    ),
    ("storage.k8s.io", "csinodes"): Printer(
        columns=(
            NAME,
            column(
                "Drivers",
                "Drivers indicates the number of CSI drivers registered on the node",
                type="integer",
            ),
            AGE,
        ),
        render=_csi_node,
    ),
    ("storage.k8s.io", "csidrivers"): Printer(
        columns=(
            NAME,
            column("AttachRequired", doc=f"{_DRIVER}.attachRequired", type="boolean"),
            column("PodInfoOnMount", doc=f"{_DRIVER}.podInfoOnMount", type="boolean"),
            column("StorageCapacity", doc=f"{_DRIVER}.storageCapacity", type="boolean"),
            column("TokenRequests", doc=f"{_DRIVER}.tokenRequests"),
            column("RequiresRepublish", doc=f"{_DRIVER}.requiresRepublish", type="boolean"),
            column("Modes", doc=f"{_DRIVER}.volumeLifecycleModes"),
            AGE,
        ),
        render=_csi_driver,
    ),
}
