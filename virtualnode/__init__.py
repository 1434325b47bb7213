"""Turns a back end into a member: a small cluster, served from the API kernel.

`cluster` composes it: a store and a kernel (`fleet.store`, `fleet.apiserver`) hold and serve the
objects; controllers (`jobs`, `deployments`, `services`) and a `scheduler` follow
the store; a `kubelet` runs what is bound to its nodes through a `Runtime`, which an adapter
provides (`adapters.process`: local processes).

Invariants: from outside it is a cluster like any other – the gateway reaches it by kubeconfig and
knows no special case; whatever it does not do is refused with a reason, never skipped. Controllers
are level-triggered: they read the present state by key and write the difference, and a second pass
writes nothing. Next step: `fleet.testbed.embedded` gives it a runtime, a certificate and a port.
"""
