"""Rules for volumes, their mounts and claims (upstream's `pkg/apis/core/validation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.downward import (
    check_field_selector,
    check_resource_field_selector,
)
from fleet.kube.defaults.validation.metadata import (
    check_annotations,
    check_labels,
    check_selector,
)
from fleet.kube.defaults.validation.resources import check_amount
from fleet.kube.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
# The order in which upstream looks at them: the first one counts, the others are too many.
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret",
    "nfs", "iscsi", "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs",
    "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO",
    "csi", "ephemeral", "image",
)  # fmt: skip

# Two fields have other names in upstream's complaint about a second source.
_EXTRA_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}


def check_volumes(
    problems: Problems, volumes: list[Object], path: str, *, pod_name: str = ""
) -> dict[str, Object]:
    """The volumes that are in order, by name."""
    created = {f"{pod_name}-{v.get('name', '')}" for v in volumes if "ephemeral" in v}
    good: dict[str, Object] = {}
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        before = len(problems.causes)
        _source(problems, volume, where)
        name = volume.get("name", "")
        if not name:
            problems.required(f"{where}.name")
        else:
            problems.invalid_each(f"{where}.name", name, names.dns_label(name))
        if name in good:
            problems.duplicate(f"{where}.name", name)
        if len(problems.causes) == before:
            good[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if pod_name and claim in created:
            problems.invalid(
                f"{where}.persistentVolumeClaim.claimName",
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            )
    return good


def _source(problems: Problems, volume: Object, path: str) -> None:
    present = [source for source in _SOURCES if source in volume]
    if not present:
        problems.required(path, "must specify a volume type")
        return
    for extra in present[1:]:
        problems.forbidden(
            f"{path}.{_EXTRA_NAMES.get(extra, extra)}", "may not specify more than 1 volume type"
        )
    kind = present[0]
    source, where = volume[kind], f"{path}.{kind}"
    match kind:
        case "emptyDir":
            limit = source.get("sizeLimit")
            if limit is not None and Quantity.parse(limit) < ZERO:
                problems.forbidden(
                    f"{where}.sizeLimit", "SizeLimit field must be a valid resource quantity"
                )
        case "hostPath":
            if not source.get("path"):
                problems.required(f"{where}.path")
            else:
                _no_backsteps(problems, source["path"], f"{where}.path")
                if source.get("type", "") not in _HOST_PATH_TYPES:
                    problems.not_supported(f"{where}.type", source["type"], _HOST_PATH_TYPES)
        case "secret" | "configMap":
            field = "secretName" if kind == "secret" else "name"
            if not source.get(field):
                problems.required(f"{where}.{field}")
            _mode(problems, source.get("defaultMode"), f"{where}.defaultMode")
            _items(problems, source, where)
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                problems.required(f"{where}.claimName")
        case "nfs":
            for field in ("server", "path"):
                if not source.get(field):
                    problems.required(f"{where}.{field}")
            if source.get("path") and not source["path"].startswith("/"):
                problems.invalid(f"{where}.path", source["path"], "must be an absolute path")
        case "downwardAPI":
            _mode(problems, source.get("defaultMode"), f"{where}.defaultMode")
            _downward_items(problems, source, where)
        case "projected":
            _projected(problems, source, where)
        case "csi":
            if not source.get("driver"):
                problems.required(f"{where}.driver")
        case "ephemeral":
            template = source.get("volumeClaimTemplate")
            if template is None:
                problems.required(f"{where}.volumeClaimTemplate")
            else:
                inner = f"{where}.volumeClaimTemplate"
                metadata = template.get("metadata", {})
                check_annotations(
                    problems, metadata.get("annotations"), f"{inner}.metadata.annotations"
                )
                check_labels(problems, metadata.get("labels"), f"{inner}.metadata.labels")
                check_claim_spec(problems, template.get("spec", {}), f"{inner}.spec")


def _projected(problems: Problems, source: Object, path: str) -> None:
    _mode(problems, source.get("defaultMode"), f"{path}.defaultMode")
    for index, part in enumerate(source.get("sources") or []):
        where = f"{path}.sources[{index}]"
        kinds = [kind for kind in ("secret", "configMap", "downwardAPI", "serviceAccountToken")
                 if kind in part]  # fmt: skip
        for kind in kinds[:1]:
            inner = f"{where}.{kind}"
            if kind in ("secret", "configMap"):
                if not part[kind].get("name"):
                    problems.required(f"{inner}.name")
                _items(problems, part[kind], inner)
            elif kind == "downwardAPI":
                _downward_items(problems, part[kind], inner)
            else:
                token = part[kind]
                seconds = token.get("expirationSeconds", 3600)
                if seconds < 600:
                    problems.invalid(
                        f"{inner}.expirationSeconds",
                        seconds,
                        "may not specify a duration less than 10 minutes",
                    )
                if not token.get("path"):
                    # Upstream's path is that of the volume.
                    problems.required(f"{path}.path")
                else:
                    _local_path(problems, token["path"], f"{inner}.path")
        if len(kinds) > 1:
            problems.forbidden(where, "may not specify more than 1 volume type per source")


def _items(problems: Problems, source: Object, path: str) -> None:
    for index, item in enumerate(source.get("items") or []):
        where = f"{path}.items[{index}]"
        for field in ("key", "path"):
            if not item.get(field):
                problems.required(f"{where}.{field}")
        _local_path(problems, item.get("path", ""), f"{where}.path")
        _mode(problems, item.get("mode"), f"{where}.mode")


def _downward_items(problems: Problems, source: Object, path: str) -> None:
    # Upstream leaves the item out of these paths.
    where = path
    for item in source.get("items") or []:
        if not item.get("path"):
            problems.required(f"{where}.path")
        _local_path(problems, item.get("path", ""), f"{where}.path")
        if (reference := item.get("fieldRef")) is not None:
            check_field_selector(problems, reference, f"{where}.fieldRef", volume=True)
            if "resourceFieldRef" in item:
                problems.invalid(
                    where,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                )
        elif (reference := item.get("resourceFieldRef")) is not None:
            check_resource_field_selector(
                problems, reference, f"{where}.resourceFieldRef", volume=True
            )
        else:
            problems.required(where, "one of fieldRef and resourceFieldRef is required")
        _mode(problems, item.get("mode"), f"{where}.mode")


def _mode(problems: Problems, mode: int | None, path: str) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        problems.invalid(path, mode, _FILE_MODE)


def _no_backsteps(problems: Problems, text: str, path: str) -> None:
    if ".." in text.split("/"):
        problems.invalid(path, text, "must not contain '..'")


def _descending(problems: Problems, text: str, path: str) -> None:
    if text.startswith("/"):
        problems.invalid(path, text, "must be a relative path")
    _no_backsteps(problems, text, path)


def _local_path(problems: Problems, text: str, path: str) -> None:
    _descending(problems, text, path)
    if text.startswith("..") and not text.startswith("../"):
        problems.invalid(path, text, "must not start with '..'")


def check_mounts(
    problems: Problems, container: Object, volumes: Mapping[str, Object], path: str
) -> None:
    """`volumeMounts` and `volumeDevices` of one container."""
    mounts = container.get("volumeMounts") or []
    devices = container.get("volumeDevices") or []
    placed = {d.get("name", ""): d.get("devicePath", "") for d in devices}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}.volumeMounts[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            problems.required(f"{where}.name")
        if name not in volumes:
            problems.not_found(f"{where}.name", name)
        if not place:
            problems.required(f"{where}.mountPath")
        if place in seen:
            problems.invalid(f"{where}.mountPath", place, "must be unique")
        seen.add(place)
        if name in placed:
            problems.invalid(f"{where}.name", name, "must not already exist in volumeDevices")
        if place in placed.values():
            problems.invalid(
                f"{where}.mountPath", place, "must not already exist as a path in volumeDevices"
            )
        # Upstream leaves the index out of these paths.
        if sub_path := mount.get("subPath"):
            _descending(problems, sub_path, f"{path}.volumeMounts.subPath")
        if expression := mount.get("subPathExpr"):
            if mount.get("subPath"):
                problems.invalid(
                    f"{where}.subPathExpr",
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                )
            _descending(problems, expression, f"{path}.volumeMounts.subPathExpr")
        propagation = mount.get("mountPropagation")
        if propagation is not None:
            supported = ("Bidirectional", "HostToContainer", "None")
            inner = f"{path}.volumeMounts.mountPropagation"
            if propagation not in supported:
                problems.not_supported(inner, propagation, supported)
            privileged = (container.get("securityContext") or {}).get("privileged")
            if propagation == "Bidirectional" and not privileged:
                problems.forbidden(
                    inner,
                    "Bidirectional mount propagation is available only to privileged containers",
                )
    _devices(problems, devices, {m.get("name", ""): m.get("mountPath", "") for m in mounts},
             volumes, path)  # fmt: skip


def _devices(
    problems: Problems,
    devices: list[Object],
    mounts: dict[str, str],
    volumes: Mapping[str, Object],
    path: str,
) -> None:
    paths: set[str] = set()
    seen: set[str] = set()
    for index, device in enumerate(devices):
        where = f"{path}.volumeDevices[{index}]"
        name, place = device.get("name", ""), device.get("devicePath", "")
        if not name:
            problems.required(f"{where}.name")
        if name in seen:
            problems.invalid(f"{where}.name", name, "must be unique")
        if name not in volumes:
            problems.not_found(f"{where}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            problems.invalid(
                f"{where}.name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode",
            )
        if not place:
            problems.required(f"{where}.devicePath")
        if place in paths:
            problems.invalid(f"{where}.devicePath", place, "must be unique")
        if ".." in place.split("/"):
            problems.invalid(f"{where}.devicePath", place, "can not contain backsteps ('..')")
        else:
            paths.add(place)
        if name in mounts:
            problems.invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if place in mounts.values():
            problems.invalid(
                f"{where}.devicePath", place, "must not already exist as a path in volumeMounts"
            )
        seen.add(name)


def check_claim_spec(problems: Problems, spec: Object, path: str) -> None:
    """The spec of a PersistentVolumeClaim."""
    modes = spec.get("accessModes") or []
    if not modes:
        problems.required(f"{path}.accessModes", "at least 1 access mode is required")
    check_selector(problems, spec.get("selector"), f"{path}.selector")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            problems.not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    known = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        problems.forbidden(
            f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"
        )
    storage = (spec.get("resources", {}).get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    if storage is None:
        problems.required(where)
    elif Quantity.parse(storage) <= ZERO:
        problems.invalid(where, storage, "must be greater than zero")
    else:
        check_amount(problems, "storage", storage, where)
    if class_name := spec.get("storageClassName"):
        rule = names.dns_subdomain(class_name)
        problems.invalid_each(f"{path}.storageClassName", class_name, rule)
    if spec.get("volumeMode", "Filesystem") not in ("Block", "Filesystem"):
        problems.not_supported(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))
    for field in ("dataSource", "dataSourceRef"):
        source = spec.get(field)
        if source is None:
            continue
        for name in ("name", "kind"):
            if not source.get(name):
                problems.required(f"{path}.{field}.{name}")
        if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
            problems.invalid(
                f"{path}.{field}",
                source.get("kind", ""),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            )
