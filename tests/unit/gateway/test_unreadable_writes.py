"""Policies that cannot be read are listed, mended and deleted like any other."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fleet.gateway.policy_warnings import PolicyWarnings
from fleet.kube.wire import Request, UserInfo
from policies import kinds

KINDS = [each for each in kinds() if each.written_by_users and each.name != "Cluster"]
SOUND = {
    "LendingPolicy": {"from": {"quota": "a"}, "to": [{"quota": "b"}]},
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def send(own_kernel: Any, store: Any) -> Any:
    door = PolicyWarnings(own_kernel, store)

    async def send(method: str, path: str, body: Any = None, accept: str = "*/*") -> Any:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"content-type": f"application/{kind}", "accept": accept}
        raw = b"" if body is None else orjson.dumps(body)
        answer = await door.handle(
            Request(method, path, headers=headers, body=raw, user=UserInfo("jane"))
        )
        body = answer.body
        if not isinstance(body, bytes):
            body = b"".join(body)
        return answer.status, orjson.loads(body)

    return send


@pytest.mark.parametrize("spec", ["nothing", {"colour": "red"}, {"from": "a", "to": "b"}, None])
@pytest.mark.parametrize("kind", KINDS, ids=[each.name for each in KINDS])
async def test_one_is_listed_mended_and_deleted(send, store, kind, spec):
    namespace = {"namespace": "default"} if kind.namespaced else {}
    metadata = {"name": "old", "uid": "u", "generation": 1, **namespace}
    head = {"apiVersion": kind.resource.api_version, "kind": kind.name}
    if kind.namespaced:
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await send("POST", "/api/v1/namespaces", made)
    await store.create(kind.resource, {**head, "metadata": metadata, "spec": spec})
    place = "/namespaces/default" if kind.namespaced else ""
    path = f"/apis/fleet.dev/v1alpha1{place}/{kind.plural}"
    status, table = await send("GET", path, accept=TABLE)
    assert (status, [row["cells"][0] for row in table["rows"]]) == (200, ["old"])
    status, _ = await send("POST", path, {**head, "metadata": {"name": "new"}, "spec": SOUND.get(
        kind.name, {}
    )})  # fmt: skip
    assert status == 201, "others are written meanwhile"
    _, stored = await send("GET", f"{path}/old")
    mended = {**stored, "spec": SOUND.get(kind.name, {})}
    status, told = await send("PUT", f"{path}/old", mended)
    assert (status, kind.problems(told)) == (200, ())
    status, _ = await send("DELETE", f"{path}/old")
    assert status == 200
