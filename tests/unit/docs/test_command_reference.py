"""docs/reference/cli.md: made of the commands as they are, with the exit codes they end with."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from fleet.cli import reference
from fleet.cli.main import COMMANDS, cli


def test_the_page_is_up_to_date(page):
    assert page("reference/cli.md").text == reference.page(), "run scripts/generate-reference"


def test_every_command_and_option_is_on_the_page(page):
    text = page("reference/cli.md").text
    for name, command, context in reference.walk(cli, reference.root()):
        assert f"\n## {name}\n" in text
        section = page("reference/cli.md").section(f"## {name}")
        for parameter in command.get_params(context):
            words = parameter.opts if isinstance(parameter, click.Option) else [parameter.metavar]
            for word in words:
                whole = rf"{re.escape(word or parameter.name.upper())}(?![\w-])"
                assert re.search(whole, section), word


def test_every_command_is_in_the_overview():
    commands = reference.walk(cli, reference.root())
    assert {name.split()[1] for name, _, _ in commands} == set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["get", "--help"], 0),
        (["version", "--client"], 0),
        (["nonsense"], 2),
        (["get"], 2),
        (["get", "pods", "--no-such-option"], 2),
        (["get", "pods", "-A", "-n", "shop", "--kubeconfig", "gateway.yaml"], 2),
        (["kubeconfig", "--export", "--raw"], 2),
        (["get", "pods", "--kubeconfig", "absent"], 1),
        (["join", "absent", "--kubeconfig", "absent"], 1),
        (["version", "--kubeconfig", "absent"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes_are_those_of_the_page(arguments, code, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "FLEET_KUBECONFIG", "FLEET_CONFIG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "gateway.yaml").write_text(GATEWAY)
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    codes = [row.get("Exit code") for row in page("reference/cli.md").rows()]
    assert str(code) in codes
    if code:
        assert result.stderr and not result.stdout.replace("client: ", "").strip("0123456789.\n")


GATEWAY = """
apiVersion: v1
kind: Config
current-context: fleet
contexts: [{name: fleet, context: {cluster: fleet, user: admin}}]
clusters: [{name: fleet, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: t}}]
"""
