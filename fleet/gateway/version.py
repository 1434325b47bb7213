"""`/version`: which Kubernetes API the gateway speaks, and which gateway it is.

Clients compare `major` and `minor` with their own; `gitVersion` parses as semver, with the
gateway's own version as build metadata.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import Any

import orjson

import fleet
from fleet.kube import builtin
from fleet.kube.wire import Response

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@cache
def document() -> dict[str, Any]:
    """A `version.Info` of k8s.io/apimachinery; every field is a string, as clients demand."""
    release = builtin.release()
    major, minor, _ = release.removeprefix("v").split(".", 2)
    machine = platform.machine()
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{release}+fleet-{fleet.__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"{sys.implementation.name} {platform.python_version()}",
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }


def response() -> Response:
    return Response(200, {"Content-Type": "application/json"}, orjson.dumps(document()))
