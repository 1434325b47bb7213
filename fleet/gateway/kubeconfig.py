"""The kubeconfig that clients of the gateway use.

One context for each root: `fleet` (the merged view), `fleet-objects` (the fleet's own objects) and
one of each member's name (the member as it is). It is written again whenever members come and go;
what the user chose in it – the current context, a context's namespace, entries of their own –
stays.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from fleet.gateway.authority import ADMIN_USER
from fleet.gateway.state import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from fleet.gateway.pki import KeyPair

logger = logging.getLogger(__name__)

MERGED = "fleet"
OBJECTS = "fleet-objects"

_MARK = "fleet.dev/managed"
_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})


def context_of(member: str) -> str:
    """The name of a member's context: its own, unless that is taken by a root."""
    return f"{member}-member" if member in (MERGED, OBJECTS) else member


def url_of(address: str, port: int) -> str:
    """Where a client on this machine reaches a gateway that listens on `address`."""
    host = "127.0.0.1" if address in _WILDCARDS else address
    try:
        if ipaddress.ip_address(host).version == 6:
            host = f"[{host}]"
    except ValueError:
        pass  # a name
    return f"https://{host}:{port}"


@dataclass(frozen=True, slots=True)
class KubeconfigFile:
    """Writes the kubeconfig at `path` for a gateway at `url`. `admin` gives the client certificate
    to write, which is another one when the end of the last is near."""

    path: Path
    url: str
    authority: bytes
    admin: Callable[[], KeyPair]

    def write(self, members: Iterable[str]) -> bool:
        """Bring the file up to date; whether it had to be changed.

        Replaces it in one step, readable by its owner only. Raises OSError when it cannot.
        """
        present = self._read()
        text = yaml.safe_dump(
            merged(present, self._entries(members)), sort_keys=False, width=1 << 20
        ).encode()
        if self.path.exists() and self.path.read_bytes() == text:
            return False
        write_private(self.path, text)
        return True

    def _read(self) -> dict[str, Any]:
        try:
            document = yaml.safe_load(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            logger.warning("%s cannot be read and is written anew: %s", self.path, error)
            return {}
        return document if isinstance(document, dict) else {}

    def _entries(self, members: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        roots = [(MERGED, ""), (OBJECTS, "/fleet")]
        roots += [(context_of(name), f"/clusters/{name}") for name in sorted(members)]
        clusters = [
            {
                "name": name,
                "cluster": {
                    "server": self.url + path,
                    "certificate-authority-data": _base64(self.authority),
                },
            }
            for name, path in roots
        ]
        contexts = [
            {"name": name, "context": {"cluster": name, "user": ADMIN_USER}} for name, _ in roots
        ]
        admin = self.admin()
        user = {
            "client-certificate-data": _base64(admin.certificate),
            "client-key-data": _base64(admin.key),
        }
        return {
            "clusters": clusters,
            "contexts": contexts,
            "users": [{"name": ADMIN_USER, "user": user}],
        }


def merged(present: dict[str, Any], entries: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """`present` with the gateway's entries replaced by `entries`.

    The gateway's own entries carry a mark, so that those of members which left go and the user's
    stay; an entry of the user's with a name the gateway needs gives way.
    """
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    namespaces = _namespaces(present)
    for section, inner in _SECTIONS.items():
        own = []
        for entry in entries[section]:
            body = {**entry[inner], "extensions": [{"name": _MARK, "extension": {}}]}
            if section == "contexts" and (namespace := namespaces.get(entry["name"])):
                body["namespace"] = namespace
            own.append({"name": entry["name"], inner: body})
        names = {entry["name"] for entry in own}
        document[section] = own + [
            entry
            for entry in _dicts(present.get(section))
            if entry.get("name") not in names and not _marked(entry.get(inner))
        ]
    contexts = [entry["name"] for entry in document["contexts"]]
    current = present.get("current-context")
    document["current-context"] = current if current in contexts else MERGED
    for key, value in present.items():
        document.setdefault(key, value)
    return document


def _namespaces(document: dict[str, Any]) -> dict[str, str]:
    return {
        entry["name"]: entry["context"]["namespace"]
        for entry in _dicts(document.get("contexts"))
        if isinstance(entry.get("context"), dict) and entry["context"].get("namespace")
    }


def _marked(body: Any) -> bool:
    return isinstance(body, dict) and any(
        extension.get("name") == _MARK for extension in _dicts(body.get("extensions"))
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
