"""Single pods on single machines, parts of accelerators included: fragmentation gradient descent.

The fleet decides by shapes and blocks and leaves nodes to each cluster's own scheduler. Where there
is none that knows parts of accelerators – a row of plain hosts, a what-if fleet from a trace –
this decides down to the device. `machines` has the values, `mix` measures what of a machine the
usual work can no longer use, `chooser` takes the machine on which a pod strands the least.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. Nothing here waits, evicts or splits; next step: whoever asked.
"""
