"""The engine in virtual time: a trace goes in, waits and makespan come out.

`replay` feeds arrivals and ends to an engine and acts on what it says; `loads` makes the published
load shapes; `racks` is a Placer for one cluster of racks. No clock is read and nothing is random,
so the same trace gives the same outcome. Next step: `fleet simulate` and the benches print it.
"""
