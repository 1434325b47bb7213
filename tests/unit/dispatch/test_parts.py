"""Objects of shards in the merged world: parts under the fleet's names, the rest hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.dispatch.parts import Parts
from fleet.dispatch.record import Debt, Record, Shard, write
from fleet.errors import BadRequest, Invalid
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.kube.revision import Revision
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer
from fleet.view.intake import Intake
from fleet.view.parts import PartBodies, Sieve, Sorting
from fleet.view.projection import Projector
from policies import PLACEMENT

UID = "5b0c1a4e"
FLEET = "f1ee"
EAST = Shard("east", 0, 1, first=0, count=4)


def placement(*shards: Shard, owed: tuple[Debt, ...] = (), name: str = "train") -> dict[str, Any]:
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": UID}
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": f"job-{name}", "namespace": "payments", "uid": "p"},
        "spec": {"workload": workload},
        "status": write(Record(phase="Running", since=1.0, shards=shards, owed=owed), {}),
    }


def of_pod(*shards: Shard, owed: tuple[Debt, ...] = ()) -> dict[str, Any]:
    """The Placement of the Pod `web`."""
    made = placement(*shards, owed=owed, name="web")
    made["metadata"]["name"] = "pod-web"
    made["spec"]["workload"] = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "w"}
    return made


def row(group: str, resource: str):
    found = builtin.resource(GroupVersionResource(group, "v1", resource))
    assert found is not None
    return found


class Record_:
    """A store's Placements, and the parts that follow them."""

    def __init__(self) -> None:
        self.sequencer = Sequencer(epoch=1)
        self.placements = Collection(PLACEMENT.resource, self.sequencer)
        self.parts = Parts(fleet=FLEET)
        self.parts.follow(self.placements)

    def put(self, obj: dict[str, Any]) -> None:
        self.placements.put(Entry(obj, revision=self.sequencer.next()))

    def drop(self, obj: dict[str, Any]) -> None:
        self.placements.remove(Entry(obj, revision=self.sequencer.next()))


@pytest.fixture
def record() -> Record_:
    made = Record_()
    made.put(placement(EAST))
    return made


def pod(name: str = "train-g1-east-0-abcde", **more: Any) -> dict[str, Any]:
    labels = {
        "fleet.dev/shard": "train-g1-east",
        "fleet.dev/workload-uid": UID,
        "fleet.dev/workload-namespace": "payments",
        "job-name": "train-g1-east",
    } | more.pop("labels", {})
    metadata = {
        "name": name,
        "namespace": "payments",
        "uid": more.pop("uid", f"uid-{name}"),
        "resourceVersion": more.pop("revision", "7"),
        "labels": labels,
        "annotations": {
            "fleet.dev/owner-reference": '{"apiVersion":"batch/v1","kind":"Job","name":"train",'
            '"uid":"5b0c1a4e","controller":true,"blockOwnerDeletion":true}'
        },
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train-g1-east", "uid": "j"}
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}}


class Taking:
    """A member's pods on their way into a merged collection."""

    def __init__(self, record: Record_, resource=None) -> None:
        resource = resource or row("", "pods")
        projector = Projector("east", resource)
        self.collection = Collection(resource, record.sequencer)
        self.sorting = Sorting(projector, record.parts)
        self.hidden = Collection(resource, record.sequencer)
        intake = self.intake = Intake(
            self.sorting, self.collection, clock=lambda: 0.0, hides=self.sorting.hides
        )
        aside = Intake(self.sorting, self.hidden, clock=lambda: 0.0)
        kept = aside if self.sorting.keeps_hidden else None
        self.sink = Sieve(intake, self.sorting, record.parts, hidden=kept)

    def keys(self) -> list[tuple[str, str]]:
        return [entry.key for entry in self.collection.snapshot().entries()]

    def aside(self) -> list[tuple[str, str]]:
        return [entry.key for entry in self.hidden.snapshot().entries()]

    def list(self, *objects: dict[str, Any], revision: int = 9) -> None:
        for _ in self.sink.replace(iter(objects), revision):
            pass


def standing(record: Record_, obj: dict[str, Any], kind: str = "Pod", group: str = "") -> str:
    return record.parts.standing("east", group, kind, obj)


def test_a_pod_of_a_recorded_shard_is_a_part(record):
    assert standing(record, pod()) == "Part"
    assert record.parts.standing("west", "", "Pod", pod()) == "Native"


@pytest.mark.parametrize(
    "labels",
    [
        {"fleet.dev/shard": "train-g2-east"},
        {"fleet.dev/workload-uid": "another"},
        {"fleet.dev/workload-namespace": "kube-system"},
        {"fleet.dev/shard": "other"},
    ],
)
def test_labels_alone_prove_nothing(record, labels):
    assert standing(record, pod(labels=labels)) == "Native"


def test_what_is_owed_still_belongs_to_its_workload(record):
    debt = Debt("east", "train-g1-east", 1, "LeaseOver", None)
    record.put(placement(Shard("north", 0, 2, 0, 4), owed=(debt,)))
    assert standing(record, pod()) == "Part"
    assert record.parts.hosts("payments") == {"east", "north"}
    record.put(placement(Shard("north", 0, 2, 0, 4)))
    assert standing(record, pod()) == "Native"
    assert record.parts.hosts("payments") == {"north"}


def test_a_record_that_goes_takes_its_shards_along(record):
    record.drop(placement(EAST))
    assert standing(record, pod()) == "Native"
    assert record.parts.hosts("payments") == frozenset()


def test_jobs_of_shards_and_what_goes_with_them_are_hidden(record):
    assert standing(record, pod(name="train-g1-east"), "Job", "batch") == "Hidden"
    ours = {
        "metadata": {
            "name": "cfg",
            "labels": {"app.kubernetes.io/managed-by": "fleet"},
            "annotations": {"fleet.dev/fleet": FLEET},
        }
    }
    for group, kind in (("", "ConfigMap"), ("", "Secret"), ("discovery.k8s.io", "EndpointSlice")):
        assert standing(record, ours, kind, group) == "Hidden"
    ours["metadata"]["annotations"]["fleet.dev/fleet"] = "another fleet"
    assert standing(record, ours, "ConfigMap") == "Native"


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("Pod", "train-g1-east-3-abcde", "Part"),
        ("Pod", "train-g1-east-abcde", "Part"),
        ("Pod", "train-g1-east", "Native"),
        ("Pod", "web-abcde", "Native"),
        ("Job", "train-g1-east", "Part"),
        ("Job", "train-g2-east", "Native"),
        ("Node", "n1", "Native"),
    ],
)
def test_events_go_where_what_they_are_about_goes(record, kind, name, shown):
    about = {"kind": kind, "namespace": "payments", "name": name}
    event = {"metadata": {"name": "e"}, "involvedObject": about}
    assert standing(record, event, "Event") == shown


_SHUT = (
    'MountVolume.SetUp failed for volume "fleet-gate" : configmap "train-g1-east-gate" not found'
)
_WAITS = "Unable to attach or mount volumes: unmounted volumes=[fleet-gate], unattached volumes=[]"
_USERS = 'MountVolume.SetUp failed for volume "data" : configmap "settings" not found'


@pytest.mark.parametrize(
    ("reason", "message", "shown"),
    [
        ("FailedMount", _SHUT, "Hidden"),
        ("FailedMount", _WAITS, "Hidden"),
        ("FailedMount", _USERS, "Part"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "fleet-gate" : timed out', "Part"),
        ("Failed", _SHUT, "Part"),
    ],
)
@pytest.mark.parametrize("fields", [("involvedObject", "message"), ("regarding", "note")])
def test_that_a_gate_is_shut_is_no_event_of_the_fleets(record, reason, message, shown, fields):
    about = {"kind": "Pod", "namespace": "payments", "name": "train-g1-east-3-abcde"}
    event = {
        "metadata": {"name": "e"},
        "reason": reason,
        **dict(zip(fields, (about, message), strict=True)),
    }
    assert standing(record, event, "Event") == shown
    about["name"] = "web"  # somebody's own pod may have a volume of that name
    assert standing(record, event, "Event") == "Native"


@pytest.mark.parametrize(
    ("reason", "shown"), [("DeadlineExceeded", "Hidden"), ("SuccessfulCreate", "Part")]
)
def test_the_end_of_a_shards_deadline_is_the_fleets_to_tell(record, reason, shown):
    about = {"kind": "Job", "namespace": "payments", "name": "train-g1-east"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": reason}
    assert standing(record, event, "Event") == shown
    about["name"] = "backup"
    assert standing(record, event, "Event") == "Native"


def test_parts_and_native_pods_stand_side_by_side(record):
    taking = Taking(record)
    native = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "payments", "uid": "w", "resourceVersion": "3"},
    }
    taking.list(pod(), native)
    assert taking.keys() == [("payments", "train-g1-east-0-abcde.east"), ("payments.east", "web")]
    shown = taking.collection.get("payments", "train-g1-east-0-abcde.east").parse()
    (owner,) = shown["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("train", UID)
    assert shown["metadata"]["labels"]["job-name"] == "train"
    assert shown["spec"]["nodeName"] == "n1.east"


def test_a_part_stays_where_it_appeared_until_it_goes(record):
    taking = Taking(record)
    taking.sink.upsert(pod())
    record.drop(placement(EAST))
    taking.sink.upsert(pod(revision="8"))
    assert taking.keys() == [("payments", "train-g1-east-0-abcde.east")]
    taking.sink.remove(pod(revision="9"))
    assert taking.keys() == []


def test_hidden_objects_are_told_of_and_let_nothing_through(record):
    told = []
    record.parts.follower = lambda member, workload, obj, gone: told.append(
        (member, workload.name, obj["metadata"]["name"], gone)
    )
    taking = Taking(record, row("batch", "jobs"))
    job = pod(name="train-g1-east") | {"apiVersion": "batch/v1", "kind": "Job", "spec": {}}
    taking.list(job)
    taking.sink.upsert(job)
    taking.sink.remove(job)
    assert taking.keys() == []
    assert told == [("east", "train", "train-g1-east", gone) for gone in (False, False, True)]


# -- shards that are pods


def shard_pod(name: str = "web-g1-east", **more: Any) -> dict[str, Any]:
    labels = {"fleet.dev/shard": name, "fleet.dev/workload-uid": "w"} | more.pop("labels", {})
    return pod(name, labels=labels, **more)


@pytest.fixture
def web(record):
    record.put(of_pod(EAST))
    return record


def test_a_shard_that_is_a_pod_is_hidden_and_kept_aside(web):
    told = []
    web.parts.follower = lambda member, workload, obj, gone: told.append((workload, gone))
    taking = Taking(web)
    taking.list(pod(), shard_pod())
    assert taking.keys() == [("payments", "train-g1-east-0-abcde.east")]
    assert taking.aside() == [("payments.east", "web-g1-east")]
    assert [(each.kind, each.name, gone) for each, gone in told] == [
        ("Job", "train", False), ("Pod", "web", False)
    ]  # fmt: skip
    taking.list(pod(), revision=10)
    assert taking.aside() == []


def test_it_stays_hidden_when_its_record_goes_before_it(web):
    taking = Taking(web)
    taking.sink.upsert(shard_pod())
    web.drop(of_pod(EAST))
    taking.sink.upsert(shard_pod(revision="8"))
    assert (taking.keys(), len(taking.aside())) == ([], 1)
    taking.sink.remove(shard_pod(revision="9"))
    assert (taking.keys(), taking.aside()) == ([], [])


async def test_a_write_through_its_exact_name_does_not_bring_it_to_light(web):
    """What a write answers goes past the sieve."""
    taking = Taking(web)
    assert await taking.intake.written(shard_pod(revision="8")) is None
    assert taking.keys() == []
    assert await taking.intake.written(pod(revision="8")) is not None
    assert taking.keys() == [("payments", "train-g1-east-0-abcde.east")]


@pytest.mark.parametrize(
    "other",
    [
        shard_pod(name="another", labels={"fleet.dev/shard": "web-g1-east"}),
        shard_pod(labels={"fleet.dev/workload-uid": "of another"}),
    ],
)
def test_labels_alone_make_no_shard(web, other):
    assert standing(web, other) == "Native"


def test_a_job_of_the_same_name_is_another_shard(web):
    web.put(placement(EAST, name="web"))
    assert web.parts.of_shard("east", "Pod", "payments", "web-g1-east").uid == "w"
    assert web.parts.of_shard("east", "Job", "payments", "web-g1-east").uid == UID


def test_events_about_it_are_about_the_fleets_pod(web):
    event = {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "web-g1-east.17", "namespace": "payments", "resourceVersion": "7"},
        "involvedObject": {"kind": "Pod", "namespace": "payments", "name": "web-g1-east",
                           "uid": "there"},
    }  # fmt: skip
    taking = Taking(web, row("", "events"))
    taking.sink.upsert(event)
    shown = taking.collection.get("payments", "web-g1-east.17.east").parse()
    about = shown["involvedObject"]
    assert (about["namespace"], about["name"], about["uid"]) == ("payments", "web", "w")


@pytest.mark.parametrize(
    ("made", "seat"),
    [
        (of_pod(EAST), None),
        (of_pod(replace(EAST, state="Held")), None),
        (of_pod(replace(EAST, state="Committed")), ("east", "web-g1-east")),
        (of_pod(replace(EAST, state="Succeeded")), ("east", "web-g1-east")),
        (of_pod(owed=(Debt("east", "web-g1-east", 1, "Deleted", None),)), ("east", "web-g1-east")),
        (of_pod(owed=(Debt("east", "web-g1-east", 1, "NoRoom", 5.0),)), None),
    ],
)
def test_it_has_a_seat_once_it_may_run_and_until_it_is_gone(record, made, seat):
    record.put(made)
    assert record.parts.seat("Pod", "payments", "web", "w") == seat
    assert record.parts.seat("Pod", "payments", "web", "an earlier one") is None
    record.drop(made)
    assert record.parts.seat("Pod", "payments", "web", "w") is None


# -- bodies on their way back


def bodies(record: Record_, subresource: str = "") -> tuple[PartBodies, dict[str, Any]]:
    taking = Taking(record)
    taking.sink.upsert(pod())
    current = taking.collection.get("payments", "train-g1-east-0-abcde.east").parse()
    projector = Projector("east", row("", "pods"))
    made = PartBodies(
        projector,
        record.parts,
        subresource=subresource,
        name="train-g1-east-0-abcde",
        current=current,
    )
    return made, current


def test_a_part_that_is_sent_back_is_the_members_object(record):
    made, current = bodies(record)
    current["metadata"]["labels"]["mine"] = "1"
    sent = made.unproject(
        current, namespace="payments", name=current["metadata"]["name"], revision_of=lambda _: "7"
    )
    expected = pod(labels={"mine": "1"})
    assert sent["metadata"]["name"] == expected["metadata"]["name"]
    assert sent["metadata"]["ownerReferences"] == expected["metadata"]["ownerReferences"]
    assert sent["metadata"]["labels"] == expected["metadata"]["labels"]
    assert sent["spec"] == expected["spec"]


def test_what_the_fleet_decides_about_a_part_cannot_be_written(record):
    made, current = bodies(record)
    name = current["metadata"]["name"]
    current["metadata"]["ownerReferences"] = []
    with pytest.raises(Invalid):
        made.unproject(current, namespace="payments", name=name, revision_of=lambda _: "7")
    made, current = bodies(record)
    current["metadata"]["namespace"] = "kube-system"
    with pytest.raises(BadRequest):
        made.unproject(current, namespace="payments", name=name, revision_of=lambda _: "7")


def test_an_eviction_names_the_pod_as_its_member_does(record):
    made, current = bodies(record, "eviction")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": current["metadata"]["name"], "namespace": "payments"},
        "deleteOptions": {"preconditions": {"resourceVersion": "1099511627777"}},
    }
    sent = made.unproject(eviction, revision_of=lambda _: "7")
    assert sent["metadata"] == {"name": "train-g1-east-0-abcde"}
    assert sent["deleteOptions"]["preconditions"]["resourceVersion"] == "7"


def test_an_answer_is_shown_under_the_fleets_names(record):
    made, current = bodies(record)
    shown = made.project(pod(), revision=Revision(current["metadata"] and 5))
    assert shown["metadata"]["name"] == "train-g1-east-0-abcde.east"
    assert shown["metadata"]["namespace"] == "payments"


# -- parts that are let go


def native(name: str, *, revision: str) -> dict[str, Any]:
    """A pod that says no more where the fleet shows it."""
    found = pod(name=name, revision=revision)
    del found["metadata"]["labels"]["fleet.dev/workload-namespace"]
    return found


@pytest.mark.parametrize("listed", [False, True])
def test_a_part_that_is_let_go_moves_and_is_seen_once(record, listed):
    taking = Taking(record)
    taking.list(pod(name="train-g1-east-0-a"), pod(name="train-g1-east-1-b"))
    assert [key[0] for key in taking.keys()] == ["payments", "payments"]
    let_go = native("train-g1-east-0-a", revision="12")
    if listed:
        taking.list(let_go, pod(name="train-g1-east-1-b"), revision=13)
    else:
        taking.sink.upsert(let_go)
    assert taking.keys() == [
        ("payments", "train-g1-east-1-b.east"), ("payments.east", "train-g1-east-0-a"),
    ]  # fmt: skip
    taking.sink.remove(native("train-g1-east-0-a", revision="15"))
    assert taking.keys() == [("payments", "train-g1-east-1-b.east")]


def test_a_part_that_is_let_go_and_gone_at_once_leaves_nothing(record):
    taking = Taking(record)
    taking.list(pod(name="train-g1-east-0-a"))
    taking.sink.remove(native("train-g1-east-0-a", revision="12"))
    assert taking.keys() == []


def test_a_part_cannot_move_itself_into_another_namespace_of_the_fleet(record):
    taking = Taking(record)
    taking.list(pod(name="train-g1-east-0-a"))
    elsewhere = {"fleet.dev/workload-namespace": "kube-system"}
    taking.sink.upsert(pod(name="train-g1-east-0-a", revision="12", labels=elsewhere))
    assert taking.keys() == [("payments.east", "train-g1-east-0-a")]


def test_a_part_keeps_its_place_when_its_record_goes(record):
    taking = Taking(record)
    taking.list(pod(name="train-g1-east-0-a"))
    record.drop(placement(EAST))
    taking.sink.upsert(pod(name="train-g1-east-0-a", revision="12"))
    assert taking.keys() == [("payments", "train-g1-east-0-a.east")]
    taking.sink.remove(pod(name="train-g1-east-0-a", revision="13"))
    assert taking.keys() == []
