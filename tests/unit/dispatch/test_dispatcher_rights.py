"""As whom dispatch asks a member, and what it does about rights that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.dispatch.premises import Premises
from fleet.dispatch.remote import Remote
from fleet.errors import Forbidden, MemberStatus
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Response
from fleet.members.binding import RULES, dispatcher_binding, dispatcher_role

if TYPE_CHECKING:
    from fleet.kube.wire import Request

Object = dict[str, Any]

JOBS = GroupVersionResource("batch", "v1", "jobs")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
USER = "fleet:dispatcher:payments"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fleet:dispatcher"
BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/payments/rolebindings/fleet:dispatcher"
NAMESPACE = "/api/v1/namespaces/payments"
SHARD = "/apis/batch/v1/namespaces/payments/jobs/train-g1-east"


class Member:
    """Objects by path, and an authorizer: dispatchers need their RoleBinding, others nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[tuple[str, str, str]] = []
        """(user, method, path) of each request; the user is "" for the joined credentials."""
        self.hears_after = 0
        """How many reviews it answers before it knows of a binding."""

    async def handle(self, request: Request) -> Response:
        user = request.headers.get("impersonate-user", "")
        self.asked.append((user, request.method, request.path))
        if user and BINDING not in self.objects:
            return self._status(
                403,
                f'jobs.batch is forbidden: User "{user}" cannot {request.method} resource "jobs"',
            )
        body = orjson.loads(request.body) if request.body else {}
        path = request.path
        if path.endswith("subjectaccessreviews"):
            self.hears_after -= 1
            allowed = BINDING in self.objects and self.hears_after < 0
            return self._answer({**body, "status": {"allowed": allowed}})
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            body["metadata"].setdefault("uid", "uid")
            self.objects[path] = body
        elif path.endswith("/jobs"):
            return self._answer({"items": []})
        elif path not in self.objects:
            return self._status(404, "not found")
        elif request.method == "PATCH":
            annotations = self.objects[path]["metadata"].setdefault("annotations", {})
            annotations |= body["metadata"].get("annotations") or {}
        elif request.method == "PUT":
            self.objects[path] = body
        return self._answer(self.objects[path])

    @staticmethod
    def _answer(value: Object) -> Response:
        return Response(200, {}, orjson.dumps(value))

    @staticmethod
    def _status(code: int, message: str) -> Response:
        status = {"kind": "Status", "status": "Failure", "code": code, "message": message}
        return Response(code, {}, orjson.dumps(status))

    def has(self, path: str, **metadata: Any) -> None:
        name = path.rpartition("/")[2]
        self.objects[path] = {"metadata": {"name": name, "uid": "uid", **metadata}}


class Offers:
    def serves(self, cluster: str, gvr: GroupVersionResource) -> bool:
        return True


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def remote(member: Member) -> Remote:
    return Remote(member)


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def premises(slept: list[float]) -> Premises:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return Premises(fleet="f1ee7", offers=Offers(), priority_of=lambda _: None, sleep=sleep)


async def test_what_is_in_a_namespace_is_the_dispatchers_and_nothing_else(member, remote):
    member.has(BINDING)
    member.has(SHARD)
    member.has(NAMESPACE)
    job = await remote.get(JOBS, "payments", "train-g1-east")
    await remote.list(JOBS, "payments")
    await remote.create(JOBS, "payments", {"metadata": {"name": "new"}})
    await remote.merge(JOBS, "payments", "train-g1-east", {}, uid="uid", revision="")
    await remote.update(JOBS, {"metadata": {**job["metadata"], "namespace": "payments"}})
    await remote.delete(JOBS, "payments", "train-g1-east", uid="uid")
    assert {user for user, _, _ in member.asked} == {USER}
    member.asked.clear()
    await remote.get(NAMESPACES, "", "payments")
    await remote.list(JOBS)
    await remote.joined.get(JOBS, "payments", "train-g1-east")
    assert {user for user, _, _ in member.asked} == {""}


async def test_before_a_namespace_is_bound_it_is_looked_at_and_not_written_to(member, remote):
    assert await remote.get(JOBS, "payments", "train-g1-east") is None
    member.has(NAMESPACE)
    member.has(SHARD)
    assert await remote.get(JOBS, "payments", "train-g1-east") is not None
    with pytest.raises(Forbidden, match="kubectl create rolebinding fleet:dispatcher"):
        await remote.create(JOBS, "payments", {"metadata": {"name": "new"}})


async def test_a_binding_that_was_taken_away_is_no_leave_to_look(member, remote):
    member.has(NAMESPACE, annotations={"fleet.dev/dispatcher": "bound"})
    member.has(SHARD)
    with pytest.raises(Forbidden) as caught:
        await remote.get(JOBS, "payments", "train-g1-east")
    assert str(caught.value).endswith(
        "to let the fleet in again: kubectl create rolebinding fleet:dispatcher "
        "-n payments.MEMBER --clusterrole=fleet:dispatcher.MEMBER --user=fleet:dispatcher:payments"
    )


async def test_other_refusals_with_the_same_code_are_left_as_they_are(member, remote, monkeypatch):
    async def quota(request: Request) -> Response:
        return Member._status(403, 'jobs "a" is forbidden: exceeded quota: tight')

    monkeypatch.setattr(member, "handle", quota)
    with pytest.raises(MemberStatus, match=r"^jobs \"a\" is forbidden: exceeded quota: tight$"):
        await remote.create(JOBS, "payments", {"metadata": {"name": "a"}})


async def test_credentials_that_may_not_impersonate_are_told_apart(member, remote, monkeypatch):
    async def limited(request: Request) -> Response:
        return Member._status(403, f'users "{USER}" is forbidden: User "x" cannot impersonate')

    monkeypatch.setattr(member, "handle", limited)
    with pytest.raises(Forbidden, match=r"kubeconfig of an administrator .*--replace"):
        await remote.get(JOBS, "payments", "a")


async def test_a_namespace_is_made_and_bound_once(member, remote, premises):
    assert await premises.namespace(remote, "east", "payments") is None
    assert member.objects[BINDING] == {
        **dispatcher_binding("payments"),
        "metadata": {**dispatcher_binding("payments")["metadata"], "uid": "uid"},
    }
    assert member.objects[ROLE]["rules"] == list(RULES)
    annotations = member.objects[NAMESPACE]["metadata"]["annotations"]
    assert annotations["fleet.dev/dispatcher"] == "bound"
    assert {user for user, _, _ in member.asked} == {""}
    member.asked.clear()
    assert await premises.namespace(remote, "east", "payments") is None
    assert {method for _, method, _ in member.asked} == {"GET"}


async def test_a_member_that_hears_late_of_a_binding_is_waited_for(member, remote, premises, slept):
    member.hears_after = 4
    assert await premises.namespace(remote, "east", "payments") is None
    assert len(slept) == 4
    member.objects.clear()
    member.hears_after = 1000
    refused = await premises.namespace(remote, "east", "payments")
    assert refused.reason == "NotBound"
    assert "fleet:dispatcher:payments may not act by it (delete jobs: not allowed)" in (
        refused.message
    )


async def test_a_namespace_that_does_not_take_the_fleets_work_is_not_bound(
    member, remote, premises
):
    member.has(NAMESPACE)
    refused = await premises.namespace(remote, "east", "payments")
    assert refused.reason == "NotAccepted"
    assert BINDING not in member.objects


async def test_a_binding_that_was_taken_away_is_not_made_again(member, remote, premises):
    await premises.namespace(remote, "east", "payments")
    del member.objects[BINDING]
    refused = await premises.namespace(remote, "east", "payments")
    assert refused.reason == "NotBound"
    assert "kubectl create rolebinding fleet:dispatcher -n payments.east" in refused.message
    assert "kubectl label namespace payments.east fleet.dev/accept-" in refused.message
    assert BINDING not in member.objects


async def test_a_binding_of_the_members_own_is_taken_as_it_is(member, remote, premises):
    member.has(NAMESPACE, labels={"fleet.dev/accept": "true"})
    member.has(BINDING, labels={"made": "by hand"})
    member.objects[ROLE] = dispatcher_role()
    assert await premises.namespace(remote, "east", "payments") is None
    assert member.objects[BINDING]["metadata"]["labels"] == {"made": "by hand"}
    del member.objects[BINDING]
    refused = await premises.namespace(remote, "east", "payments")
    assert refused.reason == "NotBound"


@pytest.mark.parametrize("kept", [False, True])
async def test_rules_that_are_missing_are_added_unless_the_role_is_kept(
    member, remote, premises, kept
):
    await premises.namespace(remote, "east", "payments")
    own = {"apiGroups": ["x"], "resources": ["y"], "verbs": ["get"]}
    role = member.objects[ROLE]
    role["rules"] = [own, RULES[0]]
    if kept:
        role["metadata"]["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    assert await premises.namespace(remote, "east", "payments") is None
    rules = member.objects[ROLE]["rules"]
    assert rules == ([own, RULES[0]] if kept else [own, *RULES])
