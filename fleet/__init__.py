"""The gateway and the fleet controller.

Packages import one way only (checked by import-linter):
`errors, kube → store → apiserver → members → view → {scheduling, dispatch, resilience,
inference} → gateway → app → testbed → cli`. Each package's prologue says what lives there,
which invariant it keeps and which neighbour does the next step.
"""

__version__ = "0.1.0"
