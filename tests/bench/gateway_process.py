"""A gateway in a process of its own, with members joined."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.testbed.local import LocalCluster


class GatewayProcess:
    """`url` and `identity` (ca, cert, key files) lead there while the context is open."""

    def __init__(self, state: Path, members: Sequence[LocalCluster]) -> None:
        self._state = state
        self._members = members
        self.url = ""
        self.identity: dict[str, Path] = {}

    def __enter__(self) -> Self:
        self._state.mkdir(parents=True, mode=0o700)
        kubeconfig = self._state / "kubeconfig"
        command = [sys.executable, "-m", "fleet.cli.main", "run", "--port", "0"]
        command += ["--state-directory", str(self._state / "state")]
        command += ["--kubeconfig", str(kubeconfig), "--log-level", "warning"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline_s = time.monotonic() + 30
        while not kubeconfig.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the gateway did not start")
            time.sleep(0.05)
        document = yaml.safe_load(kubeconfig.read_text())
        self.url = document["clusters"][0]["cluster"]["server"]
        for name, data in (
            ("ca", document["clusters"][0]["cluster"]["certificate-authority-data"]),
            ("cert", document["users"][0]["user"]["client-certificate-data"]),
            ("key", document["users"][0]["user"]["client-key-data"]),
        ):
            self.identity[name] = self._state / name
            self.identity[name].write_bytes(base64.b64decode(data))
        for member in self._members:
            self._post(
                "/fleet/join",
                {"name": member.name, "kubeconfig": member.kubeconfig.read_text()},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    @property
    def pid(self) -> int:
        return self._process.pid

    def settled_rss_bytes(self) -> int:
        """Resident memory in bytes, left alone for long enough to give freed pages back."""
        time.sleep(25)
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _post(self, path: str, body: dict[str, Any]) -> None:
        context = ssl.create_default_context(cafile=str(self.identity["ca"]))
        context.load_cert_chain(str(self.identity["cert"]), str(self.identity["key"]))
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            answer.read()
