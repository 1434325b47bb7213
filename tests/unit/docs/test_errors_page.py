"""docs/errors.md and the errors that there are: every answer, cause and error of the tree."""

from __future__ import annotations

import re

import pytest

from fleet import errors


def leaves(kind):
    """The classes of the tree below `kind`."""
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from leaves(each)


def test_every_answer_is_in_the_table(page, code):
    documented = [
        (int(row["Code"]), *code(row["Reason"]))
        for row in page("errors.md").rows("## Answers to requests")
        if "Code" in row
    ]
    answers = {
        (each.code, each.reason)
        for each in leaves(errors.ApiError)
        if each is not errors.MemberStatus
    }
    assert documented == sorted(answers)


def test_every_answer_says_when_it_comes_and_what_to_do(page):
    for row in page("errors.md").rows("## Answers to requests"):
        if "Code" in row:
            assert row["When"] and row["What to do"], row


def test_every_other_error_is_in_the_table(page, code):
    documented = [
        code(row["Error"])[0] for row in page("errors.md").rows("## Errors on the command line")
    ]
    others = {
        each.__name__ for each in errors.FleetError.__subclasses__() if each is not errors.ApiError
    } & {each.__name__ for each in leaves(errors.FleetError)}
    assert sorted(documented) == sorted(others)


def test_the_tree_is_drawn_with_every_error():
    drawn = errors.__doc__ or ""
    for each in leaves(errors.FleetError):
        assert f"─ {each.__name__}" in drawn, each
        if issubclass(each, errors.ApiError) and each not in (
            errors.ApiError,
            errors.MemberStatus,
        ):
            (line,) = (line for line in drawn.splitlines() if f"─ {each.__name__} " in line)
            assert f"{each.code} {each.reason}" in line


CAUSE = re.compile(r'\bCause\(\s*(?:reason=)?"(\w+)"|"(FieldValue\w+)"')


@pytest.fixture
def causes(root):
    """The reasons of causes: first arguments of `Cause`, and upstream's words wherever they are."""
    found = {}
    for package in ("fleet", "policies", "virtualnode", "adapters"):
        for path in sorted((root / package).rglob("*.py")):
            for words in CAUSE.findall(path.read_text("utf-8")):
                found |= dict.fromkeys(filter(None, words), str(path.relative_to(root)))
    return found


def test_every_cause_is_in_the_table(causes, page, code):
    documented = {code(row["Cause"])[0] for row in page("errors.md").rows("### Causes")}
    assert documented == set(causes), causes
