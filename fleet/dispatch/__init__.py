"""From a decision to pods that run: shards are held in their members, committed, served, folded.

A workload goes `Queued → QuotaHeld → Holding → Committed → Running → Succeeded | Failed`, and back
to Queued or Lost where something breaks; the Placement object beside it is the durable record of
that. `controller` names what wants a look; `reconciler` reads the present state of one workload in
the store and in its members (`looking`, `sight`), asks `decisions` what follows (pure: a
`situation`, and a decision), writes the record by compare-and-set before it acts on it, and acts
(`acting`). The protocol is one for all kinds; what differs – the shard's object, its lease, how a
status is made of it – is a `kind.Kind`, one package each: `jobs`, `pods`. `shape`, `environment`,
`rendezvous`, `carrying`, `ranks` and `walls` say what stands in a member; `parts` tells the view
which objects of members belong to workloads.

Invariants: nothing starts before every shard of a generation is held and the commit is stored; a
second pass over the same state writes nothing, renewals of leases apart; what was sent to a member
is either in the record's shards or owed until it is seen gone; nothing that is not ours is touched.
Where work goes is `Planner`'s to say (`planning`), implemented over `fleet.scheduling` and wired
outside. The protocol is drawn in docs/dispatch.md.
"""
