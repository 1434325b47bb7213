"""The three roots, by path."""

from __future__ import annotations

from typing import NamedTuple

MERGED = "merged"
MEMBER = "member"
OBJECTS = "objects"


class Route(NamedTuple):
    """A root and the path below it. `member` is "" unless the root is a member's."""

    root: str
    path: str
    member: str = ""


def route_of(path: str) -> Route:
    """Where `path` leads; `/clusters` alone is a member root without a member."""
    first, _, rest = path.lstrip("/").partition("/")
    if first == "fleet":
        return Route(OBJECTS, "/" + rest)
    if first == "clusters":
        member, _, below = rest.partition("/")
        return Route(MEMBER, "/" + below, member)
    return Route(MERGED, path)
