"""The fleet's own objects: which resources there are, and the kernel that serves them.

What a plain namespace or a plain cluster-scoped name may hold is listed here (docs/projection.md
says where a create goes). Nodes, volumes and the like exist in members only; a create without a
member's name is refused there with the way to name one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.apiserver import bodies
from fleet.apiserver.definitions import DefinitionAdmission
from fleet.apiserver.kernel import Kernel
from fleet.apiserver.kinds import Kinds
from fleet.apiserver.writing import IMMORTAL_NAMESPACES, Writer
from fleet.errors import AlreadyExists, Cause, Invalid, MethodNotAllowed
from fleet.kube import builtin, defaults
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.schema import document, group_versions, openapi_path
from fleet.kube.schema.publishing import Published, published
from fleet.view import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from random import Random

    from fleet.apiserver.kinds import CustomKind
    from fleet.apiserver.writing import Admission
    from fleet.kube.paths import Target
    from fleet.kube.wire import Request, Response, UserInfo
    from fleet.store.objects import ObjectStore

NAMESPACES = GroupVersionResource("", "v1", "namespaces")
PODS = GroupVersionResource("", "v1", "pods")
BUILT_IN = (
    NAMESPACES,
    GroupVersionResource("", "v1", "configmaps"),
    GroupVersionResource("", "v1", "endpoints"),
    GroupVersionResource("", "v1", "events"),
    GroupVersionResource("", "v1", "limitranges"),
    GroupVersionResource("", "v1", "persistentvolumeclaims"),
    PODS,
    GroupVersionResource("", "v1", "podtemplates"),
    GroupVersionResource("", "v1", "resourcequotas"),
    GroupVersionResource("", "v1", "secrets"),
    GroupVersionResource("", "v1", "serviceaccounts"),
    GroupVersionResource("", "v1", "services"),
    GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    GroupVersionResource("apps", "v1", "controllerrevisions"),
    GroupVersionResource("apps", "v1", "daemonsets"),
    GroupVersionResource("apps", "v1", "deployments"),
    GroupVersionResource("apps", "v1", "replicasets"),
    GroupVersionResource("apps", "v1", "statefulsets"),
    GroupVersionResource("autoscaling", "v2", "horizontalpodautoscalers"),
    GroupVersionResource("batch", "v1", "cronjobs"),
    GroupVersionResource("batch", "v1", "jobs"),
    GroupVersionResource("coordination.k8s.io", "v1", "leases"),
    GroupVersionResource("discovery.k8s.io", "v1", "endpointslices"),
    GroupVersionResource("networking.k8s.io", "v1", "ingresses"),
    GroupVersionResource("networking.k8s.io", "v1", "networkpolicies"),
    GroupVersionResource("policy", "v1", "poddisruptionbudgets"),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles"),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "rolebindings"),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles"),
    GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses"),
)
REVIEWS = (
    GroupVersionResource("authentication.k8s.io", "v1", "selfsubjectreviews"),
    GroupVersionResource("authorization.k8s.io", "v1", "localsubjectaccessreviews"),
    GroupVersionResource("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
    GroupVersionResource("authorization.k8s.io", "v1", "selfsubjectrulesreviews"),
    GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews"),
)
SYSTEM_NAMESPACE = "fleet-system"
FIRST_NAMESPACES = ("default", SYSTEM_NAMESPACE)
# Pods and Services of the fleet run in members; their streams and bindings are not the store's.
_SERVED_SUBRESOURCES = frozenset({"status", "scale", "finalize"})


def resources(custom: Sequence[CustomKind]) -> tuple[Resource, ...]:
    """The rows of everything the fleet may own, and the reviews it answers."""
    rows = []
    for gvr in (*BUILT_IN, *REVIEWS):
        row = builtin.resource(gvr)
        if row is None:
            raise LookupError(f"the release has no {gvr}")
        subresources = tuple(s for s in row.subresources if s.name in _SERVED_SUBRESOURCES)
        rows.append(replace(row, subresources=subresources))
    return (*rows, *(kind.resource for kind in custom))


class Reviews:
    """Answers of the fleet about itself: who am I, may I.

    Whoever is let in holds a certificate of the fleet's own authority and may do everything.
    """

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        if target.gvr not in REVIEWS:
            return None
        review = bodies.object_of(request, default=(resource.api_version, resource.kind))
        review.setdefault("metadata", {"creationTimestamp": None})
        match resource.kind:
            case "SelfSubjectReview":
                user: dict[str, Any] = {
                    "username": request.user.name,
                    "groups": list(request.user.groups),
                }
                review["status"] = {"userInfo": user}
            case "SelfSubjectRulesReview":
                everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
                review["status"] = {
                    "resourceRules": [everything],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                    "incomplete": False,
                }
            case "SelfSubjectAccessReview":
                review["status"] = {"allowed": True, "reason": "admin of the fleet"}
            case _:
                raise MethodNotAllowed(
                    f"{resource.kind} cannot be answered: the fleet knows no users but its admin"
                )
        return bodies.json_response(201, review)


# Of these, members' objects appear in the fleet's namespaces as NAME.MEMBER.
_PARTS = frozenset({"pods", "events", "endpointslices.discovery.k8s.io"})


class NotAMembers:
    """Refuses a fleet object whose name says that it is a member's: the merged view would take it
    for one, and never show it."""

    def __init__(self, members: Callable[[], Collection[str]]) -> None:
        self._members = members

    def named(self, resource: Resource, name: str) -> bool:
        """Whether the name is that of a member's object, or of a part that lives in a member."""
        return name.rpartition(".")[2] in self._members() if "." in name else False

    async def admit(
        self, resource: Resource, obj: dict[str, Any], old: dict[str, Any] | None, user: UserInfo
    ) -> dict[str, Any]:
        """Raises Invalid for a new object that is named so and would be taken for a member's: a
        cluster-scoped one, or one of a kind whose members' objects appear in plain namespaces."""
        name = obj["metadata"]["name"]
        confusable = not resource.namespaced or resource.gvr.group_resource in _PARTS
        if old is None and confusable and self.named(resource, name):
            member = name.rpartition(".")[2]
            there = f"context fleet or {member}"
            if resource.namespaced:
                there = f"-n {obj['metadata']['namespace']}.{member}"
            why = (
                f'"{name}" names an object of member {member}: create it there ({there}), or give '
                "it another name"
            )
            raise Invalid.of(
                group=resource.gvr.group,
                kind=resource.kind,
                name=name,
                causes=[Cause("FieldValueInvalid", f"Invalid value: {why}", "metadata.name")],
            )
        return obj


class NodesOfMembers:
    """Refuses a Pod of the fleet on a node that no member has: it would wait for it for ever."""

    def __init__(self, members: Callable[[], Collection[str]]) -> None:
        self._members = members

    async def admit(
        self, resource: Resource, obj: dict[str, Any], old: dict[str, Any] | None, user: UserInfo
    ) -> dict[str, Any]:
        """Raises Invalid for a new Pod whose `spec.nodeName` is not `NODE.MEMBER`."""
        node = obj["spec"].get("nodeName") if resource.gvr == PODS and old is None else None
        if not node:
            return obj
        members = self._members()
        head, _, member = node.rpartition(".")
        if head and member in members:
            return obj
        metadata = obj["metadata"]
        example = min(members, default="MEMBER")
        why = f'Invalid value: "{node}": is no node of the fleet'
        if meant := naming.name_hint(node, members):
            why += f" {meant}"
        else:
            why += (
                f", which calls them NODE.MEMBER ({node}.{example}); or create the pod in the "
                f"member: -n {metadata['namespace']}.{example}"
            )
        causes = [Cause("FieldValueInvalid", why, "spec.nodeName")]
        raise Invalid.of(group="", kind="Pod", name=metadata["name"], causes=causes)


def ending_in(member: str, store: ObjectStore, rows: Iterable[Resource]) -> str:
    """Which fleet object would be taken for one of `member`, should a member be called so; "" when
    there is none."""
    for row in rows:
        if row.namespaced or "list" not in row.verbs:
            continue
        for entry in store.collection(row).snapshot().entries():
            if entry.name.endswith(f".{member}"):
                what = row.gvr.group_resource
                return f"the fleet's own {what} {entry.name} would be taken for one of that member"
    return ""


class OwnOpenApi:
    """OpenAPI of the fleet's own kinds: the release's documents, and those of custom kinds."""

    def __init__(self, custom: Mapping[str, bytes]) -> None:
        """`custom` maps paths (`apis/fleet.dev/v1alpha1`) to documents."""
        self._fixed = dict(custom)
        self._released = {openapi_path(gv): gv for gv in group_versions()}
        self._custom: Mapping[str, bytes] = {}
        self.index: Mapping[str, str] = {}
        self.release: Mapping[str, str] = {}
        self.define({})

    def define(self, documents: Mapping[str, bytes]) -> None:
        """These documents are published besides; a fixed one of the same path stays."""
        self._custom = {**documents, **self._fixed}
        self.index = {path: hashlib.sha256(raw).hexdigest() for path, raw in self._custom.items()}
        self.release = {
            path: builtin.release() for path in self._released if path not in self._custom
        }

    async def hashes(self) -> Mapping[str, str]:
        return {**self.release, **self.index}

    async def document(self, path: str) -> bytes | None:
        custom = self._custom.get(path)
        if custom is not None:
            return custom
        group_version = self._released.get(path)
        return document(group_version) if group_version is not None else None


def build(
    store: ObjectStore,
    custom: Sequence[CustomKind],
    *,
    openapi: OwnOpenApi,
    now: Callable[[], datetime],
    uid: Callable[[], str],
    rng: Random,
    admission: Sequence[Admission] = (),
    server_address: str,
) -> Kernel:
    """The kernel over the fleet's store."""
    kinds = Kinds(custom)
    rows = resources(custom)
    writer = Writer(
        store,
        kinds,
        now=now,
        uid=uid,
        random=rng,
        admission=(
            DefinitionAdmission(lambda row: bool(len(store.collection(row)))),
            *admission,
        ),
        namespaces=next(row for row in rows if row.gvr == NAMESPACES),
        immortal=(*IMMORTAL_NAMESPACES, SYSTEM_NAMESPACE),
    )
    kernel = Kernel(
        store,
        rows,
        kinds=kinds,
        writer=writer,
        openapi=openapi,
        wall_clock=lambda: now().timestamp(),
        rng=rng,
        special=(Reviews(),),
        server_address=server_address,
    )
    kernel.on_change(
        lambda: openapi.define(
            published(Published(kind.resource, kind.openapi) for kind in kinds.defined)
        )
    )
    return kernel


async def first_objects(
    store: ObjectStore, *, now: datetime, uid: Callable[[], str], rng: Random
) -> None:
    """What every fleet has from its first start."""
    row = builtin.resource(NAMESPACES)
    assert row is not None
    for name in FIRST_NAMESPACES:
        obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
        made = defaults.create(
            "", "v1", "Namespace", obj, namespace="", now=now, uid=uid(), random=rng
        )
        try:
            await store.create(row, made)
        except AlreadyExists:
            continue


def fleet_uid(store: ObjectStore) -> str:
    """What marks as this fleet's whatever it puts into members: the UID of its own namespace, as
    long as its store is kept. Raises LookupError before `first_objects`."""
    row = builtin.resource(NAMESPACES)
    assert row is not None
    entry = store.get(row, "", SYSTEM_NAMESPACE)
    if entry is None:
        raise LookupError(f"the fleet has no namespace {SYSTEM_NAMESPACE}")
    return entry.uid
