"""Links between the pages of the documentation, and the commands they show, lead somewhere."""

from __future__ import annotations

import os
import re
import shlex

import click
import pytest

from fleet.cli import reference
from fleet.cli.main import cli

LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
SCRIPT = re.compile(r"\bscripts/[a-z-]+")


def pages(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def anchors(text):
    """What headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_links_between_pages_lead_somewhere(root):
    broken = []
    for source in pages(root):
        for link in LINK.findall(source.read_text("utf-8")):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (source.parent / path) if path else source
            if not target.exists():
                broken.append(f"{source.relative_to(root)}: {link}")
            elif anchor and anchor not in anchors(target.read_text("utf-8")):
                broken.append(f"{source.relative_to(root)}: {link} (no such heading)")
    assert broken == []


def shown_commands(root):
    """Lines of code blocks that call `fleet`, without what is around the call."""
    for source in pages(root):
        for block in BLOCK.findall(source.read_text("utf-8")):
            for line in block.splitlines():
                if "[OPTIONS]" in line:
                    continue
                call = re.search(r"(?:^|\$\()(?:kubectl )?fleet ([a-z][^|>)#]*)", line)
                if call:
                    yield source.name, call[1].strip()


def test_every_command_that_is_shown_can_be_parsed(root):
    shown = list(shown_commands(root))
    assert len(shown) > 10
    for name, line in shown:
        command: click.Command = cli
        context = reference.root()
        words = shlex.split(line)
        try:
            while isinstance(command, click.Group):
                word, *words = words
                found = command.get_command(context, word)
                assert found is not None, f"{name}: fleet {line}: no command {word}"
                command = found
            command.make_context(command.name, words, parent=context)
        except click.UsageError as error:
            pytest.fail(f"{name}: fleet {line}: {error.format_message()}")


def test_every_script_that_is_named_is_there(root):
    for source in pages(root):
        for script in SCRIPT.findall(source.read_text("utf-8")):
            assert os.access(root / script, os.X_OK), f"{source.name}: {script}"
