"""How a gateway is configured: one value from flags, environment, a YAML file and defaults.

Flags win over `FLEET_…` variables, those over the file, that over the defaults. What each key
does stands in `docs/configuration.md`, which is checked against `KEYS`. Next step: `fleet.app`
builds a gateway from a `Config`.
"""

from __future__ import annotations

import difflib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

LOG_LEVELS = ("debug", "info", "warning", "error")
_LONGEST_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be set. Each field is a row of `KEYS`."""

    address: str = "127.0.0.1"
    port: int = 7443
    state_directory: Path
    kubeconfig: Path
    tls_names: tuple[str, ...] = ()
    body_limit_bytes: int = 3 << 20
    freshness_s: float = 1.0
    lease_s: float = 300.0
    hold_s: float = 120.0
    shutdown_grace_s: float = 10.0
    exec_plugins: bool | None = None
    multi_kueue_managers: tuple[str, ...] = ()
    log_level: str = "info"

    @property
    def exec_plugins_allowed(self) -> bool:
        """Whether a kubeconfig that joins may name a program to run on this machine: unless said
        otherwise, only while nobody beyond this machine can call."""
        if self.exec_plugins is not None:
            return self.exec_plugins
        return self.address in ("localhost", "::1") or self.address.startswith("127.")


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its name in the file, its field, and how a value is read.

    `parse` takes what YAML gives, or text from the environment, and raises ValueError saying what
    would be right.
    """

    name: str
    field: str
    parse: Callable[[Any], Any]

    @property
    def variable(self) -> str:
        """`stateDirectory` is `FLEET_STATE_DIRECTORY` in the environment."""
        words = "".join(f"_{c}" if c.isupper() else c for c in self.name)
        return f"FLEET_{words.upper()}"


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("want text")
    return value.strip()


def _path(value: Any) -> Path:
    return Path(_text(value)).expanduser().absolute()


def _integer(lowest: int, highest: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise ValueError(f"want a whole number from {lowest} to {highest}")
        return value

    return parse


def _seconds(lowest: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        try:
            if isinstance(value, bool):
                raise TypeError
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1
        if not lowest <= seconds <= _LONGEST_S:
            raise ValueError(f"want seconds, at least {lowest:g}, without a unit")
        return seconds

    return parse


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list):
        raise ValueError("want a list of host names and addresses")
    return tuple(_text(item) for item in value)


def _switch(value: Any) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower())
    if not isinstance(value, bool):
        raise ValueError("want true or false")
    return value


def _level(value: Any) -> str:
    if value not in LOG_LEVELS:
        raise ValueError(f"want one of {', '.join(LOG_LEVELS)}")
    return str(value)


KEYS = (
    Key("address", "address", _text),
    Key("port", "port", _integer(0, 65535)),
    Key("stateDirectory", "state_directory", _path),
    Key("kubeconfig", "kubeconfig", _path),
    Key("tlsNames", "tls_names", _names),
    Key("bodyLimitBytes", "body_limit_bytes", _integer(1 << 10, 1 << 30)),
    Key("freshnessSeconds", "freshness_s", _seconds(0.05)),
    Key("leaseSeconds", "lease_s", _seconds(5)),
    Key("holdSeconds", "hold_s", _seconds(1)),
    Key("shutdownGraceSeconds", "shutdown_grace_s", _seconds(0)),
    Key("execPlugins", "exec_plugins", _switch),
    Key("multiKueueManagers", "multi_kueue_managers", _names),
    Key("logLevel", "log_level", _level),
)
_BY_NAME = {key.name: key for key in KEYS}
_BY_FIELD = {key.field: key for key in KEYS}


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of this process.

    `file` is the one the user named; without it `FLEET_CONFIG`, else the default place is read
    if it is there. `flags` maps fields to values; None means not given. Raises ConfigError naming
    the key, where it stands and what would be right.
    """
    values: dict[str, Any] = {}
    named = file or (Path(environment["FLEET_CONFIG"]) if "FLEET_CONFIG" in environment else None)
    source = named or default_file(environment)
    if named is not None or source.exists():
        values.update(_from_file(source))
    _look_at_variables(environment)
    for key in KEYS:
        text = environment.get(key.variable)
        if text:
            values[key.field] = _parsed(key, text, f"environment variable {key.variable}")
    for field, value in (flags or {}).items():
        if value is not None:
            key = _BY_FIELD[field]
            values[field] = _parsed(key, value, f"flag --{field.replace('_', '-')}")
    directory = values.setdefault("state_directory", default_state_directory(environment))
    values.setdefault("kubeconfig", directory / "fleet.kubeconfig")
    return Config(**values)


def default_file(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "fleet" / "config.yaml"


def default_state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "fleet"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: want keys and values at the top, as in `port: 7443`")
    values: dict[str, Any] = {}
    for name, value in document.items():
        key = _BY_NAME.get(name)
        if key is None:
            raise ConfigError(f"{file}: unknown key {name!r}{_meant(str(name))}")
        values[key.field] = _parsed(key, value, str(file))
    return values


def _parsed(key: Key, value: Any, source: str) -> Any:
    try:
        return key.parse(value)
    except ValueError as error:
        raise ConfigError(f"{source}: {key.name}: {value!r} will not do: {error}") from None


def _look_at_variables(environment: Mapping[str, str]) -> None:
    """Warn of those that nearly have the name of a key's. What else begins with FLEET_ may be
    somebody else's, as Kubernetes makes such for a Service called fleet."""
    known = [*(key.variable for key in KEYS), "FLEET_CONFIG"]
    for name in sorted(environment):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if name.startswith("FLEET_") and name not in known and near:
            log.warning("environment variable %s is not known; did you mean %s?", name, near[0])


def _meant(name: str) -> str:
    near = difflib.get_close_matches(name, [*_BY_NAME, *_BY_FIELD], n=1)
    if near:
        key = _BY_NAME.get(near[0]) or _BY_FIELD[near[0]]
        return f"; did you mean {key.name}?"
    return f"; known are {', '.join(_BY_NAME)}"
