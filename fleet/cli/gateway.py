"""`fleet run`, `kubeconfig` and `version`: the gateway itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fleet
from fleet.cli import output
from fleet.cli.program import pasteable
from fleet.errors import ConfigError, FleetError

if TYPE_CHECKING:
    from fleet.app import Gateway


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet run\n"
    "  fleet run --port 8443 --state-directory ./state\n"
    "  fleet run --address 0.0.0.0 --tls-name fleet.example.com\n\n"
    "Flags win over FLEET_… variables, those over the configuration file; docs/configuration.md "
    "lists every key."
)
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Configuration file (YAML)."
)
@click.option("--address", help="Address to listen on (default 127.0.0.1).")
@click.option(
    "--port", type=output.Integer(0, 65535), help="Port to listen on (default 7443; 0: a free one)."
)
@click.option("--state-directory", help="What the gateway keeps (default ~/.local/state/fleet).")
@click.option("--kubeconfig", help="Where to write the kubeconfig for clients.")
@click.option(
    "--tls-name", "tls_names", multiple=True, help="Further name in the server certificate."
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    help="How much to log (default info).",
)
def run(file: Path | None, tls_names: tuple[str, ...], **flags: Any) -> None:
    """Run a gateway in the foreground, until it is interrupted or told to stop.

    It keeps what it needs in one directory, and writes a kubeconfig with a context for each root:
    `fleet` is everything merged, `fleet-objects` the fleet's own, and one for each member.
    """
    from fleet.gateway import logs
    from fleet.gateway.config import load

    config = load(file=file, flags={**flags, "tls_names": list(tls_names) or None})
    logs.configure(config.log_level)
    from fleet import app

    try:
        app.run(config, ready=_announce)
    except OSError as error:
        raise ConfigError(f"the gateway cannot go on: {error}") from error


def _announce(gateway: Gateway) -> None:
    import shlex

    count = len(gateway.members)
    click.echo(f"fleet gateway on {gateway.url}, {count} member{'' if count == 1 else 's'}")
    click.echo(f"Try:  export KUBECONFIG={shlex.quote(str(gateway.kubeconfig))}")
    click.echo(pasteable("      fleet join FILE --name NAME      kubectl get pods -A"))


@click.command(
    epilog="\b\nExamples:\n"
    "  eval $(fleet kubeconfig --export)\n"
    "  fleet kubeconfig --raw --server https://fleet.example.com:7443 > shared.kubeconfig"
)
@click.option("--export", is_flag=True, help="As a command for the shell.")
@click.option("--raw", is_flag=True, help="The file's content: credentials included.")
@click.option(
    "--server",
    metavar="https://HOST[:PORT]",
    help="With --raw: the address by which other machines reach the gateway, to be written instead "
    "of its own. Its certificate has to have the name (`fleet run --tls-name`).",
)
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Configuration file (YAML)."
)
def kubeconfig(export: bool, raw: bool, server: str | None, config_file: Path | None) -> None:
    """Say which kubeconfig leads to the gateway on this machine."""
    import shlex

    from fleet.gateway.config import load

    if export and raw:
        raise click.UsageError("--export and --raw exclude each other.")
    if server is not None and not raw:
        raise click.UsageError("--server is for --raw: the file itself keeps its address.")
    base = None if server is None else _base(server)
    path = load(file=config_file).kubeconfig
    if not path.exists():
        raise ConfigError(f"there is none at {path}: `fleet run` writes it when it starts")
    if raw:
        content = path.read_bytes()
        click.echo(content if base is None else _moved(content, base), nl=False)
    elif export:
        click.echo(f"export KUBECONFIG={shlex.quote(str(path))}")
    else:
        click.echo(path)


def _base(server: str) -> str:
    """`https://HOST[:PORT]`; UsageError for anything else."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(server)
        sound = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        sound = None
    if (
        not sound
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise click.UsageError(f"--server {server}: write https://HOST[:PORT]")
    return f"https://{parts.netloc}"


def _moved(content: bytes, base: str) -> bytes:
    """A kubeconfig whose clusters are at `base`, each under its own path."""
    from urllib.parse import urlsplit

    import yaml

    document = yaml.safe_load(content)
    for each in document.get("clusters") or ():
        path = urlsplit(each["cluster"]["server"]).path
        each["cluster"]["server"] = base + path
    return yaml.safe_dump(document, sort_keys=False).encode()


@click.command()
@click.option("--client", "client_only", is_flag=True, help="Of this program only.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the gateway.")
@output.option()
def version(client_only: bool, kubeconfig: Path | None, form: str) -> None:
    """Show the versions of this program and of the gateway."""
    versions: dict[str, Any] = {"client": fleet.__version__}
    problem: FleetError | None = None
    if not client_only:
        from fleet.cli.client import Client, read_access
        from fleet.cli.finding import find_kubeconfig

        try:
            client = Client(read_access(find_kubeconfig(kubeconfig)))
            versions["gateway"] = client.check_gateway()
        except FleetError as error:
            problem = error
    if form == "table":
        for name, value in versions.items():
            click.echo(f"{name}: {value}")
    else:
        output.document(versions, form)
    if problem is not None:
        raise problem
