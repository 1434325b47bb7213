"""Selectors of the merged world, translated for one member.

Lists and watches are answered from projected objects and need none of this. It is for what goes
on to a member with its selector: reads that pass through, `deletecollection`, requests that ask
every member directly; and for the label `fleet.dev/cluster`, which says which members to ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.errors import BadRequest
from fleet.kube import fields
from fleet.kube.selectors import FieldSelector, LabelSelector
from fleet.view.naming import CLUSTER_LABEL
from fleet.view.projection.tree import says_name
from fleet.view.references import CLUSTER_SCOPED, Field, Typed, references_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.kube.resources import Resource
    from fleet.kube.selectors import FieldRequirement


# What no object meets: each has a name, and a label is there or not.
_NO_FIELDS = "metadata.name="
_NO_LABELS = f"{CLUSTER_LABEL},!{CLUSTER_LABEL}"


def split_members(
    selector: LabelSelector, owners: Iterable[str]
) -> tuple[frozenset[str], LabelSelector]:
    """Whose objects a label selector can select, and what is left of it for each of them.

    `owners` are the members, and "" for the fleet itself, whose objects have no such label.
    """
    ours = [r for r in selector.requirements if r.key == CLUSTER_LABEL]
    if not ours:
        return frozenset(() if selector.nothing else owners), selector
    chosen = LabelSelector(ours)
    rest = LabelSelector([r for r in selector.requirements if r.key != CLUSTER_LABEL])
    return (
        frozenset(
            owner for owner in owners if chosen.matches({CLUSTER_LABEL: owner} if owner else {})
        ),
        rest,
    )


@dataclass(frozen=True, slots=True)
class MemberSelector:
    """A field selector for one member.

    `exact`: the member selects just the objects that the original selects. Otherwise it selects
    those and maybe more, and the caller filters the projected answer with the original; where
    selecting more does harm (`deletecollection`) it lists first.
    """

    selector: FieldSelector
    exact: bool = True


def unproject_label_selector(text: str, member: str) -> str:
    """A `labelSelector` for requests that go on to `member`.

    Raises BadRequest for one that does not follow the grammar.
    """
    owners, rest = split_members(LabelSelector.parse(text), [member])
    return str(rest) if owners else _NO_LABELS


def unproject_field_selector(text: str, resource: Resource, member: str) -> str:
    """A `fieldSelector` for requests that go on to `member` and must select neither more nor less.

    Raises BadRequest for one that does not follow the grammar, names no field of the resource, or
    cannot be said exactly in the member's words.
    """
    translated = for_member(
        fields.check(resource, FieldSelector.parse(text)), resource=resource, member=member
    )
    if translated is None:
        return _NO_FIELDS
    if not translated.exact:
        raise BadRequest(
            f'field selector "{text}" reads differently in member {member} from object to object: '
            "say kind and apiVersion of what is referred to as well"
        )
    return str(translated.selector)


def for_member(
    selector: FieldSelector, *, resource: Resource, member: str
) -> MemberSelector | None:
    """The selector as the member has to be asked, None when nothing of it can be selected.

    `selector` has passed `fleet.kube.fields.check`.
    """
    plain = {"metadata.namespace" if resource.namespaced else "metadata.name"}
    readings: dict[str, _Reading] = {}
    for reference in references_of(
        group=resource.gvr.group, kind=resource.kind, custom=resource.custom
    ):
        path = ".".join(reference.path)
        match reference:
            case Field():
                plain.add(path)
            case Typed():
                reading = _Reading.of(selector, reference, suffix="." + member)
                readings[f"{path}.name"] = reading
                if reference.uid:
                    readings[f"{path}.uid"] = reading
    terms: list[FieldRequirement] = []
    exact = True
    for term in selector.requirements:
        answer: _Answer | None
        if reading_of := readings.get(term[0]):
            answer = reading_of.term(term)
        elif term[0] in plain:
            answer = _stripped(term, suffix="." + member)
        else:
            answer = [term], True
        if answer is None:
            return None
        terms += answer[0]
        exact = exact and answer[1]
    return MemberSelector(FieldSelector(terms), exact)


# What a term becomes (nothing where it holds for every object), and whether that is exact.
_Answer = tuple[list["FieldRequirement"], bool]
_UNTOLD: _Answer = ([], False)


def _stripped(term: FieldRequirement, *, suffix: str) -> _Answer | None:
    """A term on a field that is always projected; None when no object can meet it."""
    field, operator, value = term
    if not value:
        return [term], True
    plain = value.removesuffix(suffix)
    if plain and plain != value:
        return [(field, operator, plain)], True
    return None if operator == "=" else ([], True)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How name and UID of a typed reference are read, as far as the selector tells.

    `cluster`: whether it is to a cluster-scoped kind, None when that differs by object. `name` is
    the one name selected, "" when there is none.
    """

    cluster: bool | None
    name: str
    suffix: str

    @classmethod
    def of(cls, selector: FieldSelector, reference: Typed, *, suffix: str) -> _Reading:
        prefix = ".".join(reference.path)
        kind = selector.exact(f"{prefix}.{reference.kind}")
        group = selector.exact(f"{prefix}.{reference.group}")
        cluster: bool | None = None
        if kind is not None:
            if kind not in CLUSTER_SCOPED:
                cluster = False
            elif group is not None:
                cluster = reference.cluster_scoped({reference.kind: kind, reference.group: group})
        return cls(cluster, selector.exact(f"{prefix}.name") or "", suffix)

    def term(self, term: FieldRequirement) -> _Answer | None:
        field, _, value = term
        if self.cluster is False or not value:
            return [term], True
        if field.endswith(".uid"):
            return self._uid(term)
        return _UNTOLD if self.cluster is None else _stripped(term, suffix=self.suffix)

    def _uid(self, term: FieldRequirement) -> _Answer:
        """A UID is projected where it is the name: never a real one."""
        field, operator, value = term
        if operator != "=":
            return _UNTOLD
        plain = value.removesuffix(self.suffix)
        if plain == value:
            return [term], bool(self.name) and not self._is_name(value)
        if self.cluster and self.name.endswith(self.suffix) and self._is_name(plain):
            return [(field, operator, plain)], True
        return _UNTOLD

    def _is_name(self, uid: str) -> bool:
        return says_name(uid, self.name.removesuffix(self.suffix), self.suffix)
