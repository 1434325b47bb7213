"""Who may use how much: a tree of quotas, and the book of what is charged to it.

`tree` holds what each node is guaranteed, may use at most and lends; `book` what is in use, and
answers what is available; `report` puts both into the lines of `fleet quota`. Invariants: no
admission raises a node above its limit, every sum is what the charges below it add up to, and what
a node keeps to itself nobody else can take. Next step: `fleet.scheduling.engine` asks the book
before it asks for a place, and charges after.
"""
