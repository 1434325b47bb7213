"""Objects of our own and the journal of every change.

What lives here: `Entry` (one object at one revision, as bytes plus what selectors need),
`Collection` (one resource's entries in key order with a bounded ring of changes), `Sequencer`
(the fleet revision) and the object stores that persist fleet objects.

Invariant: a change is numbered once, by the sequencer, and a collection's journal is the one
source of watch order; whoever reads a collection at revision R sees every change up to R and none
after. Next step: `fleet.apiserver` answers the Kubernetes verbs over collections and stores.
"""
