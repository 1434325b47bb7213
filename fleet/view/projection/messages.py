"""A member's Status, made to name its object as the merged world does.

Only the places where upstream puts a name are touched: `details.name`, the quoted name in the
message, and the namespace in the few sentences that mention one. All other text is the member's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fleet.view.references import cluster_scoped

if TYPE_CHECKING:
    from fleet.kube.resources import Resource

# Forbidden by authorization; by a namespace that ends; for want of a ServiceAccount.
_NAMESPACES = re.compile(
    r'(?:in the namespace ")[^"]+(?=")'
    r"|(?:\bin namespace |^namespace )[^\s\"]+(?= (?:because it )?is being terminated)"
    r"|\bservice account [^\s/\"]+(?=/)"
)


def project(status: dict[str, Any], *, resource: Resource, member: str) -> dict[str, Any]:
    """`status` with projected names, in place; `resource` is what was asked for."""
    suffix = "." + member
    name: Any = ""
    details = status.get("details")
    if isinstance(details, dict):
        if _names_cluster_scoped(details, resource):
            name = details.get("name")
            if isinstance(name, str) and name:
                details["name"] = name + suffix
        causes = details.get("causes")
        for cause in causes if isinstance(causes, list) else ():
            if isinstance(cause, dict) and isinstance(cause.get("message"), str):
                cause["message"] = _namespaces(cause["message"], suffix)
    message = status.get("message")
    if isinstance(message, str):
        if isinstance(name, str) and name:
            message = message.replace(f'"{name}"', f'"{name}{suffix}"')
        status["message"] = _namespaces(message, suffix)
    return status


def _names_cluster_scoped(details: dict[str, Any], resource: Resource) -> bool:
    group, kind = details.get("group") or "", details.get("kind")
    if not isinstance(kind, str) or not isinstance(group, str):
        return False
    if group == resource.gvr.group and kind in (resource.gvr.resource, resource.kind):
        return not resource.namespaced
    return cluster_scoped(group=group, kind=kind)


def _namespaces(text: str, suffix: str) -> str:
    return _NAMESPACES.sub(lambda found: found[0] + suffix, text)
