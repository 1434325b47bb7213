"""One cluster of the fleet, and the roster of them all.

What lives here: reflectors that feed the merged view with a member's objects, what each member
serves (discovery, OpenAPI), what is known of its health, its identity and its credentials, and
joining and leaving at run time.

Invariant: a member is a `Handler` that speaks the Kubernetes API – nothing here knows how it is
reached; the transport is passed in. What is known is kept when a member is down and marked as
old, never dropped. Next step: `fleet.view` implements `Sink` and makes one world of them.
"""
