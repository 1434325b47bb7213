"""What a quota leaves idle, lent to others for a time: loans are leases.

`terms` reads a LendingPolicy, `loans` are the values, `floor` says what a donor keeps, `floors`
what all do, `filling` who borrows, `recall` who gives back; `desk` puts them together over an
engine, `spare` and `seats` tell of the members. `record` has a loan stand at the work. `classes`
says who may share nodes, `occupancy` who does; `isolation` keeps them apart on the nodes and
networks of a member. Invariants: nothing is lent of what a donor needs; no loan runs past its term
unless it was renewed; none ends without notice. Next step: `fleet.dispatch` tells the work that is
called back, and ends it when its notice is over.
"""
