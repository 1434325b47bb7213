"""Who is calling the gateway.

A client certificate of the fleet's authority names its user and groups, as in Kubernetes
(common name and organizations). Bearer tokens go to a `TokenReviewer` once there is one. Nobody in
particular may only ask how the gateway is. Next step: `edge` routes the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fleet.errors import Unauthorized
from fleet.kube.wire import ANONYMOUS, UserInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.apiserver.incoming import Peer

AUTHENTICATED = "system:authenticated"

PUBLIC = ("/livez", "/readyz", "/healthz", "/version")
"""What may be asked without credentials; also below these, as `/livez/ping`."""


class TokenReviewer(Protocol):
    """Knows bearer tokens."""

    async def review(self, token: str) -> UserInfo | None:
        """Whose token it is, or None when it is nobody's."""


class Authentication:
    """The gateway's `fleet.apiserver.incoming.Authenticator`."""

    def __init__(self, *, tokens: TokenReviewer | None = None) -> None:
        self._tokens = tokens

    async def authenticate(self, peer: Peer) -> UserInfo:
        """The caller; raises Unauthorized, saying what was missing or wrong."""
        if peer.certificate is not None:
            user = user_of(peer.certificate)
            if user is not None:
                return user
        if peer.authorization:
            return await self._by_token(peer.authorization)
        if is_public(peer.path):
            return ANONYMOUS
        if peer.certificate is not None:
            raise Unauthorized("Unauthorized: the client certificate names no user")
        raise Unauthorized(
            "Unauthorized: neither a client certificate nor a token was sent; "
            "`fleet kubeconfig` names a kubeconfig that has one"
        )

    async def _by_token(self, authorization: str) -> UserInfo:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("Unauthorized: only client certificates and bearer tokens are known")
        user = await self._tokens.review(token) if self._tokens is not None else None
        if user is None:
            raise Unauthorized("Unauthorized: the token is not known here")
        return _authenticated(user)


def is_public(path: str) -> bool:
    return any(path == public or path.startswith(public + "/") for public in PUBLIC)


def user_of(certificate: Mapping[str, Any]) -> UserInfo | None:
    """The user that a verified certificate names, None when it has no common name.

    `certificate` is what `ssl.SSLSocket.getpeercert` returns.
    """
    names: list[str] = []
    groups: list[str] = []
    for relative_name in certificate.get("subject", ()):
        for kind, value in relative_name:
            if kind == "commonName":
                names.append(value)
            elif kind == "organizationName":
                groups.append(value)
    if not names or not names[-1]:
        return None
    return _authenticated(UserInfo(name=names[-1], groups=tuple(groups)))


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(
        name=user.name,
        groups=(*user.groups, AUTHENTICATED),
        uid=user.uid,
        extra=user.extra,
    )
