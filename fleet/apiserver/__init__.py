"""The Kubernetes verbs over collections and stores, as request and response values, and HTTP.

What lives here: reading (GET, LIST, WATCH in every representation), writing over an object store,
discovery and OpenAPI documents of what a store serves, and the HTTP form of all of it. The
gateway's roots and every virtual-node member are built from the same pieces.

Invariant: nothing here knows about members; a response is made from one collection at one
revision. Next step: `fleet.members` brings other clusters' objects in, `fleet.view` merges them.
"""
