"""Refusals of writes, in upstream's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Details,
    Forbidden,
    Invalid,
    NotFound,
)
from fleet.kube.defaults.validation import needs_revision
from fleet.kube.revision import parse as parse_revision
from fleet.store.objects import MODIFIED_MEANWHILE

if TYPE_CHECKING:
    from fleet.kube.options import DeleteOptions
    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound.of(group=resource.gvr.group, resource=resource.gvr.resource, name=name)


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    gvr = resource.gvr
    return Conflict.of(group=gvr.group, resource=gvr.resource, name=name, why=why)


def check_update(resource: Resource, entry: Entry, *, revision: str, uid: str = "") -> None:
    """Raises Conflict unless `entry` is the object that an update means; "" leaves it open.

    Raises Invalid when the kind wants every update to say what it was based on.
    """
    if uid and uid != entry.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {entry.uid}"
        raise conflict(resource, entry.name, why)
    given = parse_revision(revision)
    if not given and needs_revision(resource.gvr.group, resource.kind, custom=resource.custom):
        cause = Cause(
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
            "metadata.resourceVersion",
        )
        gvr = resource.gvr
        raise Invalid.of(group=gvr.group, kind=gvr.resource, name=entry.name, causes=[cause])
    if given not in (0, entry.revision):
        raise conflict(resource, entry.name, MODIFIED_MEANWHILE)


def check_delete(resource: Resource, entry: Entry, options: DeleteOptions) -> None:
    """Raises Conflict unless `entry` is the object that a DELETE means."""
    asked, found = options.uid, entry.uid
    what, since = "UID", "deleted and then recreated"
    if not asked or asked == found:
        asked, found = options.resource_version, str(entry.revision)
        what, since = "ResourceVersion", "modified"
    if not asked or asked == found:
        return
    if resource.gvr.group_resource == "namespaces":
        raise conflict(
            resource,
            entry.name,
            f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}",
        )
    # upstream names the kind here, not the resource
    raise Conflict.of(
        group=resource.gvr.group,
        resource=resource.kind,
        name=entry.name,
        why=f"the {what} in the precondition ({asked}) does not match the {what} in record "
        f"({found}). The object might have been {since}",
    )


def check_name(given: str, name: str) -> None:
    """Raises BadRequest unless the object in a PUT is called what the URL says."""
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if given != name:
        raise BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def terminating(resource: Resource, *, name: str, namespace: str) -> Forbidden:
    """A create in a namespace that goes away; clients look for the cause."""
    gvr = resource.gvr
    error = Forbidden.of(
        group=gvr.group,
        resource=gvr.resource,
        name=name,
        why=f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    cause = Cause(
        "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
    )
    details = Details(group=gvr.group, kind=gvr.resource, name=name, causes=(cause,))
    return Forbidden(error.message, details=details)


def being_deleted(error: AlreadyExists) -> AlreadyExists:
    """The name is taken by an object that is on its way out."""
    return AlreadyExists(f"object is being deleted: {error.message}", details=error.details)


def no_unique_name(error: AlreadyExists) -> AlreadyExists:
    """Every generated name was taken."""
    details = error.details or Details()
    return AlreadyExists(
        f"{error.message}, the server was not able to generate a unique name for the object",
        details=Details(group=details.group, kind=details.kind, name=details.name, retry_after_s=1),
    )
