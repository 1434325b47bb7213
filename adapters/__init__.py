"""One package per way to reach or drive a back end.

Invariant: an adapter stands on the values of `fleet.kube` and on `fleet.errors` alone, and
whatever it drives looks like the Kubernetes API from outside (or is made to by `virtualnode`).
Next step: `fleet.app` picks adapters and hands them to `fleet.members`.
"""
