"""Who is calling a cluster, and what was done under which name.

Callers hold a client certificate of the cluster's own authority. An administrator
(`system:masters`) may act as somebody else by `Impersonate-*` headers: that is how the gateway
crosses. Authorization is a seam: RBAC objects are stored and `Authorizer` is asked, but the one
that comes with the cluster lets every authenticated caller do everything; the audit trail tells
who they were.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote

from fleet.errors import Forbidden, Unauthorized
from fleet.kube.wire import ANONYMOUS, UserInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.apiserver.incoming import Peer
    from fleet.kube.wire import Request

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
PUBLIC: Final = ("/livez", "/readyz", "/healthz", "/version")
KEPT_RECORDS: Final = 1024
_EXTRA: Final = "impersonate-extra-"


class Authorizer(Protocol):
    """Says what a user may do."""

    def allows(self, user: UserInfo, attributes: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether, and why; `attributes` are those of a SubjectAccessReview's spec
        (`resourceAttributes` or `nonResourceAttributes`)."""


class Everything:
    """Allows every known caller everything."""

    def allows(self, user: UserInfo, attributes: Mapping[str, Any]) -> tuple[bool, str]:
        return True, "this cluster stores RBAC objects and does not enforce them"


@dataclass(frozen=True, slots=True)
class Record:
    """One write: who did it, through whose credential, and what."""

    user: str
    groups: tuple[str, ...]
    by: str
    method: str
    path: str


class Audit:
    """The last writes, oldest first; bounded, the oldest go."""

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=KEPT_RECORDS)

    def note(self, request: Request, *, by: UserInfo) -> None:
        if request.method in ("GET", "HEAD"):
            return
        user = request.user
        self.records.append(Record(user.name, user.groups, by.name, request.method, request.path))


class ClientCertificates:
    """The `fleet.apiserver.incoming.Authenticator` of a cluster: users by certificate."""

    async def authenticate(self, peer: Peer) -> UserInfo:
        """Raises Unauthorized."""
        if peer.certificate is not None:
            user = _user_of(peer.certificate)
            if user is not None:
                return user
        if any(peer.path == public or peer.path.startswith(public + "/") for public in PUBLIC):
            return ANONYMOUS
        raise Unauthorized("Unauthorized")


def impersonated(request: Request) -> Request:
    """`request` as the user it is made for.

    Raises Forbidden when its caller may not act as somebody else.
    """
    headers = request.headers
    asked = [name for name in headers if name.startswith("impersonate-")]
    if not asked:
        return request
    name = headers.get("impersonate-user", "")
    if MASTERS not in request.user.groups:
        raise Forbidden.of(
            group="",
            resource="users",
            name=name,
            why=f'User "{request.user.name}" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        )
    if not name:
        raise Forbidden("requested groups, uid or extra to impersonate without a user")
    groups = [line for line in headers.get("impersonate-group", "").split("\n") if line]
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    user = UserInfo(
        name=name,
        groups=tuple(groups),
        uid=headers.get("impersonate-uid", ""),
        extra={
            unquote(each.removeprefix(_EXTRA)): tuple(headers[each].split("\n"))
            for each in asked
            if each.startswith(_EXTRA)
        },
    )
    kept = {key: value for key, value in headers.items() if key not in asked}
    return replace(request, user=user, headers=kept)


def _user_of(certificate: Mapping[str, Any]) -> UserInfo | None:
    """The common name and the organizations of a verified certificate."""
    name = ""
    groups: list[str] = []
    for relative in certificate.get("subject", ()):
        for kind, value in relative:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    return UserInfo(name, (*groups, AUTHENTICATED)) if name else None
