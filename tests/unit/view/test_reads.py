"""GET, LIST and WATCH over members: how fresh an answer is, and that it says what is missing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fleet.errors import BadRequest, MemberStatus, NotFound, TransportError, Unavailable
from fleet.members.health import Condition
from fleet.view.world import LINGER_S

CONFIG_MAPS = "/api/v1/configmaps"
IN_WEST = "/api/v1/namespaces/payments.west/configmaps"
SECRETS = "/api/v1/secrets"


@pytest.fixture
def east(stage):
    return stage.member("east", "configmaps", "secrets")


@pytest.fixture
def west(stage):
    return stage.member("west", "configmaps", "secrets")


def watching(member):
    return member.watches["configmaps"]


# -- the proof


async def test_a_recent_proof_counts_and_an_old_one_is_asked_for_anew(stage, east, west):
    east.holds("configmaps", "a")
    stage.now_s += 1.0
    assert (await stage.call("GET", CONFIG_MAPS)).names == ["payments.east/a"]
    assert (watching(east).asked, watching(west).asked) == (0, 0)
    stage.now_s += 0.1
    watching(west).last_contact_s = stage.now_s
    assert (await stage.call("GET", CONFIG_MAPS)).warnings == ()
    assert (watching(east).asked, watching(west).asked) == (1, 0)


@pytest.mark.parametrize("given", ["resourceVersion=0", "resourceVersion=1", "resourceVersion="])
async def test_a_revision_that_is_given_asks_for_no_proof_of_later_ones(stage, east, given):
    stage.now_s += 60.0
    revision = stage.world.sequencer.current
    answer = await stage.call("GET", f"{CONFIG_MAPS}?{given.replace('=1', f'={revision}')}")
    assert answer.code == 200
    assert watching(east).asked == (1 if given == "resourceVersion=" else 0)


async def test_the_answer_waits_for_the_proof_and_has_what_came_meanwhile(stage, east):
    stage.now_s += 60.0
    watching(east).proof.clear()
    listing = asyncio.ensure_future(stage.call("GET", CONFIG_MAPS))
    await watching(east).waits.wait()
    east.holds("configmaps", "late")
    assert not listing.done()
    watching(east).proof.set()
    assert (await listing).names == ["payments.east/late"]


async def test_a_stale_member_is_shown_as_it_was_and_named(stage, east, west):
    east.holds("configmaps", "a")
    west.holds("configmaps", "b")
    stage.now_s += 30.0
    watching(west).live = False
    answer = await stage.call("GET", CONFIG_MAPS)
    assert answer.names == ["payments.east/a", "payments.west/b"]
    assert answer.warnings == ("west: last seen 30 s ago, shown as it was then",)
    one = await stage.call("GET", f"{IN_WEST}/b")
    assert one.warnings == answer.warnings
    watch = await stage.watch(f"{CONFIG_MAPS}?watch=true")
    assert watch.warnings == answer.warnings
    await watch.close()


async def test_a_known_failure_is_told_whatever_revision_is_asked_for(stage, east):
    watching(east).failure = "the connection broke"
    stage.now_s += 300.0
    told = "east: last seen 5 min ago, shown as it was then"
    assert (await stage.call("GET", f"{CONFIG_MAPS}?resourceVersion=0")).warnings == (told,)
    assert watching(east).asked == 0


async def test_a_member_whose_first_list_failed_is_named_with_the_reason(stage, east, west):
    east.holds("configmaps", "a")
    watching(west).synced.clear()
    watching(west).failure = "configmaps is forbidden"
    answer = await stage.call("GET", CONFIG_MAPS)
    assert answer.names == ["payments.east/a"]
    assert answer.warnings == (
        "west: not heard from yet, its objects are missing (configmaps is forbidden)",
    )


async def test_only_members_that_can_hold_what_is_asked_for_are_asked(stage, east, west):
    stage.now_s += 60.0
    watching(east).live = False
    assert (await stage.call("GET", IN_WEST)).warnings == ()
    assert (watching(east).asked, watching(west).asked) == (0, 1)
    assert (await stage.call("GET", "/api/v1/namespaces/payments/configmaps")).warnings == ()
    assert watching(east).asked == 0


async def test_a_member_that_leaves_while_its_proof_is_awaited_takes_its_objects_along(
    stage, east, west
):
    east.holds("configmaps", "a")
    west.holds("configmaps", "b")
    stage.now_s += 60.0
    watching(west).proof.clear()
    listing = asyncio.ensure_future(stage.call("GET", CONFIG_MAPS))
    await watching(west).waits.wait()
    await stage.world.dismiss("west")
    watching(west).proof.set()
    assert (await listing).names == ["payments.east/a"]


async def test_an_object_that_is_gone_at_the_proof_is_not_found(stage, east):
    """It is kept still when the read begins. Its member has the last word: what lists leave out is
    there by its exact name."""
    gone = east.holds("configmaps", "a")
    stage.now_s += 60.0
    watching(east).proof.clear()
    path = "/api/v1/namespaces/payments.east/configmaps/a"
    reading = asyncio.ensure_future(stage.call("GET", path))
    await watching(east).waits.wait()
    watching(east).sink.remove(gone)
    watching(east).proof.set()
    with pytest.raises(MemberStatus) as missing:
        await reading
    assert missing.value.http_code == 404
    assert [each.path for each in east.asked] == [path.replace(".east", "")]


# -- who is not heard


async def test_a_member_that_never_said_what_it_serves_is_missing_by_name(stage, east):
    silent = stage.member("west")
    silent.kinds = ()
    await stage.world.refresh("west")
    told = "west: not heard from yet, its objects are missing"
    assert (await stage.call("GET", CONFIG_MAPS)).warnings == (told,)
    east.answer("GET", CONFIG_MAPS, {"items": []})
    with pytest.raises(Unavailable, match="member west cannot be reached: it has not been heard"):
        await stage.call("GET", f"{CONFIG_MAPS}?freshness=complete")


# -- freshness=complete


async def test_complete_means_what_members_answer_now(stage, east, west):
    east.holds("configmaps", "kept")
    for member in (east, west):
        items = [member.object("configmaps", "now", revision=9)]
        member.answer("GET", CONFIG_MAPS, {"kind": "ConfigMapList", "items": items})
    await stage.owns("configmaps", "mine")
    answer = await stage.call("GET", f"{CONFIG_MAPS}?freshness=complete&limit=1")
    assert answer.names == ["payments/mine", "payments.east/now", "payments.west/now"]
    assert "continue" not in answer.value["metadata"]
    path = "/api/v1/namespaces/payments.east/configmaps/now"
    east.answer("GET", path.replace(".east", ""), east.object("configmaps", "now", revision=9))
    one = await stage.call("GET", f"{path}?freshness=complete")
    assert one.value["metadata"]["namespace"] == "payments.east"


async def test_complete_fails_where_one_member_does(stage, east, west):
    east.answer("GET", CONFIG_MAPS, {"kind": "ConfigMapList", "items": []})
    west.answer("GET", CONFIG_MAPS, TransportError("no route", sent=False))
    with pytest.raises(Unavailable, match="member west cannot be reached: no route"):
        await stage.call("GET", f"{CONFIG_MAPS}?freshness=complete")


@pytest.mark.parametrize("path", [CONFIG_MAPS, f"{IN_WEST}/a"])
async def test_no_other_freshness_is_known(stage, west, path):
    west.holds("configmaps", "a")
    with pytest.raises(BadRequest, match='freshness=eventual: the only value is "complete"'):
        await stage.call("GET", f"{path}?freshness=eventual")


# -- watches


async def test_members_leave_and_join_inside_an_open_watch(stage, east, west):
    west.holds("configmaps", "b")
    watch = await stage.watch(f"{CONFIG_MAPS}?watch=true")
    assert await watch.next() == ("ADDED", "payments.west/b")
    await stage.world.dismiss("west")
    assert await watch.next() == ("DELETED", "payments.west/b")
    east.holds("configmaps", "a")
    assert await watch.next() == ("ADDED", "payments.east/a")
    stage.member("north", "configmaps").holds("configmaps", "c")
    assert await watch.next() == ("ADDED", "payments.north/c")
    await watch.close()


async def test_a_union_of_namespaces_grows_with_the_fleet(stage, east):
    await stage.owns("configmaps", "mine")
    await stage.owns("configmaps", "elsewhere", namespace="other")
    east.holds("configmaps", "a")
    east.holds("configmaps", "elsewhere", metadata={"namespace": "other"})
    union = "/api/v1/namespaces/payments.*/configmaps"
    assert (await stage.call("GET", union)).names == ["payments/mine", "payments.east/a"]
    watch = await stage.watch(f"{union}?watch=true")
    assert {await watch.next(), await watch.next()} == {
        ("ADDED", "payments/mine"), ("ADDED", "payments.east/a"),
    }  # fmt: skip
    north = stage.member("north", "configmaps")
    north.holds("configmaps", "elsewhere", metadata={"namespace": "other"})
    north.holds("configmaps", "c")
    assert await watch.next() == ("ADDED", "payments.north/c")
    await watch.close()


# -- what is read through


async def test_secrets_are_read_where_they_are_and_never_kept(stage, east, west):
    for member in (east, west):
        items = [member.object("secrets", "s", revision=7)]
        member.answer("GET", SECRETS, {"kind": "SecretList", "items": items})
    await stage.owns("secrets", "mine")
    first = await stage.call("GET", SECRETS)
    assert first.names == ["payments/mine", "payments.east/s", "payments.west/s"]
    assert stage.world.running(stage.own_rows[1].gvr) is None
    again = await stage.call("GET", SECRETS)
    revisions = [
        [item["metadata"]["resourceVersion"] for item in each.value["items"]]
        for each in (first, again)
    ]
    assert revisions[0] == revisions[1]
    east.answer("GET", SECRETS, {"items": [east.object("secrets", "s", revision=8)]})
    await stage.owns("secrets", "other")  # another revision of the fleet's
    changed = (await stage.call("GET", SECRETS)).value["items"]
    assert changed[2]["metadata"]["resourceVersion"] > revisions[0][1]


async def test_secrets_of_one_namespace_are_asked_of_its_member_alone(stage, east, west):
    inside = "/api/v1/namespaces/payments/secrets"
    east.answer("GET", inside, {"items": [east.object("secrets", "s")]})
    answer = await stage.call("GET", "/api/v1/namespaces/payments.east/secrets")
    assert answer.names == ["payments.east/s"]
    assert west.asked == []
    [asked] = east.asked
    assert asked.headers["impersonate-user"] == "fleet:jane"


async def test_secrets_are_selected_by_the_member_as_it_knows_them(stage, east, west):
    for member in (east, west):
        member.answer("GET", SECRETS, {"items": [member.object("secrets", "s")]})
    query = "labelSelector=fleet.dev/cluster in (east),app"
    await stage.call("GET", f"{SECRETS}?{query}&fieldSelector=metadata.namespace=payments.east")
    assert west.asked == []
    assert dict(east.asked[-1].query) == {
        "labelSelector": "app", "fieldSelector": "metadata.namespace=payments",
    }  # fmt: skip


async def test_secrets_are_kept_while_somebody_watches_them(stage, east):
    watch = await stage.watch(f"{SECRETS}?watch=true&timeoutSeconds=60")
    east.holds("secrets", "s")
    assert await watch.next() == ("ADDED", "payments.east/s")
    assert (await stage.call("GET", SECRETS)).names == ["payments.east/s"]
    assert east.asked == []
    await watch.close()
    stage.now_s += LINGER_S
    await stage.world.sweep()
    east.answer("GET", SECRETS, {"items": []})
    assert (await stage.call("GET", SECRETS)).names == []


# -- what is not there


async def test_not_found_says_where_one_of_that_name_is(stage, east, west):
    east.holds("configmaps", "a")
    west.holds("configmaps", "a")
    told = r"in the fleet's namespace payments; east \(and west\) has one: -n payments\.east"
    with pytest.raises(NotFound, match=told):
        await stage.call("GET", "/api/v1/namespaces/payments/configmaps/a")


async def test_not_found_says_how_one_of_a_member_is_called(stage):
    stage.member("east", "nodes").holds("nodes", "n1")
    with pytest.raises(NotFound, match=r"\(there is n1\.east\)"):
        await stage.call("GET", "/api/v1/nodes/n1")
    with pytest.raises(NotFound, match=r'did you mean "n1\.east"'):
        await stage.call("GET", "/api/v1/nodes/n1.eats")


async def test_a_version_that_only_members_have_says_what_it_leaves_out(stage):
    row = "autoscaling/v1/horizontalpodautoscalers"
    stage.member("east", row, row.replace("v1", "v2"))
    newer = next(each for each in stage.world.members["east"].kinds if each.gvr.version == "v2")
    stage.own_rows.append(replace(newer))
    stage.world.own_changed()
    answer = await stage.call("GET", f"/apis/{row}")
    assert answer.warnings == (
        "the fleet's own horizontalpodautoscalers.autoscaling are in autoscaling/v2 alone and not "
        "shown here",
    )
    path = f"/apis/{row.replace('/horizontal', '/namespaces/ns.east/horizontal')}"
    assert (await stage.call("GET", path)).warnings == ()


async def test_a_list_from_the_members_waits_for_none_that_is_silent(stage, east, west):
    west.hangs = True
    in_west = IN_WEST.replace("configmaps", "secrets")
    with pytest.raises(Unavailable, match=r"within 0\.001 s"):
        await stage.call("GET", f"{in_west}?timeout=1ms")
    west.asked.clear()
    west.conditions["Reachable"] = Condition("Reachable", "False", "NoAnswer", "no answer in 3 s")
    with pytest.raises(Unavailable, match="no answer in 3 s"):
        await stage.call("GET", in_west)
    east.answer("GET", SECRETS, {"items": [east.object("secrets", "s")]})
    answer = await stage.call("GET", SECRETS)
    assert answer.names == ["payments.east/s"]
    assert answer.warnings == ("west: no answer in 3 s; its objects are missing",)
    assert west.asked == []
