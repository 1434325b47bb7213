"""The engine in virtual time: a scenario goes in; waits, use and costs come out.

`scenario` reads it, `course` plays it over `members` with the gateway's own Placer, `outcome` sums
up. No clock is read and nothing is random, so the same scenario gives the same outcome. Next step:
`fleet simulate` prints it.
"""
