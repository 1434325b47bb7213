"""The volumes of a pod as files, and where containers see them. Pure.

ConfigMaps, Secrets, the downward API, projections of these, and empty folders. Nothing else can
be had on a virtual node, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from virtualnode.kubelet.environment import expand
from virtualnode.kubelet.references import (
    CONFIG_MAP,
    SECRET,
    Lacking,
    Ref,
    Refused,
    content,
    field_value,
    resource_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtualnode.kubelet.references import Lookup, Subject

Object = dict[str, Any]
Files = Mapping[str, tuple[bytes, int]]
"""Path within the volume to (content, mode)."""
Mount = tuple[str, str, str, bool]
"""(volume, mount path, path within the volume, read-only)"""

_FILE_MODE: Final = 0o644
_KNOWN: Final = "configMap, secret, downwardAPI, projected and emptyDir"


@dataclass(frozen=True, slots=True)
class Volumes:
    """Resolved volumes: those that hold files of ours, and the names of the empty ones."""

    files: Mapping[str, Files] = field(default_factory=dict)
    empty: tuple[str, ...] = ()


def resolve(subject: Subject, lookup: Lookup) -> Volumes:
    """Every volume of the pod.

    Raises Lacking for the first that refers to something missing, Refused for one that cannot be
    had here.
    """
    files: dict[str, Files] = {}
    empty: list[str] = []
    for volume in subject.pod["spec"].get("volumes") or ():
        name = volume["name"]
        if volume.get("emptyDir") is not None:
            empty.append(name)
            continue
        try:
            files[name] = _files(subject, volume, lookup)
        except Lacking as missing:
            raise Lacking(f'MountVolume.SetUp failed for volume "{name}" : {missing}') from None
    return Volumes(files, tuple(empty))


def mounts(container: Object, volumes: Volumes, env: Mapping[str, str]) -> list[Mount]:
    """Where a container sees its volumes. Raises Refused for devices."""
    if container.get("volumeDevices"):
        raise Refused("volumeDevices cannot be had here: there are no block volumes")
    found: list[Mount] = []
    for each in container.get("volumeMounts") or ():
        within = each.get("subPath") or expand(each.get("subPathExpr") or "", env)
        read_only = bool(each.get("readOnly")) or each["name"] in volumes.files
        found.append((each["name"], each["mountPath"], within, read_only))
    return found


def _files(subject: Subject, volume: Object, lookup: Lookup) -> Files:
    projected = volume.get("projected")
    if projected is not None:
        found: dict[str, tuple[bytes, int]] = {}
        for source in projected.get("sources") or ():
            found.update(_source(subject, volume["name"], source, projected, lookup))
        return found
    return dict(_source(subject, volume["name"], volume, None, lookup))


def _source(
    subject: Subject, volume: str, source: Object, around: Object | None, lookup: Lookup
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """The files of one source; `around` is the projection it is part of."""
    mode = int(around.get("defaultMode", _FILE_MODE)) if around is not None else None
    if (chosen := source.get("configMap")) is not None:
        yield from _keys(Ref(CONFIG_MAP, chosen.get("name", "")), chosen, mode, lookup)
    elif (chosen := source.get("secret")) is not None:
        name = chosen.get("secretName") or chosen.get("name", "")
        yield from _keys(Ref(SECRET, name), chosen, mode, lookup)
    elif (chosen := source.get("downwardAPI")) is not None:
        yield from _downward(subject, chosen, mode)
    else:
        kinds = ", ".join(sorted(source.keys() - {"name"})) or "nothing"
        raise Refused(
            f'volume "{volume}" cannot be had on this node: it is {kinds}, and there are only '
            f"{_KNOWN}"
        )


def _keys(
    ref: Ref, chosen: Object, mode: int | None, lookup: Lookup
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    optional = bool(chosen.get("optional"))
    if mode is None:
        mode = int(chosen.get("defaultMode", _FILE_MODE))
    obj = lookup(ref)
    if obj is None:
        if optional:
            return
        raise Lacking(f'{ref.kind} "{ref.name}" not found')
    data = content(ref, obj)
    items = chosen.get("items")
    if not items:
        yield from ((key, (value, mode)) for key, value in data.items())
        return
    for item in items:
        value = data.get(item["key"])
        if value is None:
            if optional:
                continue
            raise Lacking(f"{ref.kind} references non-existent config key: {item['key']}")
        yield item["path"], (value, int(item.get("mode", mode)))


def _downward(
    subject: Subject, chosen: Object, mode: int | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    if mode is None:
        mode = int(chosen.get("defaultMode", _FILE_MODE))
    for item in chosen.get("items") or ():
        if (reference := item.get("fieldRef")) is not None:
            value = field_value(subject, reference.get("fieldPath", ""))
        else:
            reference = item.get("resourceFieldRef") or {}
            value = resource_value(subject, _container(subject, reference), reference)
        yield item["path"], (value.encode(), int(item.get("mode", mode)))


def _container(subject: Subject, reference: Object) -> Object:
    for container in subject.pod["spec"].get("containers") or ():
        if container["name"] == reference.get("containerName"):
            found: Object = container
            return found
    raise Refused(f"resourceFieldRef names no container of the pod: {reference}")
