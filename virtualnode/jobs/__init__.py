"""Jobs: the pods that work through them, and what their status says.

`decision` is the whole controller as pure functions, after upstream's Job controller of the pinned
release; `indexes`, `policies` and `pods` are its parts; `controller` reads, acts and writes.

Invariant: a pod's end is counted exactly once. A pod carries the tracking finalizer until the
Job's status has taken it in, so neither a deletion nor an interrupted pass loses or repeats one.
"""
