"""Answers of a cluster about its callers: who am I, may I."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.apiserver import bodies
from fleet.errors import BadRequest
from fleet.kube.wire import UserInfo
from virtualnode.resources import REVIEWS

if TYPE_CHECKING:
    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request, Response
    from virtualnode.access import Authorizer

Object = dict[str, Any]
_REVIEWED = frozenset(row.gvr for row in REVIEWS)
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


class Reviews:
    """`fleet.apiserver.kernel.Special` for the kinds of `resources.REVIEWS`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        """Raises BadRequest for a review that names nobody or nothing."""
        if target.gvr not in _REVIEWED:
            return None
        review = bodies.object_of(request, default=(resource.api_version, resource.kind))
        review.setdefault("metadata", {"creationTimestamp": None})
        review["status"] = self._status(resource.kind, review.get("spec") or {}, request.user)
        return bodies.json_response(201, review)

    def _status(self, kind: str, spec: Object, caller: UserInfo) -> Object:
        match kind:
            case "SelfSubjectReview":
                user: Object = {"username": caller.name, "groups": list(caller.groups)}
                if caller.uid:
                    user["uid"] = caller.uid
                if caller.extra:
                    user["extra"] = {key: list(values) for key, values in caller.extra.items()}
                return {"userInfo": user}
            case "SelfSubjectRulesReview":
                return dict(_EVERYTHING)
            case "SelfSubjectAccessReview":
                subject = caller
            case _:
                if not spec.get("user") and not spec.get("groups"):
                    raise BadRequest(f"{kind}: spec names neither a user nor a group")
                subject = UserInfo(spec.get("user") or "", tuple(spec.get("groups") or ()))
        if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
            raise BadRequest(f"{kind}: spec has no resourceAttributes or nonResourceAttributes")
        allowed, why = self._authorizer.allows(subject, spec)
        return {"allowed": allowed, "reason": why}
