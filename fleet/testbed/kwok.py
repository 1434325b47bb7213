"""What kwok is told: how pods live and die in a member without containers, and how streams answer.

Invariant: a pod starts only when everything it mounts is there, as with a real kubelet. kwok sees
the pod alone, so `gatekeeper` puts the annotation MOUNTS_READY on it. A Job's pod completes a
second after it started unless it carries RUN_FOR (a Go duration, or `forever`); EXIT_CODE makes it
fail. The stages are in `stages.yaml`; `local` writes the result beside the member's other files.

An exec runs on this machine, as the user of the testbed (as nobody when that is root), and kwok
asks nobody who connects to its loopback port for credentials: a testbed is for machines whose
users trust each other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from fleet.testbed.layout import Layout

MOUNTS_READY = "testbed.fleet.dev/mounts-ready"
RUN_FOR = "testbed.fleet.dev/run-for"
EXIT_CODE = "testbed.fleet.dev/exit-code"
FOREVER = "forever"

STAGES = Path(__file__).parent / "stages.yaml"
_NOBODY = 65534

# True for a pod that mounts a ConfigMap or Secret and was not yet found complete.
WAITS = (
    "([(.spec.volumes // [])[]"
    " | (.configMap, .secret, (.projected.sources // [] | .[] | (.configMap, .secret)))"
    " | select(. != null and .optional != true)] | length > 0)"
    f' and ((.metadata.annotations // {{}})["{MOUNTS_READY}"] != "true")'
)


def configuration(layout: Layout) -> str:
    """The file for `kwok --config`."""
    names = {
        "MOUNTS_READY": MOUNTS_READY,
        "RUN_FOR": RUN_FOR,
        "EXIT_CODE": EXIT_CODE,
        "FOREVER": FOREVER,
        "WAITS": WAITS.replace('"', '\\"'),
    }
    stages = STAGES.read_text()
    for name, value in names.items():
        stages = stages.replace(f"@{name}@", value)
    return stages + "---\n" + yaml.safe_dump_all(_streams(layout), sort_keys=False)


def log_lines(member: str) -> str:
    """What `kubectl logs` shows of every pod, in the CRI log format; it tells the member."""
    return "".join(
        f"2026-01-01T00:00:0{second}.000000000Z stdout F {line}\n"
        for second, line in enumerate((f"member {member}", "started", "ready"))
    )


def port_answer(member: str) -> str:
    """A shell program: one HTTP answer that tells the member, to any request on any port."""
    body = f"member {member}\n"
    return (
        "while IFS= read -r line && [ ${#line} -gt 1 ]; do :; done\n"
        "printf 'HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nConnection: close\\r\\n"
        f"Content-Length: {len(body)}\\r\\n\\r\\n%s\\n' '{body.strip()}'\n"
    )


def log_file(layout: Layout) -> Path:
    """The file that `logs` and `attach` read."""
    return layout.root / "pod.log"


def _streams(layout: Layout) -> list[dict[str, Any]]:
    path = str(log_file(layout))
    local: dict[str, Any] = {
        "workDir": "/",
        "envs": [{"name": "FLEET_MEMBER", "value": layout.name}, {"name": "HOME", "value": "/"}],
    }
    if os.geteuid() == 0:
        local["securityContext"] = {"runAsUser": _NOBODY, "runAsGroup": _NOBODY}
    logs = {"logsFile": path, "previousLogsFile": path, "follow": True}
    answer = {"command": ["sh", "-c", port_answer(layout.name)]}
    return [
        _cluster_wide("ClusterLogs", {"logs": [logs]}),
        _cluster_wide("ClusterAttach", {"attaches": [{"logsFile": path}]}),
        _cluster_wide("ClusterExec", {"execs": [{"local": local}]}),
        _cluster_wide("ClusterPortForward", {"forwards": [answer]}),
    ]


def _cluster_wide(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "testbed"},
        "spec": spec,
    }
