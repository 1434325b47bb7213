"""Rules for what holds data: ConfigMaps, Secrets, PersistentVolumeClaims."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.volumes import check_claim_spec
from fleet.kube.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_MAX_DATA: Final = 1024 * 1024
_FIXED: Final = "field is immutable when `immutable` is set"
_NEEDED_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_config_map(problems: Problems, config_map: Object) -> None:
    texts, blobs = config_map.get("data") or {}, config_map.get("binaryData") or {}
    size = 0
    for key, text in sorted(texts.items()):
        problems.invalid_each(f"data[{key}]", key, names.config_key(key))
        if key in blobs:
            problems.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, blob in sorted(blobs.items()):
        problems.invalid_each(f"binaryData[{key}]", key, names.config_key(key))
        size += _decoded_size(blob)
    if size > _MAX_DATA:
        # Upstream names the whole object this way.
        problems.too_long("[]", _MAX_DATA)


def check_secret(problems: Problems, secret: Object) -> None:
    data = secret.get("data") or {}
    for key in sorted(data):
        problems.invalid_each(f"data[{key}]", key, names.config_key(key))
    if sum(_decoded_size(blob) for blob in data.values()) > _MAX_DATA:
        problems.too_long("data", _MAX_DATA)
    kind = secret.get("type", "")
    for key in _NEEDED_KEYS.get(kind, ()):
        if key not in data:
            problems.required(f"data[{key}]")
    if kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"):
        key = _NEEDED_KEYS[kind][0]
        if key in data and not _is_object(data[key]):
            problems.invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            problems.required("data[username]")
            problems.required("data[password]")
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            problems.required("data[ssh-privatekey]")
    elif kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not (secret["metadata"].get("annotations") or {}).get(annotation):
            problems.required(f"metadata.annotations[{annotation}]")


def check_fixed_data(problems: Problems, new: Object, old: Object) -> None:
    """ConfigMaps and Secrets marked `immutable`."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        problems.forbidden("immutable", _FIXED)
    for field in ("data", "binaryData"):
        if (new.get(field) or None) != (old.get(field) or None):
            problems.forbidden(field, _FIXED)


def check_secret_update(problems: Problems, new: Object, old: Object) -> None:
    problems.immutable("type", new.get("type"), old.get("type"))
    check_fixed_data(problems, new, old)


def check_claim(problems: Problems, claim: Object) -> None:
    check_claim_spec(problems, claim.get("spec", {}), "spec")


def check_claim_update(problems: Problems, new: Object, old: Object) -> None:
    """A claim is fixed, but for its size and class once it is bound."""
    fresh, stale = _fixed_part(new), _fixed_part(old)
    bound = new.get("status", {}).get("phase") == "Bound"
    if not stale.get("volumeName"):
        fresh.pop("volumeName", None)
        stale.pop("volumeName", None)
    size, before = _size(new), _size(old)
    if fresh != stale or (size != before and not bound):
        changed = sorted(k for k in fresh.keys() | stale.keys() if fresh.get(k) != stale.get(k))
        problems.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
            f"changed: {', '.join(changed or ['resources'])}",
        )
    if size < before and size <= _amount(old.get("status", {}).get("capacity")):
        problems.forbidden(
            "spec.resources.requests.storage", "field can not be less than status.capacity"
        )


def _fixed_part(claim: Object) -> Object:
    spec = {k: v for k, v in claim.get("spec", {}).items() if k != "volumeAttributesClassName"}
    resources = {k: dict(v) for k, v in spec.get("resources", {}).items() if isinstance(v, dict)}
    resources.get("requests", {}).pop("storage", None)
    return {**spec, "resources": resources}


def _size(claim: Object) -> Quantity:
    return _amount(claim.get("spec", {}).get("resources", {}).get("requests"))


def _amount(resources: Object | None) -> Quantity:
    text = (resources or {}).get("storage")
    return Quantity.parse(text) if text else ZERO


def _decoded_size(blob: str) -> int:
    return len(blob) * 3 // 4 - blob[-2:].count("=")


def _is_object(blob: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(blob)), dict)
    except ValueError:
        return False
