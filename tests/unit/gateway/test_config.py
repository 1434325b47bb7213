"""Configuration: precedence, each key's range, and that the reference says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigError
from fleet.gateway.config import KEYS, Config, load

REFERENCE = Path(__file__).parents[3] / "docs" / "configuration.md"


def loaded(tmp_path: Path, text: str = "", **environment: str) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load(file=file, environment={"XDG_STATE_HOME": str(tmp_path / "state"), **environment})


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    config = load(environment={"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": "/var/state"})
    assert (config.address, config.port) == ("127.0.0.1", 7443)
    assert config.state_directory == Path("/var/state/fleet")
    assert config.kubeconfig == Path("/var/state/fleet/fleet.kubeconfig")
    assert config.body_limit_bytes == 3 << 20


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("port: 1\naddress: 10.0.0.1\nlogLevel: error\n")
    config = load(
        file=file,
        environment={"FLEET_PORT": "2", "FLEET_ADDRESS": "10.0.0.2", "HOME": "/root"},
        flags={"port": 3, "address": None},
    )
    assert (config.port, config.address, config.log_level) == (3, "10.0.0.2", "error")


def test_the_default_file_is_read_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "config.yaml").write_text("port: 8443")
    assert load(environment={"XDG_CONFIG_HOME": str(tmp_path)}).port == 8443
    named = tmp_path / "other.yaml"
    named.write_text("")
    assert load(environment={"FLEET_CONFIG": str(named)}).port == 7443


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("tlsNames: [a.example, 10.0.0.1]", "tls_names", ("a.example", "10.0.0.1")),
        ("stateDirectory: /srv/fleet", "kubeconfig", Path("/srv/fleet/fleet.kubeconfig")),
        ("freshnessSeconds: 0.5", "freshness_s", 0.5),
        ("leaseSeconds: 15", "lease_s", 15.0),
        ("shutdownGraceSeconds: 0", "shutdown_grace_s", 0.0),
        ("bodyLimitBytes: 1048576", "body_limit_bytes", 1 << 20),
        ("", "port", 7443),
    ],
)
def test_values_from_the_file(tmp_path: Path, text: str, field: str, value: Any) -> None:
    assert getattr(loaded(tmp_path, text), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("FLEET_PORT", "8443", "port", 8443),
        ("FLEET_TLS_NAMES", "a.example, b.example", "tls_names", ("a.example", "b.example")),
        ("FLEET_FRESHNESS_SECONDS", "2.5", "freshness_s", 2.5),
        ("FLEET_STATE_DIRECTORY", "/srv", "state_directory", Path("/srv")),
        ("FLEET_PORT", "", "port", 7443),
    ],
)
def test_values_from_the_environment(
    tmp_path: Path, variable: str, text: str, field: str, value: Any
) -> None:
    assert getattr(loaded(tmp_path, **{variable: text}), field) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot: 7443", ["unknown key 'prot'", "did you mean port?"]),
        ("body_limit_bytes: 1", ["did you mean bodyLimitBytes?"]),
        ("zzz: 1", ["unknown key 'zzz'", "known are address"]),
        ("port: http", ["port", "'http'", "0 to 65535"]),
        ("port: 70000", ["port", "70000"]),
        ("port: true", ["port", "True"]),
        ("port: 7.5", ["port", "whole number"]),
        ("address: 1", ["address", "want text"]),
        ("tlsNames: 5", ["tlsNames", "list"]),
        ("tlsNames: ['']", ["tlsNames", "want text"]),
        ("freshnessSeconds: 0", ["freshnessSeconds", "at least 0.05"]),
        ("freshnessSeconds: 1s", ["freshnessSeconds", "without a unit"]),
        ("leaseSeconds: .nan", ["leaseSeconds"]),
        ("leaseSeconds: true", ["leaseSeconds"]),
        ("bodyLimitBytes: 3Mi", ["bodyLimitBytes"]),
        ("logLevel: loud", ["logLevel", "debug, info, warning, error"]),
        ("- port", ["keys and values"]),
        ("port: [", ["not YAML"]),
    ],
)
def test_what_will_not_do_is_named_with_its_file(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    for word in [str(tmp_path / "config.yaml"), *words]:
        assert word in str(caught.value)


def test_errors_name_the_variable_or_flag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="environment variable FLEET_PORT: port: 'x'"):
        loaded(tmp_path, FLEET_PORT="x")
    with pytest.raises(ConfigError, match="flag --state-directory"):
        load(environment={}, flags={"state_directory": ""})


@pytest.mark.parametrize(
    ("name", "meant"),
    [("FLEET_PRT", "FLEET_PORT"), ("FLEET_STATE_DIR", ""), ("FLEET_SERVICE_PORT", ""),
     ("FLEET_LOGLEVEL", "FLEET_LOG_LEVEL"), ("FLEET_PORT", "")],
)  # fmt: skip
def test_a_variable_that_nearly_has_a_name_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, meant: str
) -> None:
    loaded(tmp_path, **{name: "7"})
    told = [f"environment variable {name} is not known; did you mean {meant}?"] if meant else []
    assert caplog.messages == told


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(file=tmp_path / "none.yaml", environment={})


def test_the_reference_lists_exactly_the_keys_with_their_variables_and_defaults() -> None:
    rows = dict[str, tuple[str, str]]()
    for line in REFERENCE.read_text().splitlines():
        if found := re.match(r"\| `(\w+)` \| `(FLEET_\w+)` \| (.*?) \|", line):
            rows[found[1]] = (found[2], found[3])
    assert list(rows) == [key.name for key in KEYS]
    fields = Config.__dataclass_fields__
    assert [key.field for key in KEYS] == list(fields)
    for key in KEYS:
        variable, default = rows[key.name]
        assert variable == key.variable
        value = fields[key.field].default
        if isinstance(value, float):
            value = f"{value:g}"
        if isinstance(value, str | int):
            assert f"`{value}`" in default
