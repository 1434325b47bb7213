"""Projection of one resource of one member: `project` when an object is taken in, `unproject` on
every body that goes back.

`unproject(project(x)) = x` for every JSON object. A body must be of that form: what names nothing
of this member is refused, naming each field, before anything is sent.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest, Cause, Conflict, Invalid
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.revision import parse as parse_revision
from fleet.view.naming import CLUSTER_LABEL, MEMBER_METADATA_ANNOTATION
from fleet.view.projection import marks, messages, patches
from fleet.view.projection.tree import METADATA, Node, Stripper, build, forward, name_forward
from fleet.view.references import OWNERS, references_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.revision import Revision

    RevisionOf = Callable[[Revision], str | None]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


@lru_cache(maxsize=4096)
def _tree(group: str, kind: str, custom: bool) -> Node:
    return build((OWNERS, *references_of(group=group, kind=kind, custom=custom)))


class Projector:
    """The bijection for the objects of `resource` in `member`. Holds no state; build once, share.

    A revision goes back through `revision_of`, the cache: the member's revision of this object at
    a fleet revision, None when it is not known; or through the annotation in the body.
    """

    def __init__(self, member: str, resource: Resource) -> None:
        self.member = member
        self.resource = resource
        # What errors are about; for a subresource's body the object that it belongs to.
        self.subject = resource
        self.suffix = "." + member
        self.tree = _tree(resource.gvr.group, resource.kind, resource.custom)
        # Which part of the name carries the member.
        self._coordinate = "namespace" if resource.namespaced else "name"
        references = Node(
            {key: child for key, child in self.tree.children.items() if key != METADATA}
        )
        self._forward = forward(references, self.suffix)

    def subresource(self, name: str) -> Projector:
        """The projector for bodies of `resource/name` (Scale, Eviction, Binding, TokenRequest, …).

        A subresource that discovery does not tell is taken to have the object's own kind.
        """
        row = self.resource.subresource(name)
        gvr = self.resource.gvr
        if row is None or (row.kind == self.resource.kind and row.group in ("", gvr.group)):
            return self
        if row.group:
            gvr = GroupVersionResource(row.group, row.version, gvr.resource)
        body = replace(self.resource, gvr=gvr, kind=row.kind, subresources=(), custom=False)
        projector = Projector(self.member, body)
        projector.subject = self.subject
        return projector

    # -- names

    def key(self, obj: dict[str, Any]) -> tuple[str, str]:
        """The projected (namespace, name) of a member's object. Raises KeyError without a name."""
        metadata = obj[METADATA]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        if self.resource.namespaced:
            return (namespace + self.suffix if namespace else "", name)
        return (namespace, name + self.suffix)

    # -- there

    def project(self, obj: dict[str, Any], *, revision: Revision) -> dict[str, Any]:
        """`obj` as the merged world shows it, changed in place; freshly parsed JSON only.

        `revision` takes the place of the member's revision, where there is one; 0 shows none.
        """
        metadata = obj.get(METADATA)
        if type(metadata) is dict:
            text = metadata.get(self._coordinate)
            if type(text) is str and text:
                metadata[self._coordinate] = text + self.suffix
            owners = metadata.get("ownerReferences")
            if owners is not None:
                self._project_owners(owners)
            marks.inject(metadata, member=self.member, revision=str(revision) if revision else "")
        if self._forward is not None:
            self._forward(obj)
        return obj

    def _project_owners(self, owners: Any) -> None:
        if type(owners) is list:
            for owner in owners:
                if type(owner) is dict and OWNERS.cluster_scoped(owner):
                    name_forward(owner, OWNERS, self.suffix)

    def project_status(self, status: dict[str, Any]) -> dict[str, Any]:
        """A Status of the member, naming what it is about as the merged world does; in place."""
        return messages.project(status, resource=self.subject, member=self.member)

    # -- and back

    def unproject(
        self,
        obj: dict[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        revision_of: RevisionOf | None = None,
    ) -> dict[str, Any]:
        """A whole object out of a request's body as the member has it, changed in place.

        `namespace` and `name` are those of the URL, as projected. An object without a revision
        stays without. Raises BadRequest when the object is not the one of the URL, Conflict for a
        revision that this object is not known to have had, Invalid for references into other
        members.
        """
        stripper = Stripper(self.member)
        metadata = obj.get(METADATA)
        if isinstance(metadata, dict):
            self.metadata_back(
                metadata,
                stripper=stripper,
                namespace=namespace,
                name=name,
                revision_of=revision_of,
            )
        stripper.strip(self.tree, obj)
        self._preconditions_back(obj, name=name, revision_of=revision_of)
        self.refuse(stripper.causes, name=name or self._name_in(metadata))
        return obj

    def unproject_delete_options(
        self,
        options: dict[str, Any],
        *,
        name: str = "",
        revision_of: RevisionOf | None = None,
    ) -> dict[str, Any]:
        """DeleteOptions with the precondition on the revision as the member has it; in place."""
        preconditions = options.get("preconditions")
        if isinstance(preconditions, dict):
            text = preconditions.get("resourceVersion")
            if isinstance(text, str) and text:
                preconditions["resourceVersion"] = self.revision_back(
                    text, told=None, name=name, revision_of=revision_of
                )
        return options

    def unproject_patch(
        self,
        content_type: str,
        body: bytes,
        *,
        namespace: str = "",
        name: str = "",
        revision_of: RevisionOf | None = None,
        current: Mapping[str, Any] | None = None,
    ) -> bytes:
        """A patch of any of the four types, as JSON that does the same to the member's object.

        `current` is the projected object as last seen; a JSON patch needs it where it adds the
        first label or annotation that is not a mark. A body without meaning comes back as it is,
        for the member to refuse. Raises as `unproject`, BadRequest for a body that does not
        parse or an operation that cannot be carried over, and UnsupportedMediaType.
        """
        return patches.unproject(
            self,
            content_type,
            body,
            target=patches.PatchTarget(namespace, name, revision_of, current),
        )

    def _preconditions_back(
        self, obj: dict[str, Any], *, name: str, revision_of: RevisionOf | None
    ) -> None:
        # Eviction carries the preconditions of the pod's deletion; it is never projected itself.
        if (self.resource.gvr.group, self.resource.kind) != ("policy", "Eviction"):
            return
        if isinstance(options := obj.get("deleteOptions"), dict):
            self.unproject_delete_options(options, name=name, revision_of=revision_of)

    # -- the pieces of the way back that patches use too

    def metadata_back(
        self,
        metadata: dict[str, Any],
        *,
        stripper: Stripper,
        namespace: str,
        name: str,
        revision_of: RevisionOf | None,
    ) -> None:
        """Names, marks and revision of a whole object's metadata, or of a merge patch of it."""
        self._coordinates_back(metadata, namespace=namespace, name=name)
        self._check_label(metadata, stripper)
        if stripper.merges:
            told = marks.drop(metadata)
        else:
            try:
                kept = marks.kept_by(metadata)
            except marks.Unreadable:
                kept = {}
                stripper.causes.append(_MEMBER_METADATA_CAUSE)
            told = marks.remove(metadata, kept)
        text = metadata.get("resourceVersion")
        if isinstance(text, str) and text not in ("", "0"):
            metadata["resourceVersion"] = self.revision_back(
                text, told=told, name=name or self._name_in(metadata), revision_of=revision_of
            )

    def _coordinates_back(self, metadata: dict[str, Any], *, namespace: str, name: str) -> None:
        text = metadata.get(self._coordinate)
        if isinstance(text, str) and text:
            expected = namespace if self.resource.namespaced else name
            metadata[self._coordinate] = self.coordinate_back(text, expected=expected)

    def coordinate_back(self, text: str, *, expected: str) -> str:
        """The member's namespace (or cluster-scoped name) in a body; `expected` is the URL's.

        Raises BadRequest when it is another one.
        """
        plain = text.removesuffix(self.suffix)
        if plain and plain != text and expected in ("", text):
            return plain
        if self.resource.namespaced:
            raise BadRequest(OTHER_NAMESPACE)
        if expected:
            raise BadRequest(
                f"the name of the object ({text}) does not match the name on the URL ({expected})"
            )
        raise BadRequest(
            f"the name of the object ({text}) is none of member {self.member}, "
            f'whose names end in "{self.suffix}"'
        )

    def _check_label(self, metadata: dict[str, Any], stripper: Stripper) -> None:
        labels = metadata.get("labels")
        if not isinstance(labels, dict) or CLUSTER_LABEL not in labels:
            return
        value = labels[CLUSTER_LABEL]
        if value != self.member and not (stripper.merges and value is None):
            stripper.causes.append(self.label_cause(value))

    def label_cause(self, value: Any) -> Cause:
        return Cause(
            "FieldValueInvalid",
            f'Invalid value: "{value}": says which member the object is in, and that is '
            f"{self.member}; leave the label out",
            f"metadata.labels[{CLUSTER_LABEL}]",
        )

    def revision_back(
        self, text: str, *, told: str | None, name: str, revision_of: RevisionOf | None
    ) -> str:
        """The member's revision for a fleet revision in a body; `told` is the annotation's.

        Raises Conflict when neither the cache nor the body knows, or both and they differ.
        """
        known = revision_of(parse_revision(text)) if revision_of is not None else None
        if known is None:
            known = told
        elif told is not None and told != known:
            known = None
        if known is None:
            gvr = self.subject.gvr
            raise Conflict.of(group=gvr.group, resource=gvr.resource, name=name, why=MODIFIED)
        return known

    def refuse(self, causes: list[Cause], *, name: str) -> None:
        """Raise Invalid when there are causes."""
        if causes:
            raise Invalid.of(
                group=self.resource.gvr.group, kind=self.resource.kind, name=name, causes=causes
            )

    @staticmethod
    def _name_in(metadata: Any) -> str:
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        return name if isinstance(name, str) else ""


_MEMBER_METADATA_CAUSE = Cause(
    "FieldValueInvalid",
    "Invalid value: is the gateway's; send it as it was read, or leave it out",
    f"metadata.annotations[{MEMBER_METADATA_ANNOTATION}]",
)
