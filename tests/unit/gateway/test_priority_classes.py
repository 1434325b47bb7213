"""The fleet's own PriorityClasses are held to what those of any cluster are."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import Forbidden, Invalid
from fleet.gateway import own
from fleet.gateway.priority_classes import OneDefault
from fleet.kube.wire import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.store.objects import ObjectStore

    Write = Callable[..., Awaitable[Any]]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def write(store: ObjectStore) -> Write:
    kernel = own.build(
        store,
        [],
        openapi=own.OwnOpenApi({}),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        uid=lambda: "uid",
        rng=random.Random(1),
        admission=(OneDefault(store),),
        server_address="fleet",
    )

    async def write(name: str, *, change: bool = False, **fields: Any) -> Any:
        body: dict[str, Any] = {**fields} if change else {"metadata": {"name": name}, **fields}
        kind = "merge-patch+json" if change else "json"
        request = Request(
            "PATCH" if change else "POST",
            f"{CLASSES}/{name}" if change else CLASSES,
            headers={"content-type": f"application/{kind}"},
            body=json.dumps(body).encode(),
        )
        answer = await kernel.handle(request)
        assert isinstance(answer.body, bytes)
        return json.loads(answer.body)

    return write


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        (
            "hgih",
            {"value": 1000, "preemptionPolicy": "Sometimes"},
            'preemptionPolicy: Unsupported value: "Sometimes": supported values: '
            '"PreemptLowerPriority", "Never"',
        ),
        (
            "high",
            {"value": 1_000_000_001},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "system-mine",
            {"value": 1},
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved "
            "for system use only. error: system-mine is not a known system priority class",
        ),
    ],
)
async def test_what_no_cluster_takes_is_refused(
    write: Write, name: str, fields: Any, why: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await write(name, **fields)
    assert caught.value.message == f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {why}'


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"value": 6}, "value: Forbidden: may not be changed in an update."),
        ({"preemptionPolicy": "Never"}, 'Invalid value: "Never": field is immutable'),
    ],
)
async def test_what_it_is_worth_does_not_change(write: Write, fields: Any, why: str) -> None:
    await write("high", value=5)
    with pytest.raises(Invalid) as caught:
        await write("high", change=True, **fields)
    assert caught.value.message.endswith(why)
    assert (await write("high", change=True, description="x"))["description"] == "x"


async def test_one_at_most_is_the_default(write: Write) -> None:
    await write("usual", value=5, globalDefault=True)
    await write("other", value=6)
    why = (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already '
        "marked as default. Only one default can exist"
    )
    with pytest.raises(Forbidden) as caught:
        await write("other", change=True, globalDefault=True)
    assert caught.value.message == why
    with pytest.raises(Forbidden):
        await write("third", value=7, globalDefault=True)
    await write("usual", change=True, description="the default all the same")
    await write("usual", change=True, globalDefault=None)
    assert (await write("other", change=True, globalDefault=True))["globalDefault"] is True


async def test_a_change_of_one_that_was_let_in_before_is_not_held_to_what_a_new_one_is(
    write: Write, store: ObjectStore
) -> None:
    made = await write("odd", value=5)
    (collection,) = {each for each in own.resources(()) if each.gvr.resource == "priorityclasses"}
    entry = store.get(collection, "", "odd")
    assert entry is not None
    await store.update(
        collection, {**made, "preemptionPolicy": "Sometimes"}, expected=entry.revision
    )
    assert (await write("odd", change=True, description="x"))["preemptionPolicy"] == "Sometimes"
