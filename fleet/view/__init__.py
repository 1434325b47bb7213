"""The merged world: every member's objects and the fleet's own under one API.

What lives here: the projection of names (a bijection, made when an object is taken in and undone
on every write body), the intake of members' events into merged collections, the consistency of
merged reads, merged discovery and OpenAPI, and the way of a write to the member it belongs to.

Invariant: a merged collection changes only by numbered entries, and `(namespace, name)` tells
whose an object is. Next step: `fleet.scheduling` and `fleet.dispatch` decide over it,
`fleet.gateway` serves it.
"""
