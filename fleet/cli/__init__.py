"""The `fleet` command, also installed as `kubectl-fleet`.

`main` knows every command by name and loads its module when it is called. Commands that ask a
running gateway do so as any client would: over its API, with the kubeconfig it wrote (`client`).

Invariant: exit code 0 for done, 1 for refused or failed, 2 for a command line that makes no sense;
messages go to standard error and say what to do next.
"""
