"""Rules for resource names and amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.problems import NEGATIVE
from fleet.kube.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_CONTAINER: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_QUOTA: Final = frozenset(
    (
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "storage", "requests.cpu", "requests.memory",
        "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
        "limits.ephemeral-storage", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
_COUNTED: Final = frozenset(
    (
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip


def check_resources(problems: Problems, resources: Object, path: str) -> None:
    """`limits` and `requests` of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, text in sorted(amounts.items()):
            where = f"{path}.{side}[{name}]"
            _container_resource(problems, name, where)
            check_amount(problems, name, text, where)
            if side == "requests":
                _within_limit(problems, name, text, limits, path)
    used = {*limits, *requests}
    if any(map(_is_hugepages, used)) and not used & {"cpu", "memory"}:
        problems.forbidden(path, "HugePages require cpu or memory")


def check_amount(problems: Problems, name: str, text: str, path: str) -> None:
    """One amount: not negative, and whole where only whole ones make sense."""
    amount = Quantity.parse(text)
    if amount < ZERO:
        problems.invalid(path, text, NEGATIVE)
    if _is_counted(name) and not amount.is_whole:
        problems.invalid(path, text, "must be an integer")


def _within_limit(
    problems: Problems, name: str, text: str, limits: dict[str, str], path: str
) -> None:
    may_exceed = _is_native(name) and not _is_hugepages(name)
    if name not in limits:
        if not may_exceed:
            problems.required(
                f"{path}.limits", "Limit must be set for non overcommitable resources"
            )
        return
    amount, limit = Quantity.parse(text), Quantity.parse(limits[name])
    if amount != limit and not may_exceed:
        problems.invalid(
            f"{path}.requests", text, f"must be equal to {name} limit of {limits[name]}"
        )
    elif amount > limit:
        problems.invalid(
            f"{path}.requests",
            text,
            f"must be less than or equal to {name} limit of {limits[name]}",
        )


def _container_resource(problems: Problems, name: str, path: str) -> None:
    wrong = names.qualified_name(name)
    problems.invalid_each(path, name, wrong)
    if "/" not in name:
        known = name in _CONTAINER or _is_hugepages(name)
        if not known and name not in _QUOTA and not wrong:
            problems.invalid(path, name, "must be a standard resource type or fully qualified")
        if not known:
            problems.invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        problems.invalid(path, name, "doesn't follow extended resource name standard")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_hugepages(name: str) -> bool:
    return name.startswith("hugepages-")


def _is_extended(name: str) -> bool:
    if _is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def _is_counted(name: str) -> bool:
    return name in _COUNTED or _is_extended(name)
