"""Runs the containers of a virtual node as local processes of this machine.

`runtime` hands out sandboxes (`sandbox`), one a pod: a folder, an address of its own in
127.0.0.0/8, log files (`logs`), volumes as folders. Processes are started by `helper`, one small
program beside the gateway that owns them all: it ends with the gateway, however that ends, and
they end with it. Volumes appear at their mount paths in a mount namespace of the pod's own where
the kernel allows that (`mounts`), else paths in commands and variables are rewritten
(`rewriting`).

It gives no isolation: processes run as the gateway's user, on its files, network and CPU; limits
are not enforced. An image is a name only; a container says its command.

Invariant: no process outlives the runtime. Next step: `virtualnode.kubelet` decides what runs.
"""
