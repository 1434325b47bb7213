"""Who goes where: demand against capacity, prices and rules, to a plan or a reason.

Everything here is a pure function over values; no module awaits anything. `demand` and `selection`
say what is asked for, `accounts` and `capacity` what there is, `ledger` what is promised already,
`price` what it costs; `views` keeps the fleet judged, `placement` decides by `gang` and `search`,
`verdicts` says why, `victims` who would have to go, `batch` whom of many to admit. `numbering`
gives ranks, `record` writes the decision down as a Placement, `explain` puts it into sentences.
Invariant: the same input, in any order, gives the same decision. Over many workloads `engine`
decides, by `quota` and `queue`, and asks a `placer` for each place: `rooms`, in the gateway as in
`simulation`, which runs both in virtual time. Next step: `fleet.dispatch` holds and commits what
was decided.
"""
