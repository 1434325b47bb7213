"""What Go writes for a field that is absent, zero or empty; each case is one rule of Go's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = Callable[[str], Any]
    Decoded = Callable[..., dict[str, Any]]


def test_a_pointer_to_zero_is_written(message: Messages, decoded: Decoded) -> None:
    deployment = message("apps.v1.Deployment")()
    deployment.spec.replicas = 0
    deployment.spec.template.spec.automountServiceAccountToken = False
    spec = decoded(deployment, "apps/v1", "Deployment")["spec"]
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False


def test_a_pointer_that_was_not_sent_is_left_out(message: Messages, decoded: Decoded) -> None:
    spec = decoded(message("apps.v1.Deployment")(), "apps/v1", "Deployment")["spec"]
    assert "replicas" not in spec
    # Without omitempty it is null instead.
    assert spec["selector"] is None


def test_a_zero_under_omitempty_is_left_out_though_go_sends_it(
    message: Messages, decoded: Decoded
) -> None:
    pod = message("core.v1.Pod")()
    pod.spec.hostNetwork = False
    pod.spec.nodeName = ""
    pod.metadata.generation = 0
    written = decoded(pod, "v1", "Pod")
    assert written == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_a_zero_without_omitempty_is_written_though_it_was_not_sent(
    message: Messages, decoded: Decoded
) -> None:
    pod = message("core.v1.Pod")()
    pod.status.containerStatuses.add()
    (status,) = decoded(pod, "v1", "Pod")["status"]["containerStatuses"]
    assert status == {
        "name": "",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def test_a_struct_is_written_even_under_omitempty(message: Messages, decoded: Decoded) -> None:
    written = decoded(b"", "apps/v1", "Deployment")
    assert written["metadata"] == {}
    assert written["status"] == {}
    assert written["spec"]["strategy"] == {}
    assert written == decoded(message("apps.v1.Deployment")(), "apps/v1", "Deployment")


def test_a_struct_behind_a_pointer_keeps_nil_and_empty_apart(
    message: Messages, decoded: Decoded
) -> None:
    policy = message("networking.v1.NetworkPolicy")()
    policy.spec.ingress.add()
    getattr(policy.spec.ingress[0], "from").add().podSelector.SetInParent()
    spec = decoded(policy, "networking.k8s.io/v1", "NetworkPolicy")["spec"]
    # podSelector of the spec is no pointer, the peer's is one and was sent, empty.
    assert spec == {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}


@pytest.mark.parametrize(
    ("kind", "api_version", "field"),
    [("Role", "rbac.authorization.k8s.io/v1", "rules"), ("PodList", "v1", "items")],
)
def test_an_empty_slice_without_omitempty_is_null(
    decoded: Decoded, kind: str, api_version: str, field: str
) -> None:
    # Protobuf cannot tell an empty slice from none, so neither can Go after decoding.
    assert decoded(b"", api_version, kind)[field] is None


def test_an_empty_map_is_left_out_under_omitempty(message: Messages, decoded: Decoded) -> None:
    assert decoded(message("core.v1.ConfigMap")(), "v1", "ConfigMap") == {"metadata": {}}
    quota = decoded(b"", "v1", "ResourceQuota")
    assert quota == {"metadata": {}, "spec": {}, "status": {}}


def test_inlined_structs_are_merged_into_their_parent(message: Messages, decoded: Decoded) -> None:
    pod = message("core.v1.Pod")()
    volume = pod.spec.volumes.add(name="v")
    volume.volumeSource.configMap.localObjectReference.name = "settings"
    volume.volumeSource.configMap.optional = False
    container = pod.spec.containers.add(name="c")
    container.livenessProbe.handler.httpGet.path = "/"
    container.livenessProbe.periodSeconds = 7
    ephemeral = pod.spec.ephemeralContainers.add(targetContainerName="c")
    ephemeral.ephemeralContainerCommon.name = "debugger"
    spec = decoded(pod, "v1", "Pod")["spec"]
    assert spec["volumes"] == [{"name": "v", "configMap": {"name": "settings", "optional": False}}]
    assert spec["containers"] == [
        {
            "name": "c",
            "resources": {},
            "livenessProbe": {"httpGet": {"path": "/", "port": 0}, "periodSeconds": 7},
        }
    ]
    assert spec["ephemeralContainers"] == [
        {"name": "debugger", "resources": {}, "targetContainerName": "c"}
    ]


def test_an_inlined_struct_that_was_not_sent_still_has_its_zeros(
    message: Messages, decoded: Decoded
) -> None:
    policy = message("admissionregistration.v1.ValidatingAdmissionPolicy")()
    policy.spec.matchConstraints.resourceRules.add(resourceNames=["a"])
    (rule,) = decoded(policy, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")[
        "spec"
    ]["matchConstraints"]["resourceRules"]
    assert rule == {"resourceNames": ["a"]}


def test_secret_data_is_base64_and_string_data_is_text(message: Messages, decoded: Decoded) -> None:
    secret = message("core.v1.Secret")(
        data={"key": b"\x00\xff", "empty": b""}, stringData={"text": "Ünï"}, immutable=False
    )
    written = decoded(secret, "v1", "Secret")
    assert written["data"] == {"empty": "", "key": "AP8="}
    assert written["stringData"] == {"text": "Ünï"}
    assert written["immutable"] is False
    assert "type" not in written


def test_bytes_keep_nil_and_empty_apart(message: Messages, decoded: Decoded) -> None:
    request = message("certificates.v1.CertificateSigningRequest")()
    kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
    assert decoded(request, *kind)["spec"]["request"] is None
    request.spec.request = b""
    assert decoded(request, *kind)["spec"]["request"] == ""
    request.spec.request = b"pem"
    assert decoded(request, *kind)["spec"]["request"] == "cGVt"


def test_map_keys_come_sorted(message: Messages, decoded: Decoded) -> None:
    keys = [f"k{index}" for index in range(20)]
    config = message("core.v1.ConfigMap")(data=dict.fromkeys(reversed(keys), "v"))
    assert list(decoded(config, "v1", "ConfigMap")["data"]) == sorted(keys)


def test_int64_stays_a_number(message: Messages, decoded: Decoded) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.generation = 2**63 - 1
    pod.spec.terminationGracePeriodSeconds = -(2**63)
    written = decoded(pod, "v1", "Pod")
    assert written["metadata"]["generation"] == 2**63 - 1
    assert written["spec"]["terminationGracePeriodSeconds"] == -(2**63)


def test_list_types_are_lists(message: Messages, decoded: Decoded) -> None:
    review = message("authorization.v1.SubjectAccessReview")()
    review.spec.extra["scopes"].items.extend(["a", "b"])
    review.spec.extra["none"].SetInParent()
    spec = decoded(review, "authorization.k8s.io/v1", "SubjectAccessReview")["spec"]
    assert spec["extra"] == {"none": [], "scopes": ["a", "b"]}


def test_a_list_type_keeps_nil_and_empty_apart(message: Messages, decoded: Decoded) -> None:
    resources = message("k8s.io.apimachinery.pkg.apis.meta.v1.APIResourceList")()
    resources.resources.add(name="nil")
    resources.resources.add(name="empty").verbs.SetInParent()
    resources.resources.add(name="two").verbs.items.extend(["get", "list"])
    written = decoded(resources, "v1", "APIResourceList")["resources"]
    assert [entry["verbs"] for entry in written] == [None, [], ["get", "list"]]


def test_creation_timestamp_is_left_out_when_zero(message: Messages, decoded: Decoded) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.creationTimestamp.SetInParent()
    assert decoded(pod, "v1", "Pod")["metadata"] == {}


def test_other_times_without_a_pointer_are_null_when_zero(
    message: Messages, decoded: Decoded
) -> None:
    pod = message("core.v1.Pod")()
    pod.status.conditions.add(type="Ready", status="True").lastProbeTime.SetInParent()
    assert decoded(pod, "v1", "Pod")["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    ]


def test_a_time_behind_a_pointer_is_null_when_sent_empty(
    message: Messages, decoded: Decoded
) -> None:
    pod = message("core.v1.Pod")()
    assert "deletionTimestamp" not in decoded(pod, "v1", "Pod")["metadata"]
    pod.metadata.deletionTimestamp.SetInParent()
    assert decoded(pod, "v1", "Pod")["metadata"] == {"deletionTimestamp": None}


def test_fields_are_written_in_the_order_of_the_go_struct(
    message: Messages, decoded: Decoded
) -> None:
    container = message("core.v1.Pod")()
    container.spec.containers.add(terminationMessagePath="/t", image="i", name="n", command=["c"])
    (written,) = decoded(container, "v1", "Pod")["spec"]["containers"]
    assert list(written) == ["name", "image", "command", "resources", "terminationMessagePath"]
