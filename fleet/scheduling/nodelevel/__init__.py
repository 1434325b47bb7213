"""Single pods on single machines, parts of accelerators included: fragmentation gradient descent.

The fleet decides by shapes and blocks and leaves nodes to each cluster's own scheduler. Where there
is none that knows parts of accelerators – a row of plain hosts, a what-if fleet from a trace –
this decides down to the device. `trace` reads tables, `machines` has the values, `mix` measures
what of a machine the usual work can no longer use, `rules` judge machines by it or otherwise,
`chooser` takes the best; `filling` plays, `told` says what became of it.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. Nothing here evicts or splits. Next step: `fleet simulate`
prints it, and the placement bench compares it with the paper's figures.
"""
