"""What the fleet leaves in a member that lets go of it, and the commands that remove it there.

Nothing in a member is touched by a leave: what runs there goes on, and whose decision it is to end
it is the administrator's of that cluster. All that joining and dispatch create carries one label;
what they mark – namespaces that were let in – is known by name. The list is complete: a test holds
it against the rights of dispatchers and against every object that the code makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.dispatch.marks import ACCEPT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from fleet.members.binding import BOUND_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST: Final = 88
MARK: Final = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
"""The label of what the fleet makes in members, as a selector."""


class Removal(NamedTuple):
    """Resources that are removed by one command, by their names with their groups."""

    resources: tuple[str, ...]
    namespaced: bool
    what: str


REMOVALS: Final = (
    Removal(("jobs.batch", "pods"), True, "parts of workloads: this ends what runs"),
    Removal(("namespaces",), False, "that the fleet made, with all in them"),
    Removal(
        (
            "configmaps",
            "secrets",
            "serviceaccounts",
            "services",
            "endpointslices.discovery.k8s.io",
            "networkpolicies.networking.k8s.io",
            "rolebindings.rbac.authorization.k8s.io",
        ),
        True,
        "what went along into others",
    ),
    Removal(
        (
            "clusterrolebindings.rbac.authorization.k8s.io",
            "clusterroles.rbac.authorization.k8s.io",
            "priorityclasses.scheduling.k8s.io",
        ),
        False,
        "rights, and the classes of holds",
    ),
    Removal(
        (
            "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
            "mutatingadmissionpolicies.admissionregistration.k8s.io",
        ),
        False,
        "where they are served",
    ),
)
"""In an order in which nothing is made again or refused meanwhile: workloads first, the policy that
numbers their pods last."""


def _together(resources: Iterable[str]) -> list[list[str]]:
    """As many for one command as can be read in one line."""
    found: list[list[str]] = []
    for each in resources:
        if found and len(",".join((*found[-1], each))) <= _MOST:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def commands(kubeconfig: str) -> list[str]:
    """The commands that remove all of it from the cluster that `kubeconfig` leads to.

    Each names the kubeconfig: in a shell whose own leads to the gateway the same deletions would
    reach every member that stays.
    """
    kubectl = f"kubectl --kubeconfig {kubeconfig}"
    lines = []
    for removal in REMOVALS:
        everywhere = " -A" if removal.namespaced else ""
        lines += [
            f"{kubectl} delete {','.join(some)}{everywhere} -l {MARK}  # {removal.what}"
            for some in _together(removal.resources)
        ]
    lines += [
        f"{kubectl} annotate namespaces --all {BOUND_ANNOTATION}-  # in namespaces that stay",
        f"{kubectl} label namespaces --all {ACCEPT_LABEL}-",
    ]
    return lines
