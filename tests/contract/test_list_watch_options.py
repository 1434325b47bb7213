"""The option matrix of LIST and WATCH, as apimachinery validates it.

Each row is a query and what a kube-apiserver 1.36 makes of it.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from fleet.errors import BadRequest, Invalid
from fleet.kube.options import GetOptions, ListOptions, WatchOptions
from fleet.kube.status import status_of
from fleet.kube.wire import Request

RVM = "resourceVersionMatch"
SIE = "sendInitialEvents"
UNLESS_GIVEN = f"Forbidden: {RVM} is forbidden unless resourceVersion is provided"
WITH_CONTINUE = f"Forbidden: {RVM} is forbidden when continue is provided"
EXACT_0 = f'Forbidden: {RVM} "exact" is forbidden for resourceVersion "0"'
NO_INITIAL = f"Forbidden: {SIE} is forbidden for list"
REQUIRES = f"Forbidden: {SIE} requires setting {RVM} to NotOlderThan"
UNLESS_SIE = f"Forbidden: {RVM} is forbidden for watch unless {SIE} is provided"


def request(query: str) -> Request:
    return Request("GET", "/api/v1/pods", tuple(parse_qsl(query, keep_blank_values=True)))


@pytest.mark.parametrize(
    ("query", "revision", "given", "match", "exact"),
    [
        ("", 0, False, "", False),
        ("resourceVersion=", 0, False, "", False),
        ("resourceVersion=0", 0, True, "", False),
        ("resourceVersion=7", 7, True, "", False),
        ("resourceVersion=7&limit=5", 7, True, "", True),
        ("resourceVersion=0&limit=5", 0, True, "", False),
        ("resourceVersion=7&resourceVersionMatch=Exact", 7, True, "Exact", True),
        ("resourceVersion=7&resourceVersionMatch=NotOlderThan", 7, True, "NotOlderThan", False),
        (
            "resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5",
            7,
            True,
            "NotOlderThan",
            False,
        ),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", 0, True, "NotOlderThan", False),
        ("resourceVersion=18446744073709551615", 2**64 - 1, True, "", False),
    ],
)
def test_list_revisions(query: str, revision: int, given: bool, match: str, exact: bool) -> None:
    options = ListOptions.parse(request(query))
    assert (options.revision, options.revision_given, options.match, options.exact) == (
        revision,
        given,
        match,
        exact,
    )


@pytest.mark.parametrize(
    ("query", "limit", "token"),
    [
        ("", 0, ""),
        ("limit=500", 500, ""),
        ("limit=%2B5", 5, ""),
        ("limit=-1", 0, ""),
        ("limit=5&limit=6", 5, ""),
        ("continue=abc&limit=2", 2, "abc"),
        ("continue=abc&resourceVersion=0", 0, "abc"),
        ("timeout=7m58s&timeoutSeconds=478&pretty=true&unknown=x", 0, ""),
    ],
)
def test_list_paging_and_what_is_ignored(query: str, limit: int, token: str) -> None:
    options = ListOptions.parse(request(query))
    assert (options.limit, options.continue_) == (limit, token)


@pytest.mark.parametrize(
    ("query", "problems"),
    [
        (f"{RVM}=Exact", [(RVM, UNLESS_GIVEN)]),
        (f"{RVM}=NotOlderThan&resourceVersion=", [(RVM, UNLESS_GIVEN)]),
        (f"resourceVersion=7&{RVM}=Exact&continue=x", [(RVM, WITH_CONTINUE)]),
        (f"resourceVersion=0&{RVM}=Exact", [(RVM, EXACT_0)]),
        (
            f"resourceVersion=7&{RVM}=exact",
            [(RVM, 'Unsupported value: "exact": supported values: "Exact", "NotOlderThan", ""')],
        ),
        (f"{SIE}=true", [(SIE, NO_INITIAL)]),
        (f"{SIE}=false", [(SIE, NO_INITIAL)]),
        (
            f"{RVM}=Exact&continue=x&{SIE}=1",
            [(RVM, UNLESS_GIVEN), (RVM, WITH_CONTINUE), (SIE, NO_INITIAL)],
        ),
    ],
)
def test_list_combinations_that_are_refused(query: str, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(Invalid) as caught:
        ListOptions.parse(request(query))
    assert_names(caught.value, problems)


@pytest.mark.parametrize(
    ("query", "revision", "given", "initial"),
    [
        ("watch=1", 0, False, True),
        ("watch=1&resourceVersion=0", 0, True, True),
        ("watch=1&resourceVersion=7", 7, True, None),
        (f"watch=1&{SIE}=true&{RVM}=NotOlderThan", 0, False, True),
        (f"watch=1&{SIE}=true&{RVM}=NotOlderThan&resourceVersion=7", 7, True, True),
        (f"watch=1&{SIE}=false&{RVM}=NotOlderThan&resourceVersion=0", 0, True, False),
        (f"watch=1&{SIE}=false&{RVM}=NotOlderThan&resourceVersion=7", 7, True, False),
        (f"watch=1&{SIE}=yes&{RVM}=NotOlderThan", 0, False, True),
    ],
)
def test_watch_starts(query: str, revision: int, given: bool, initial: bool | None) -> None:
    options = WatchOptions.parse(request(query))
    assert (options.revision, options.revision_given, options.send_initial_events) == (
        revision,
        given,
        initial,
    )


@pytest.mark.parametrize(
    ("query", "bookmarks", "timeout_s"),
    [
        ("watch=1", False, None),
        ("watch=1&allowWatchBookmarks=true", True, None),
        ("watch=1&allowWatchBookmarks=false", False, None),
        ("watch=1&timeoutSeconds=478&timeout=7m58s", False, 478.0),
        ("watch=1&timeoutSeconds=0", False, None),
        ("watch=1&timeoutSeconds=-5", False, None),
    ],
)
def test_watch_bookmarks_and_length(query: str, bookmarks: bool, timeout_s: float | None) -> None:
    options = WatchOptions.parse(request(query))
    assert (options.bookmarks, options.timeout_s) == (bookmarks, timeout_s)


@pytest.mark.parametrize(
    ("query", "problems"),
    [
        (f"{SIE}=true", [(RVM, REQUIRES)]),
        (f"{SIE}=false&resourceVersion=7", [(RVM, REQUIRES)]),
        (
            f"{SIE}=true&{RVM}=Exact",
            [
                (RVM, REQUIRES),
                (RVM, 'Unsupported value: "Exact": supported values: "NotOlderThan"'),
            ],
        ),
        (f"{RVM}=NotOlderThan", [(RVM, UNLESS_SIE)]),
        (f"{RVM}=NotOlderThan&resourceVersion=7", [(RVM, UNLESS_SIE)]),
        (f"{SIE}=true&{RVM}=NotOlderThan&continue=x", [(RVM, WITH_CONTINUE)]),
        ("continue=x", [(RVM, WITH_CONTINUE)]),
    ],
)
def test_watch_combinations_that_are_refused(query: str, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(Invalid) as caught:
        WatchOptions.parse(request("watch=1&" + query))
    assert_names(caught.value, problems)


def assert_names(error: Invalid, problems: list[tuple[str, str]]) -> None:
    joined = [f"{field}: {message}" for field, message in problems]
    shown = joined[0] if len(joined) == 1 else f"[{', '.join(joined)}]"
    status = status_of(error)
    assert status["code"] == 422
    assert status["message"] == f'ListOptions.meta.k8s.io "" is invalid: {shown}'
    assert status["details"]["group"] == "meta.k8s.io"
    assert status["details"]["kind"] == "ListOptions"
    assert [(c["field"], c["message"]) for c in status["details"]["causes"]] == problems


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limit=", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("timeoutSeconds=7m", 'strconv.ParseInt: parsing "7m": invalid syntax'),
        (
            "limit=99999999999999999999",
            'strconv.ParseInt: parsing "99999999999999999999": value out of range',
        ),
        ("limit=" + "9" * 5000, f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'),
        # The first of several faults is the one that upstream finds first.
        ("limit=y&timeoutSeconds=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("labelSelector=a+b&limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            "labelSelector=a+b&fieldSelector=c",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("fieldSelector=c", "invalid selector: 'c'; can't understand 'c'"),
    ],
)
@pytest.mark.parametrize("options", [ListOptions, WatchOptions])
def test_values_that_do_not_parse(
    options: type[ListOptions] | type[WatchOptions], query: str, message: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        options.parse(request(query))
    assert caught.value.message == message


def test_a_continued_list_has_its_revision_in_the_token() -> None:
    with pytest.raises(BadRequest, match="not allowed when using continue"):
        ListOptions.parse(request("continue=x&resourceVersion=7"))


@pytest.mark.parametrize("value", ["None", "abc", "-1", "07", "1.5", "%7B%22a%22:1%7D", "9" * 30])
@pytest.mark.parametrize("options", [ListOptions, WatchOptions, GetOptions])
def test_a_revision_that_is_none_is_a_bad_request(
    options: type[ListOptions] | type[WatchOptions] | type[GetOptions], value: str
) -> None:
    # kubernetes-client/python-base#199
    with pytest.raises(BadRequest, match="invalid resource version"):
        options.parse(request(f"resourceVersion={value}"))
