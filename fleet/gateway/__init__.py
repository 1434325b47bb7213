"""The gateway's door: who may come in, where a request goes, what is remembered of it.

What lives here: configuration, the state directory, the fleet's certificate authority and
kubeconfig, authentication, health, metrics, and the edge that routes to the three roots – the
merged view at `/`, each member as it is at `/clusters/NAME/`, the fleet's own objects at `/fleet/`.

Invariant: a request reaches a root only with a user, and below its root's path. Next step:
`fleet.app` builds these parts and wires them to members and view.
"""
