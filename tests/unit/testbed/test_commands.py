from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleet.errors import TestbedError
from fleet.testbed import __main__, commands, components, embedded, layout
from fleet.testbed.commands import MemberStatus


def status(name: str = "east", *, lacking: str = "", **states: str) -> MemberStatus:
    known = dict.fromkeys(components.ALL, "running")
    return MemberStatus(
        name=name,
        server="https://127.0.0.1:1",
        kubeconfig=Path(f"/home/{name}/kubeconfig"),
        components={**known, **states},
        lacking=lacking,
    )


@pytest.mark.parametrize("provider", ["kind", "Local", ""])
async def test_an_unknown_provider_is_refused_with_the_known_ones(provider):
    for command in (
        commands.up(provider, progress=print),
        commands.down(provider, progress=print),
        commands.status(provider),
        commands.build(provider, progress=print),
    ):
        with pytest.raises(
            TestbedError, match=f"no provider {provider!r}; it has: local, embedded"
        ):
            await command


@pytest.mark.parametrize("name", ["", "East", "a.b", "-a", "a-", "a" * 31, "../up"])
async def test_a_name_that_is_no_member_name_is_refused_before_anything(name, tmp_path):
    for command in (commands.up, commands.down):
        with pytest.raises(TestbedError, match="cannot name a member"):
            await command("local", names=[name], home=tmp_path, progress=print)
    assert list(tmp_path.iterdir()) == []


def test_members_are_named_without_being_told():
    assert commands.default_names(3) == ["east", "west", "north"]
    assert commands.default_names(6) == ["east", "west", "north", "south", "m5", "m6"]
    assert len(set(commands.default_names(layout.NETWORKS))) == layout.NETWORKS


@pytest.mark.parametrize("count", [0, -1, layout.NETWORKS + 1])
def test_a_count_out_of_bounds_is_refused(count):
    with pytest.raises(TestbedError, match=f"1 to {layout.NETWORKS}"):
        commands.default_names(count)


def test_a_network_is_kept_by_who_has_it_and_the_lowest_free_is_next(tmp_path):
    for name, network in (("east", 0), ("west", 2)):
        layout.create(name, root=tmp_path / name, network=network, components=())

    given = commands._networks(["west", "north", "south"], tmp_path)
    assert {name: given[name] for name in ("west", "north", "south")} == {
        "west": 2,
        "north": 1,
        "south": 3,
    }


async def test_without_members_there_is_nothing_to_do(tmp_path):
    home = tmp_path / "home"

    assert await commands.status("local", home=home) == []
    assert await commands.down("local", home=home, progress=print) == []
    assert not home.exists()


async def test_a_name_that_no_member_has_is_an_error_and_nothing_is_stopped(tmp_path, capsys):
    home = tmp_path / "home"
    with pytest.raises(TestbedError, match="has no member nosuch; it has: none"):
        await commands.down(None, names=["nosuch"], home=home, progress=print)
    for name in ("east", "west"):
        layout.create(name, root=home / name, network=0, components=components.API_ONLY)

    names = ["east", "nosuch", "n2"]
    with pytest.raises(TestbedError, match="has no member nosuch, n2; it has: east, west"):
        await commands.down(None, names=names, home=home, progress=print)
    with pytest.raises(TestbedError, match="no member nosuch, n2"):
        await commands.status(None, names=names, home=home)
    assert layout.members(home) == ["east", "west"]
    said = await asyncio.to_thread(__main__.main, ["down", "nosuch", "--home", str(home)])
    assert said == 1 and "it has: east, west" in capsys.readouterr().err


async def test_a_member_that_never_ran_is_seen_and_taken_down(tmp_path):
    layout.create("east", root=tmp_path / "east", network=0, components=components.API_ONLY)

    (seen,) = await commands.status("local", home=tmp_path)
    assert seen.summary == "etcd gone, kube-apiserver gone"
    assert not seen.ready
    assert await commands.down("local", home=tmp_path, progress=lambda _: None) == ["east"]
    assert layout.members(tmp_path) == []


async def test_a_provider_narrows_what_is_shown_and_stopped(tmp_path):
    layout.create("east", root=tmp_path / "east", network=0, components=components.API_ONLY)
    layout.create("inner", root=tmp_path / "inner", network=1, components=(embedded.COMPONENT,))

    async def names(provider):
        return [each.name for each in await commands.status(provider, home=tmp_path)]

    assert await names("embedded") == ["inner"]
    assert await names("local") == ["east"]
    assert await names(None) == ["east", "inner"]
    with pytest.raises(TestbedError, match="no member east of the provider embedded; it has: in"):
        await commands.down("embedded", names=["east"], home=tmp_path, progress=print)
    assert await commands.down("embedded", home=tmp_path, progress=lambda _: None) == ["inner"]
    assert layout.members(tmp_path) == ["east"]


@pytest.mark.parametrize(
    ("member", "summary"),
    [
        (status(), "ready"),
        (status(kwok="gone"), "kwok gone"),
        (status(lacking="/readyz says 500"), "/readyz says 500"),
        (status(etcd="paused", lacking="late"), "etcd paused"),
    ],
)
def test_the_summary_says_what_is_wrong(member, summary):
    assert member.summary == summary
    assert member.ready == (summary == "ready")


def test_up_says_where_the_kubeconfigs_are_and_what_to_try():
    text = commands.up_text([status("east"), status("west")])

    assert "export KUBECONFIG=/home/east/kubeconfig:/home/west/kubeconfig" in text
    assert "--context east get nodes" in text
    assert "fleet testbed down" in text
    for name in ("east", "west"):
        assert f"  fleet join /home/{name}/kubeconfig --name {name}" in text.splitlines()


def test_commands_of_another_home_name_it():
    text = commands.up_text([status()], home=Path("/srv/my fleet"))
    assert "fleet testbed status --home '/srv/my fleet'" in text
    assert "fleet testbed down --home '/srv/my fleet'" in text


def test_status_says_how_to_go_on():
    assert "fleet testbed up" in commands.status_text([])
    assert "fleet testbed up" in commands.status_text([status(kwok="gone")])
    assert commands.status_text([status()]) == (
        "east  ready  https://127.0.0.1:1  /home/east/kubeconfig\n"
    )


def test_the_command_line_shows_members_and_turns_errors_into_one_line(tmp_path, capsys):
    layout.create("east", root=tmp_path / "east", network=0, components=components.API_ONLY)

    assert __main__.main(["status", "--home", str(tmp_path)]) == 0
    assert "etcd gone" in capsys.readouterr().out
    assert __main__.main(["up", "--provider", "kind"]) == 1
    assert capsys.readouterr().err.startswith("fleet: the testbed has no provider 'kind'")
    assert __main__.main(["up", "--nodes", "cpu=x", "--home", str(tmp_path)]) == 1
    assert "'x' is not a quantity" in capsys.readouterr().err
    assert __main__.main(["down", "--home", str(tmp_path)]) == 0
    assert __main__.main(["down", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing to stop\n"
