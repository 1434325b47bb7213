"""Single calls to a member: one form of answer, whatever stands before the member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fleet.errors import MemberStatus, TransportError
from fleet.kube.wire import Request, Response
from fleet.members import calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REQUEST = Request("GET", "/api/v1/namespaces/payments/pods/web")


class Member:
    def __init__(self, status: int, body: bytes | AsyncIterator[bytes]) -> None:
        self.response = Response(status, {}, body)

    async def handle(self, request: Request) -> Response:
        return self.response


async def endless() -> AsyncIterator[bytes]:
    yield b'{"kind":'
    await asyncio.Event().wait()


async def test_an_object_is_the_answer():
    found = await calls.ask(Member(200, b'{"kind": "Pod"}'), REQUEST, timeout_s=60.0)
    assert found.value == {"kind": "Pod"}


@pytest.mark.parametrize(
    ("body", "told"), [(b"<html>", "no JSON"), (b"", "no JSON"), (b"[]", "no object")]
)
async def test_what_is_no_object_is_no_answer(body, told):
    with pytest.raises(TransportError, match=told):
        await calls.ask(Member(200, body), REQUEST, timeout_s=60.0)


async def test_a_body_that_does_not_end_is_no_answer():
    with pytest.raises(TransportError, match="not answered whole"):
        await calls.ask(Member(200, endless()), REQUEST, timeout_s=0.01)


async def test_a_refusal_is_raised_as_the_member_says_it():
    with pytest.raises(MemberStatus, match="answered 502"):
        await calls.ask(Member(502, b""), REQUEST, timeout_s=60.0)
