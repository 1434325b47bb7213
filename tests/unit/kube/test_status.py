from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Details,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MemberStatus,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestTooLarge,
    RevisionTooLarge,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from fleet.kube.status import encode, error_of, error_of_answer, status_of, success

ERRORS: list[tuple[ApiError, dict[str, Any]]] = [
    (BadRequest("no"), {"message": "no", "reason": "BadRequest", "code": 400}),
    (
        NotFound.of(group="apps", resource="deployments", name="x"),
        {
            "message": 'deployments.apps "x" not found',
            "reason": "NotFound",
            "details": {"name": "x", "group": "apps", "kind": "deployments"},
            "code": 404,
        },
    ),
    (
        NotFound.path(),
        {
            "message": "the server could not find the requested resource",
            "reason": "NotFound",
            "details": {},
            "code": 404,
        },
    ),
    (
        AlreadyExists.of(group="", resource="pods", name="x"),
        {
            "message": 'pods "x" already exists',
            "reason": "AlreadyExists",
            "details": {"name": "x", "kind": "pods"},
            "code": 409,
        },
    ),
    (
        Conflict.of(group="", resource="pods", name="x", why="the object has been modified"),
        {
            "message": 'Operation cannot be fulfilled on pods "x": the object has been modified',
            "reason": "Conflict",
            "details": {"name": "x", "kind": "pods"},
            "code": 409,
        },
    ),
    (
        Invalid.of(
            group="",
            kind="Pod",
            name="x",
            causes=[
                Cause("FieldValueRequired", "Required value", "spec.containers"),
                Cause("FieldValueInvalid", 'Invalid value: "": no', "metadata.name"),
            ],
        ),
        {
            "message": 'Pod "x" is invalid: [spec.containers: Required value, '
            'metadata.name: Invalid value: "": no]',
            "reason": "Invalid",
            "details": {
                "name": "x",
                "kind": "Pod",
                "causes": [
                    {
                        "reason": "FieldValueRequired",
                        "message": "Required value",
                        "field": "spec.containers",
                    },
                    {
                        "reason": "FieldValueInvalid",
                        "message": 'Invalid value: "": no',
                        "field": "metadata.name",
                    },
                ],
            },
            "code": 422,
        },
    ),
    (
        RevisionTooLarge(wanted=9, current=7),
        {
            "message": "Too large resource version: 9, current: 7",
            "reason": "Timeout",
            "details": {
                "causes": [
                    {
                        "reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version",
                    }
                ],
                "retryAfterSeconds": 1,
            },
            "code": 504,
        },
    ),
    (
        TooManyRequests("wait", details=Details(retry_after_s=5)),
        {
            "message": "wait",
            "reason": "TooManyRequests",
            "details": {"retryAfterSeconds": 5},
            "code": 429,
        },
    ),
    (Forbidden("f"), {"message": "f", "reason": "Forbidden", "code": 403}),
    (Unauthorized("u"), {"message": "u", "reason": "Unauthorized", "code": 401}),
    (MethodNotAllowed("m"), {"message": "m", "reason": "MethodNotAllowed", "code": 405}),
    (NotAcceptable("n"), {"message": "n", "reason": "NotAcceptable", "code": 406}),
    (RequestTooLarge("r"), {"message": "r", "reason": "RequestEntityTooLarge", "code": 413}),
    (UnsupportedMediaType("t"), {"message": "t", "reason": "UnsupportedMediaType", "code": 415}),
    (InternalError("i"), {"message": "i", "reason": "InternalError", "code": 500}),
    (Unavailable("v"), {"message": "v", "reason": "ServiceUnavailable", "code": 503}),
    (ServerTimeout("o"), {"message": "o", "reason": "Timeout", "code": 504}),
]


@pytest.mark.parametrize(("error", "rest"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_and_its_status_say_the_same(error: ApiError, rest: dict[str, Any]) -> None:
    status = status_of(error)
    frame = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    assert status == frame | rest
    again = error_of(status)
    assert type(again) is type(error)
    assert (again.message, again.http_code) == (error.message, error.http_code)
    assert status_of(again) == status


def test_expired_carries_a_token() -> None:
    status = status_of(Expired("old", continue_token="abc"))
    assert status["metadata"] == {"continue": "abc"}
    assert (status["reason"], status["code"]) == ("Expired", 410)
    again = error_of(status)
    assert isinstance(again, Expired)
    assert again.continue_token == "abc"
    assert status_of(Expired("old"))["metadata"] == {}


@pytest.mark.parametrize("status", [{"reason": "Gone", "code": 410}, {"code": 410}])
def test_gone_is_expired(status: dict[str, Any]) -> None:
    assert isinstance(error_of(status | {"message": "x"}), Expired)


@pytest.mark.parametrize(
    ("code", "leaf"), [(404, NotFound), (409, Conflict), (400, BadRequest), (503, Unavailable)]
)
def test_a_status_without_reason_is_told_by_its_code(code: int, leaf: type[ApiError]) -> None:
    assert type(error_of({"kind": "Status", "message": "m", "code": code})) is leaf


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "ServerTimeout", "message": "m", "code": 500, "details": {"kind": "pods"}},
        {"reason": "StorageReadError", "message": "m", "code": 500},
        {"reason": "Invalid", "message": "odd code", "code": 400},
        {"message": "teapot", "code": 418, "metadata": {"x": 1}},
    ],
)
def test_what_has_no_leaf_is_passed_on_whole(status: dict[str, Any]) -> None:
    error = error_of(status)
    assert isinstance(error, MemberStatus)
    assert error.http_code == status["code"]
    assert status_of(error) == status


def test_a_status_is_one_line() -> None:
    line = encode(status_of(BadRequest("two\nlines")))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert b": " not in line


def test_success() -> None:
    assert success(group="apps", kind="deployments", name="x", uid="u") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "x", "group": "apps", "kind": "deployments", "uid": "u"},
    }
    assert success() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    assert success(code=202)["code"] == 202


def test_an_answer_with_a_status() -> None:
    body = encode(status_of(NotFound.of(group="", resource="pods", name="x")))
    error = error_of_answer(404, body)
    assert isinstance(error, NotFound)
    assert error.details == Details(kind="pods", name="x")
    assert type(error_of_answer(403, b'{"kind":"Status","message":"m"}')) is Forbidden


@pytest.mark.parametrize(
    ("code", "body", "leaf", "message"),
    [
        (404, b"404 page not found\n", NotFound, "404 page not found"),
        (502, b"<html>bad gateway", MemberStatus, "<html>bad gateway"),
        (503, b"", Unavailable, "the server answered 503 without a reason"),
        (410, b"gone", Expired, "gone"),
        (401, b'{"error":"no token"}', Unauthorized, '{"error":"no token"}'),
        (429, b"[1]", TooManyRequests, "[1]"),
        (400, b"\xff\xfe", BadRequest, "��"),
    ],
)
def test_an_answer_without_a_status(
    code: int, body: bytes, leaf: type[ApiError], message: str
) -> None:
    error = error_of_answer(code, body)
    assert type(error) is leaf
    assert (error.message, error.http_code) == (message, code)


def test_retry_after_survives_and_long_texts_are_cut() -> None:
    error = error_of_answer(503, b"x" * 100_000, retry_after="7")
    assert error.details == Details(retry_after_s=7)
    assert len(error.message) == 2048
    dated = error_of_answer(503, b"x", retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    assert dated.details is None
    odd = error_of_answer(520, b"x", retry_after="3")
    assert status_of(odd)["details"] == {"retryAfterSeconds": 3}
