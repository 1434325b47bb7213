"""Which kubeconfig a command goes by, where none is named.

`FLEET_KUBECONFIG` or `FLEET_STATE_DIRECTORY` name a gateway; without them `KUBECONFIG` does, where
its current context is one that a gateway wrote: kubectl in the same shell speaks to that one. Else
it is the gateway of this machine, and where `KUBECONFIG` leads elsewhere that is said. Next step:
`fleet.cli.client` reads the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK: Final = "fleet.dev/managed"
"""The extension of entries that a gateway wrote (`fleet.gateway.kubeconfig`)."""
_NAMING: Final = ("FLEET_KUBECONFIG", "FLEET_STATE_DIRECTORY")


def find_kubeconfig(given: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The kubeconfig to use: the one given, else the one that the module's first lines say.

    Raises ConfigError when there is none.
    """
    if given is not None:
        return given
    from fleet.gateway.config import load

    local = load(environment=environment).kubeconfig
    if "FLEET_KUBECONFIG" in environment:
        return local
    listed = _listed(environment)
    exported = _gateways(listed)
    named = any(name in environment for name in _NAMING)
    if exported is not None and not (named and local.exists()):
        return exported
    if local.exists():
        if not named and (elsewhere := environment.get("KUBECONFIG")):
            click.echo(
                f"The gateway is that of {local}; the current context of KUBECONFIG, {elsewhere}, "
                "is none that a gateway wrote.",
                err=True,
            )
        return local
    if listed:
        return listed[0]
    raise ConfigError(
        f"there is no kubeconfig of a gateway at {local}; start a gateway with `fleet run`, or "
        "name one with --kubeconfig"
    )


def _listed(environment: Mapping[str, str]) -> list[Path]:
    names = environment.get("KUBECONFIG", "").split(os.pathsep)
    return [Path(name) for name in names if name and Path(name).exists()]


def _gateways(files: list[Path]) -> Path | None:
    """The file with the current context, if a gateway wrote that; the first file to say which is
    current and the first to define it count, as for kubectl."""
    documents = [(file, _document(file)) for file in files]
    current = next((c for _, each in documents if (c := each.get("current-context"))), None)
    for file, document in documents:
        for entry in _dicts(document.get("contexts")):
            if current and entry.get("name") == current:
                return file if _written_by_gateway(entry.get("context")) else None
    return None


def _document(file: Path) -> dict[str, Any]:
    try:
        found = yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return {}  # whoever uses it says what is wrong with it
    return found if isinstance(found, dict) else {}


def _written_by_gateway(context: object) -> bool:
    return isinstance(context, dict) and any(
        extension.get("name") == MARK for extension in _dicts(context.get("extensions"))
    )


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
