"""Member clusters for trying and testing: real control planes on loopback, built once and cached.

`binaries` finds or builds the programs, `local` runs one member of them, `commands` runs several
for the `fleet testbed` command line. Everything binds 127.0.0.1 only, every process that was
started is recorded before anything waits for it, and a signal reaches only a recorded process.
"""
