"""Kubernetes semantics as pure functions and values: no I/O, no event loop.

What lives here: request values (`wire`), resources and revisions, URLs (`paths`), selectors and
selectable fields, request options, continue tokens, content negotiation, Status, discovery
documents and the built-in resources; beside them schema, patch, defaults, tables and protobuf.

Invariant: every module is a function of its arguments. Wording and status codes are those of
kube-apiserver 1.36, so that a client cannot tell which one answered; what is refused is refused
here, before anything has changed.

Next step: `fleet.store` keeps objects under revisions; `fleet.apiserver` joins both into verbs.
"""
