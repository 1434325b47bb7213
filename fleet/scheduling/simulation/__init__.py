"""The engine in virtual time: a scenario goes in; waits, use and costs come out.

`documents` and `table` read files, `inventory` and `works` what stands in them, `scenario` puts it
together and refuses what is wrong. `course` plays it over `members`, whose pods sit on nodes, with
the engine, the Placer and the desk that the gateway decides with; `notes` and `bills` keep count,
`outcome` sums up. No clock is read and nothing is random, so the same scenario gives the same
outcome. Next step: `fleet simulate` prints it.
"""
