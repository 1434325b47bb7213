"""`python -m fleet.testbed.leash RUN_DIR`: ends a member's processes when its owner is gone.

The owner holds the other end of standard input. The word `release` before the end of input lets
the processes live on; end of input without it means the owner died, however that happened.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from fleet.testbed import processes

RELEASE = b"release"


class Leash:
    """The owner's end."""

    def __init__(self, run: Path) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-m", "fleet.testbed.leash", str(run)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def release(self) -> None:
        """Let go: whatever runs, goes on running."""
        self._watcher.communicate(RELEASE)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    run = Path(sys.argv[1])
    if sys.stdin.buffer.read() == RELEASE:
        return
    # A process that its owner was just starting may be recorded after this first look.
    while alive := [p for p in processes.recorded(run).values() if p.alive]:
        processes.kill_now(alive)


if __name__ == "__main__":
    main()
