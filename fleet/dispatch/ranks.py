"""Global indexes: a member numbers a shard's pods as the fleet does.

A Job numbers its pods from 0 in every member. Where the member has MutatingAdmissionPolicy, one
policy adds the shard's offset on the pod's way in: to an annotation that the environment refers to,
and to the host name. The Job controller's own annotation stays, it counts by it. Which members do
it, by this policy or by themselves, is found out by asking for such a pod (dry run): a policy takes
a moment until it works, and a shard that came before it would have wrong ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.marks import (
    COMPLETION_INDEX_ANNOTATION,
    GLOBAL_INDEX_ANNOTATION,
    HOST_NAME_ANNOTATION,
    INDEX_OFFSET_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from fleet.view.naming import SHARD_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = "mutatingadmissionpolicies"
BINDINGS: Final = "mutatingadmissionpolicybindings"
VERSIONS: Final = ("v1", "v1beta1")
NAME: Final = "fleet-global-index"

_ANNOTATIONS = "object.metadata.annotations"
_INDEX = (
    f"string(int({_ANNOTATIONS}['{INDEX_OFFSET_ANNOTATION}']) + "
    f"int({_ANNOTATIONS}['{COMPLETION_INDEX_ANNOTATION}']))"
)


def policy(version: str) -> Object:
    """The policy, as `version` of the API has it."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "objectSelector": {
                    "matchExpressions": [{"key": SHARD_LABEL, "operator": "Exists"}]
                },
            },
            "matchConditions": [
                {
                    "name": "indexed",
                    "expression": f"has({_ANNOTATIONS}) && "
                    f"'{INDEX_OFFSET_ANNOTATION}' in {_ANNOTATIONS} && "
                    f"'{COMPLETION_INDEX_ANNOTATION}' in {_ANNOTATIONS}",
                }
            ],
            "variables": [{"name": "index", "expression": _INDEX}],
            "mutations": [
                _apply(
                    "Object{metadata: Object.metadata{annotations: "
                    f"{{'{GLOBAL_INDEX_ANNOTATION}': variables.index}}}}}}"
                ),
                _apply(
                    f"'{HOST_NAME_ANNOTATION}' in {_ANNOTATIONS} ? "
                    "Object{spec: Object.spec{hostname: "
                    f"{_ANNOTATIONS}['{HOST_NAME_ANNOTATION}'] + '-' + variables.index}}}} "
                    ": Object{}"
                ),
            ],
        },
    }


def binding(version: str) -> Object:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {"policyName": NAME},
    }


def probe() -> Object:
    """A pod to ask with: a member that numbers globally gives it index 3."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "fleet-probe-",
            "labels": {SHARD_LABEL: "probe"},
            "annotations": {INDEX_OFFSET_ANNOTATION: "2", COMPLETION_INDEX_ANNOTATION: "1"},
        },
        "spec": {
            "containers": [
                {
                    "name": "probe",
                    "image": "probe",
                    # As a namespace may ask for that enforces the standard `restricted`, or quotas.
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "1Mi"},
                        "limits": {"cpu": "1m", "memory": "1Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "runAsNonRoot": True,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
            "restartPolicy": "Never",
        },
    }


def numbers_globally(pod: Mapping[str, Any]) -> bool:
    """Whether the answer to `probe` has the global index."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return annotations.get(GLOBAL_INDEX_ANNOTATION) == "3"


def _apply(expression: str) -> Object:
    return {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }
