"""The kubelet of a small cluster's nodes: what is bound to them runs, and its status says how.

`kubelet` keeps one `worker` for each pod. A worker resolves what the pod refers to (`volumes`,
`environment`), asks `lifecycle` what to do next and does it through a `runtime`, has each run of a
container attended to (`attending`, `probes`), and writes what `status` makes of it. `volumes`,
`environment`, `lifecycle` and `status` are pure.

Invariant: a pod whose ConfigMap or Secret is missing stays bound and waits, holding its node's
capacity and having no address, and starts when the object appears.
"""
