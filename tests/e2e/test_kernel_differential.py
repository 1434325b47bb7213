"""The kernel against a real kube-apiserver: some 350 requests, answer by answer.

The requests lie in tests/contract/kernel/requests.yaml. What the real server answers is recorded
beside them, so that the contract lane proves the same without a control plane; here the record is
held to the truth. `FLEET_RECORD=1` writes it anew.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import aiohttp
import pytest
from yarl import URL

from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

HARNESS = Path(__file__).parents[1] / "contract" / "kernel" / "harness.py"
# Admission that changes or refuses what this store takes; it is no part of storing.
ADMISSION = (
    "DefaultTolerationSeconds,LimitRanger,Priority,ResourceQuota,RuntimeClass,ServiceAccount,"
    "StorageObjectInUseProtection,TaintNodesByCondition"
)
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


def load_harness() -> ModuleType:
    name = "kernel_harness"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HARNESS)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


harness = load_harness()


async def of_a_real_server(cluster: LocalCluster) -> dict[str, list[dict[str, Any]]]:
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context())
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(
            method: str,
            path: str,
            query: tuple[tuple[str, str], ...],
            headers: dict[str, str],
            body: bytes,
        ) -> Any:
            url = URL(cluster.server + quote(path) + "?" + urlencode(query), encoded=True)
            skip = () if "content-type" in headers else ("Content-Type",)
            async with session.request(
                method, url, data=body or None, headers=headers, skip_auto_headers=skip
            ) as response:
                raw = await response.read()
                try:
                    parsed = json.loads(raw)
                except ValueError:
                    parsed = raw.decode()
                warnings = [
                    re.sub(r"\\(.)", r"\1", text)
                    for header in response.headers.getall("Warning", [])
                    for text in _WARNING.findall(header)
                ]
                return harness.Answer(
                    response.status,
                    parsed,
                    content_type=response.headers.get("Content-Type", ""),
                    warnings=tuple(warnings),
                )

        return await answers(send)


async def answers(send: Any) -> dict[str, list[dict[str, Any]]]:
    run = harness.Run(send)
    found: dict[str, list[dict[str, Any]]] = {}
    for file in (harness.PLAIN, harness.CONTROLLED):
        for name, steps in harness.groups(file).items():
            found[name] = [(await run.take(step))[1] for step in steps]
    return found


@pytest.fixture(scope="module")
def real() -> dict[str, list[dict[str, Any]]]:
    cluster = LocalCluster(
        "kernel-oracle",
        components=API_ONLY,
        extra_args={"kube-apiserver": [f"--disable-admission-plugins={ADMISSION}"]},
    )
    asyncio.run(cluster.start())
    try:
        found = asyncio.run(of_a_real_server(cluster))
    finally:
        asyncio.run(cluster.stop())
    if os.environ.get("FLEET_RECORD"):
        lines = (
            f"{json.dumps(name)}: [\n"
            + ",\n".join(json.dumps(answer, sort_keys=True) for answer in recorded)
            + "\n]"
            for name, recorded in found.items()
        )
        harness.RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return found


@pytest.mark.parametrize(
    "group", [*harness.groups(harness.PLAIN), *harness.groups(harness.CONTROLLED)]
)
def test_the_record_is_what_a_real_server_answers(
    real: dict[str, list[dict[str, Any]]], group: str
) -> None:
    recorded = json.loads(harness.RECORDED.read_text())
    assert recorded[group] == real[group]
