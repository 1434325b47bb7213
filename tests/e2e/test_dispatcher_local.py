"""Who acts in a real member: its API server says so itself, by an admission policy that refuses
and names the user, and by its authorizer."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.testbed.local import LocalCluster

pytestmark = pytest.mark.controlplane

ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
CREATES = [
    {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["jobs"]},
    {
        "apiGroups": ["", "discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods", "configmaps", "secrets", "services", "endpointslices"],
    },
]  # fmt: skip
CALLER = "fleet.dev/caller"


class Fleet:
    """A gateway over one member, a namespace that is the test's, and doors to both."""

    def __init__(self, gateway: Any, member: Any, namespace: str) -> None:
        self.gateway = gateway
        self.door = gateway.door()
        self.member = member
        self.namespace = namespace

    def submit(self, name: str) -> None:
        container = {
            "name": "main", "image": "any", "envFrom": [{"configMapRef": {"name": "settings"}}],
        }  # fmt: skip
        template = {
            "metadata": {"annotations": {"testbed.fleet.dev/run-for": "forever"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        job = {"metadata": {"name": name}, "spec": {"template": template}}
        self.door.post(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", job)

    def submit_pod(self, name: str) -> None:
        notes = {"testbed.fleet.dev/run-for": "forever"}
        spec = {"containers": [{"name": "main", "image": "any"}]}
        pod = {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        self.door.post(f"/api/v1/namespaces/{self.namespace}/pods", pod)

    def placement(self, name: str) -> dict[str, Any]:
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{self.namespace}/placements/job-{name}"
        answer = self.door.request("GET", path)
        return (answer.json.get("status") or {}) if answer.status == 200 else {}

    def status(self) -> list[Any]:
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{self.namespace}/placements"
        return [each.get("status") for each in self.door.get(path)["items"]]

    def until(self, condition: Callable[[], Any], *, within_s: float = 60) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)
        return found

    def runs(self, name: str) -> None:
        self.until(lambda: self.placement(name).get("phase") == "Running")

    def verdict(self, name: str) -> str:
        return " ".join(
            str(each.get("message", "")) for each in self.placement(name).get("clusters") or ()
        )

    def as_dispatcher(self, method: str, path: str, body: Any = None) -> int:
        headers = {"Impersonate-User": f"fleet:dispatcher:{self.namespace}"}
        status: int = self.member.request(method, path, body, headers=headers).status
        return status

    @contextmanager
    def policy(self, name: str, spec: dict[str, Any]) -> Iterator[None]:
        """An admission policy of the member, in effect for the namespace alone."""
        here = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        constraints = {"namespaceSelector": here, **spec.pop("matchConstraints")}
        made = {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, **spec}}
        binding = {"policyName": name, "validationActions": ["Deny"]}
        self.member.post(f"{ADMISSION}ies", made)
        self.member.post(f"{ADMISSION}ybindings", {"metadata": {"name": name}, "spec": binding})
        try:
            yield
        finally:
            self.member.delete(f"{ADMISSION}ybindings/{name}")
            self.member.delete(f"{ADMISSION}ies/{name}")


@pytest.fixture
def fleet_of_one(
    start_gateway: Any, east: LocalCluster, door_to: Callable[[LocalCluster], Any]
) -> Iterator[Fleet]:
    member = door_to(east)
    namespace = f"rights-{time.time_ns():x}"
    with start_gateway(east=east) as gateway:
        fleet = Fleet(gateway, member, namespace)
        fleet.door.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        fleet.door.post(
            f"/api/v1/namespaces/{namespace}/configmaps",
            {"metadata": {"name": "settings"}, "data": {"A": "1"}},
        )
        try:
            yield fleet
        finally:
            jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
            fleet.door.request("DELETE", jobs)
            member.request("DELETE", f"/api/v1/namespaces/{namespace}")
            for path in ("/apis/scheduling.k8s.io/v1/priorityclasses/fleet-hold",):
                member.request("DELETE", path)


def test_shards_are_made_by_the_dispatcher_of_their_namespace_and_by_nobody_else(fleet_of_one):
    fleet = fleet_of_one
    made = {"name": fleet.namespace, "labels": {"fleet.dev/accept": "true"}}
    fleet.member.post("/api/v1/namespaces", {"metadata": made})
    user = f"fleet:dispatcher:{fleet.namespace}"
    # the member's own controllers act as its admin too, and own what they make
    owned = "request.resource.resource == 'pods' && has(object.metadata.ownerReferences)"
    rule = {
        "expression": f"request.userInfo.username == '{user}' || ({owned})",
        "messageExpression": "'not for ' + request.userInfo.username",
    }
    spec = {"matchConstraints": {"resourceRules": CREATES}, "validations": [rule]}
    probe = {"metadata": {"name": "probe"}}
    maps = f"/api/v1/namespaces/{fleet.namespace}/configmaps"
    with fleet.policy("dispatcher-only", spec):
        fleet.until(lambda: fleet.member.request("POST", f"{maps}?dryRun=All", probe).status == 422)
        fleet.submit("train")
        fleet.runs("train")
        jobs = fleet.member.get(f"/apis/batch/v1/namespaces/{fleet.namespace}/jobs")["items"]
        assert [job["metadata"]["name"] for job in jobs] == ["train-g1-east"]
        fleet.submit_pod("alone")
        pod = f"/api/v1/namespaces/{fleet.namespace}/pods/alone"
        fleet.until(lambda: fleet.door.get(pod)["status"].get("phase") == "Running")


def test_a_dispatcher_has_its_namespace_and_no_other(fleet_of_one):
    fleet = fleet_of_one
    fleet.submit("train")
    fleet.runs("train")
    maps = {"metadata": {"name": "probe"}}
    own = f"/api/v1/namespaces/{fleet.namespace}"
    assert fleet.as_dispatcher("POST", f"{own}/configmaps?dryRun=All", maps) == 201
    assert fleet.as_dispatcher("GET", f"{own}/pods") == 200
    for method, path, body in (
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", maps),
        ("GET", "/api/v1/namespaces/kube-system/secrets/any", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/api/v1/nodes", None),
        ("DELETE", own, None),
        ("GET", f"{own}/secrets", None),
        ("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{fleet.namespace}/roles", maps),
    ):
        assert fleet.as_dispatcher(method, path, body) == 403, (method, path)


def test_what_callers_do_with_parts_is_done_by_the_dispatcher_and_names_them(fleet_of_one, kubectl):
    fleet = fleet_of_one
    fleet.submit("train")
    fleet.runs("train")
    [pod] = fleet.door.get(f"/api/v1/namespaces/{fleet.namespace}/pods")["items"]
    name = pod["metadata"]["name"]
    run = kubectl()
    fleet.submit_pod("alone")
    alone = f"/api/v1/namespaces/{fleet.namespace}/pods/alone"
    fleet.until(lambda: fleet.door.get(alone)["status"].get("phase") == "Running")
    code, out, err = run(fleet.gateway.kubeconfig, "-n", fleet.namespace, "logs", name)
    assert (code, err) == (0, "") and out
    extra = "request.userInfo.extra"
    caller = f"has({extra}) && '{CALLER}' in {extra} ? {extra}['{CALLER}'][0] : 'nobody'"
    rule = {
        "expression": "false",
        "messageExpression": f"'as ' + request.userInfo.username + ' for ' + ({caller})",
    }
    connect = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
        "resources": ["pods/exec"],
    }  # fmt: skip
    update = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"],
        "scope": "*",
    }  # fmt: skip
    told = f"as fleet:dispatcher:{fleet.namespace} for fleet:admin"
    numbers = itertools.count()

    def said(what: str, namespace: str, name: str) -> str:
        label = ("label", "pod", name, "--overwrite", f"number={next(numbers)}")
        command = label if what == "label" else ("exec", name, "--", "true")
        return str(run(fleet.gateway.kubeconfig, "-n", namespace, *command).err)

    for what, rules in (("exec", connect), ("label", update)):
        spec = {"matchConstraints": {"resourceRules": [rules]}, "validations": [rule]}
        with fleet.policy(f"who-{what}", spec):
            fleet.until(lambda what=what: "as fleet:" in said(what, fleet.namespace, name))
            assert told in said(what, fleet.namespace, name)
            assert told in said(what, fleet.namespace, "alone") or what == "label"
            own = said(what, f"{fleet.namespace}.east", name.removesuffix(".east"))
            assert "as fleet:admin for nobody" in own


def test_a_binding_that_was_taken_away_is_made_again_by_people_alone(fleet_of_one, kubectl):
    fleet = fleet_of_one
    fleet.submit("first")
    fleet.runs("first")
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{fleet.namespace}/rolebindings"
    binding = f"{rbac}/fleet:dispatcher"
    fleet.member.delete(binding)
    pods = f"/api/v1/namespaces/{fleet.namespace}/pods"
    fleet.until(lambda: fleet.as_dispatcher("GET", pods) == 403)
    fleet.submit("second")
    fleet.until(lambda: "to let the fleet in again" in fleet.verdict("second"))
    assert fleet.member.request("GET", binding).status == 404
    command = fleet.verdict("second").partition("again: kubectl ")[2].partition(";")[0].split()
    code, _, err = kubectl()(fleet.gateway.kubeconfig, *command)
    assert code == 0, err
    fleet.runs("first")
    fleet.submit("third")
    fleet.runs("third")
    assert fleet.member.request("GET", binding).status == 200


def test_a_role_of_an_earlier_release_gets_what_it_lacks(fleet_of_one):
    fleet = fleet_of_one
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fleet:dispatcher"
    whole = fleet.member.get(path)["rules"]
    fleet.member.patch(path, {"rules": whole[-1:]})
    fleet.submit("train")
    fleet.runs("train")
    present = fleet.member.get(path)["rules"]
    assert sorted(map(str, present)) == sorted(map(str, whole))
