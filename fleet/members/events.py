"""One line of a watch, and the revision and key of an object."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from fleet.errors import MemberStatus, TransportError

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class GarbledError(TransportError):
    """Bytes that are no watch event; the message never quotes them: they may hold a Secret."""


class WatchEvent(NamedTuple):
    """`kind` is ADDED, MODIFIED, DELETED, BOOKMARK or something of the future."""

    kind: str
    object: dict[str, Any]


def parse(line: bytes) -> WatchEvent:
    """The event on one line.

    Raises MemberStatus for an ERROR event, GarbledError for a line that is no event.
    """
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise GarbledError(f"a watch line of {len(line)} bytes is no JSON: {error}") from error
    kind = event.get("type") if isinstance(event, dict) else None
    body = event.get("object") if isinstance(event, dict) else None
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise GarbledError(f"a watch line of {len(line)} bytes is no watch event")
    if kind == "ERROR":
        status = dict(body)
        if not isinstance(status.get("code"), int):
            status["code"] = 410 if status.get("reason") in ("Expired", "Gone") else 500
        raise MemberStatus(status)
    if kind in _CHANGES and not isinstance(body.get("metadata"), dict):
        raise GarbledError(f"a watch event {kind} of {len(line)} bytes has no metadata")
    return WatchEvent(kind, body)


def revision_of(obj: dict[str, Any]) -> int:
    """`metadata.resourceVersion` as a number; 0 where there is none that is one."""
    text = (obj.get("metadata") or {}).get("resourceVersion")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def key_of(obj: dict[str, Any]) -> tuple[str, str]:
    """(namespace, name)."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


def ends_initial_events(bookmark: dict[str, Any]) -> bool:
    """Whether this bookmark says that the whole initial state has been sent."""
    annotations = (bookmark.get("metadata") or {}).get("annotations") or {}
    return annotations.get(INITIAL_EVENTS_END) == "true"
