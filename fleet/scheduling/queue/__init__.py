"""Who is next, and what is held for whom.

`lines` keeps waiting work by quota node in order; `marks` holds freed quota for the head of a line
until it starts, and knows what may run on it meanwhile; `running` is what has been admitted and
when it is due to end; `rules` are the bounds. Invariants: order comes from priorities and
sequences, never from a clock or the order of calls; nothing that waits is forgotten: every event
that could help wakes it. Next step: `fleet.scheduling.engine` takes the first and tries it.
"""
