"""The shipped OpenAPI documents against those of a running kube-apiserver: equal, prose aside."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from fleet.kube.schema import document, group_versions, openapi_path
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.controlplane

# Keys whose children are names chosen by the document, not OpenAPI keywords.
NAMED = {"properties", "schemas", "paths", "responses", "content", "fields-to-discriminateBy"}


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[str], Any]]:
    cluster = LocalCluster("openapi-oracle", components=API_ONLY)
    asyncio.run(cluster.start())
    host, port = cluster.server.removeprefix("https://").split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=cluster.ssl_context())

    def get(path: str) -> Any:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    try:
        yield get
    finally:
        connection.close()
        asyncio.run(cluster.stop())


def without_prose(node: Any, *, named: bool = False) -> Any:
    if isinstance(node, dict):
        return {
            key: without_prose(value, named=not named and key in NAMED)
            for key, value in node.items()
            if named or key != "description"
        }
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    return node


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in sorted(ours.keys() | theirs.keys())
            for line in differences(ours.get(key, ...), theirs.get(key, ...), f"{path}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]")]
    return [] if ours == theirs else [f"{path}: ours {ours!r}, theirs {theirs!r}"]


def test_the_shipped_group_versions_are_those_a_default_apiserver_serves(
    served: Callable[[str], Any],
) -> None:
    index = served("/openapi/v3")["paths"]
    versioned = {path for path in index if path.startswith("api/") or path.count("/") == 2}
    versioned -= {"openid/v1/jwks"}
    assert {openapi_path(name) for name in group_versions()} == versioned


@pytest.mark.parametrize("group_version", group_versions())
def test_a_shipped_document_is_the_one_served(
    served: Callable[[str], Any], group_version: str
) -> None:
    index = served("/openapi/v3")["paths"]
    theirs = served(index[openapi_path(group_version)]["serverRelativeURL"])
    ours = json.loads(document(group_version))
    assert differences(without_prose(ours), without_prose(theirs)) == []
