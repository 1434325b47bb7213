"""Objects as we store them against objects as a real kube-apiserver stores them.

Each body is posted to both; what comes back must be equal field by field, but for what only a
running control plane can know (allocated addresses and ports, the revision, managed fields).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import ApiError
from fleet.kube.defaults import create, update
from fleet.kube.patch import JSON_PATCH, MERGE_PATCH, apply_patch
from fleet.kube.schema import decode, schema_for
from fleet.kube.schema.documents import structural_schema
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]

# These change pods on the way in; they are admission, not defaults.
ADMISSION = ",".join(
    (
        "ServiceAccount",
        "Priority",
        "DefaultTolerationSeconds",
        "TaintNodesByCondition",
        "StorageObjectInUseProtection",
        "LimitRanger",
        "ResourceQuota",
    )
)


class Oracle:
    """A kube-apiserver, spoken to in plain JSON."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, port = cluster.server.removeprefix("https://").split(":")
        self._connection = http.client.HTTPSConnection(
            host, int(port), context=cluster.ssl_context(), timeout=60
        )

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, Object]:
        self._connection.request(method, path, body=body, headers={"Content-Type": content_type})
        answer = self._connection.getresponse()
        text = answer.read()
        if "json" not in answer.headers.get("Content-Type", ""):
            return answer.status, {"message": text.decode()}
        return answer.status, json.loads(text)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    cluster = LocalCluster(
        "defaults-oracle",
        components=API_ONLY,
        extra_args={"kube-apiserver": [f"--disable-admission-plugins={ADMISSION}"]},
    )
    asyncio.run(cluster.start())
    client = Oracle(cluster)
    try:
        yield client
    finally:
        client.close()
        asyncio.run(cluster.stop())


def path_of(api_version: str, plural: str, namespace: str) -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def template(labels: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "example.com/app:1.2"}
    metadata = {"labels": labels} if labels is not None else {}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


APP = {"app": "web"}
SELECTOR = {"matchLabels": APP}

RICH_POD_SPEC: Object = {
    "restartPolicy": "Never",
    "serviceAccountName": "robot",
    "hostNetwork": False,
    "automountServiceAccountToken": False,
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    ],
    "nodeSelector": {"disk": "ssd"},
    "imagePullSecrets": [{"name": "registry"}],
    "securityContext": {"runAsUser": 0, "fsGroup": 3, "sysctls": []},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 3,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": SELECTOR,
                    },
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
        }
    ],
    "initContainers": [
        {"name": "sidecar", "image": "busybox", "restartPolicy": "Always"},
        {"name": "init", "image": "busybox@sha256:" + "a" * 64, "command": ["true"], "args": []},
    ],
    "containers": [
        {
            "name": "main",
            "image": "Registry.example.com:5000/team/app",
            "command": ["sh", "-c"],
            "ports": [
                {"containerPort": 80},
                {"containerPort": 53, "protocol": "UDP", "name": "dns"},
            ],
            "env": [
                {"name": "A", "value": ""},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {
                    "name": "CPU",
                    "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}},
                },
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "cm"}}],
            "resources": {
                "limits": {"cpu": 2, "memory": "1024Mi", "nvidia.com/gpu": "4"},
                "requests": {"cpu": "0.5", "memory": "0.5G", "nvidia.com/gpu": 4},
            },
            "livenessProbe": {"httpGet": {"port": 8080}, "initialDelaySeconds": 0},
            "readinessProbe": {"grpc": {"port": 9000}, "timeoutSeconds": 7},
            "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
            "lifecycle": {"preStop": {"httpGet": {"port": "http", "httpHeaders": []}}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/c"},
                {"name": "scratch", "mountPath": "/s", "readOnly": True},
            ],
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
        },
        {"name": "bad-image", "image": "UPPER/case"},
        {"name": "tagged", "image": "localhost:5000/x:latest", "imagePullPolicy": "Never"},
    ],
    "volumes": [
        {"name": "config", "configMap": {"name": "cm"}},
        {"name": "scratch"},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}},
        {"name": "secret", "secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}]}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "pvc"}},
        {
            "name": "down",
            "downwardAPI": {
                "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
            },
        },
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token"}},
                    {"configMap": {"name": "cm"}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]
                        }
                    },
                ]
            },
        },
        {
            "name": "own",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1.5Gi"}},
                    }
                }
            },
        },
        {
            "name": "iscsi",
            "iscsi": {"targetPortal": "1.2.3.4:1", "iqn": "iqn.2000-01.c:x", "lun": 0},
        },
        {"name": "nfs", "nfs": {"server": "s", "path": "/p"}},
    ],
}

QUANTITIES = [
    "1", "+5", "005", "1.500", "1.5Gi", "1024Mi", "1500Mi", "0.5", "1e3", "1E3", "1e2", "0Mi",
    "100m", "1000m", "1000", "10000", "0.1Ki", "0.00001", "12e6", "9Ei", "123456.789", "1.", ".5",
    "0.0000000001", "7Ki", "8Ki", "3.0001Mi", "5e-1", "0",
]  # fmt: skip

CORPUS: dict[str, tuple[str, str, str, Object]] = {
    "job": ("batch/v1", "Job", "jobs", {"spec": {"template": template(restartPolicy="Never")}}),
    "job-labels": (
        "batch/v1", "Job", "jobs",
        {"spec": {"template": template({"team": "a"}, restartPolicy="OnFailure")}},
    ),
    "job-own-labels": (
        "batch/v1", "Job", "jobs",
        {
            "metadata": {"labels": {"own": "yes"}, "annotations": {}},
            "spec": {"template": template({"team": "a"}, restartPolicy="Never")},
        },
    ),
    "job-indexed": (
        "batch/v1", "Job", "jobs",
        {
            "spec": {
                "completionMode": "Indexed", "completions": 6, "parallelism": 6,
                "backoffLimitPerIndex": 1, "maxFailedIndexes": 2, "suspend": True,
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
                "template": template(restartPolicy="Never"),
            }
        },
    ),
    "job-parallel": (
        "batch/v1", "Job", "jobs",
        {"spec": {"parallelism": 4, "template": template(restartPolicy="Never")}},
    ),
    "job-completions": (
        "batch/v1", "Job", "jobs",
        {"spec": {"completions": 4, "template": template(restartPolicy="Never")}},
    ),
    "job-manual-selector": (
        "batch/v1", "Job", "jobs",
        {
            "spec": {
                "manualSelector": True, "selector": SELECTOR,
                "template": template(APP, restartPolicy="Never"),
            }
        },
    ),
    "job-failure-policy": (
        "batch/v1", "Job", "jobs",
        {
            "spec": {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                    ]
                },
                "template": template(restartPolicy="Never"),
            }
        },
    ),
    "job-rich": ("batch/v1", "Job", "jobs", {"spec": {"template": {"spec": RICH_POD_SPEC}}}),
    "job-junk-status": (
        "batch/v1", "Job", "jobs",
        {
            "metadata": {
                "uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z",
                "selfLink": "/x", "finalizers": ["example.com/hold"],
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
                ],
            },
            "spec": {"template": template(restartPolicy="Never")},
            "status": {"active": 3, "succeeded": 1},
        },
    ),
    "cronjob": (
        "batch/v1", "CronJob", "cronjobs",
        {
            "spec": {
                "schedule": "*/5 * * * *",
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
            }
        },
    ),
    "deployment": (
        "apps/v1", "Deployment", "deployments",
        {"spec": {"selector": SELECTOR, "template": template(APP)}},
    ),
    "deployment-recreate": (
        "apps/v1", "Deployment", "deployments",
        {
            "spec": {
                "replicas": 0, "paused": False, "strategy": {"type": "Recreate"},
                "selector": SELECTOR, "template": template(APP, hostNetwork=True),
            }
        },
    ),
    "deployment-rolling": (
        "apps/v1", "Deployment", "deployments",
        {
            "spec": {
                "strategy": {"rollingUpdate": {"maxSurge": 1}}, "minReadySeconds": 5,
                "selector": SELECTOR, "template": template(APP),
            }
        },
    ),
    "replicaset": (
        "apps/v1", "ReplicaSet", "replicasets",
        {"spec": {"selector": SELECTOR, "template": template(APP)}},
    ),
    "statefulset": (
        "apps/v1", "StatefulSet", "statefulsets",
        {
            "spec": {
                "selector": SELECTOR, "serviceName": "web", "template": template(APP),
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ],
            }
        },
    ),
    "statefulset-on-delete": (
        "apps/v1", "StatefulSet", "statefulsets",
        {
            "spec": {
                "selector": SELECTOR, "template": template(APP), "ordinals": {"start": 4},
                "updateStrategy": {"type": "OnDelete"},
            }
        },
    ),
    "statefulset-rolling": (
        "apps/v1", "StatefulSet", "statefulsets",
        {
            "spec": {
                "selector": SELECTOR, "template": template(APP),
                "updateStrategy": {"type": "RollingUpdate"},
            }
        },
    ),
    "daemonset": (
        "apps/v1", "DaemonSet", "daemonsets",
        {"spec": {"selector": SELECTOR, "template": template(APP)}},
    ),
    "daemonset-on-delete": (
        "apps/v1", "DaemonSet", "daemonsets",
        {
            "spec": {
                "updateStrategy": {"type": "OnDelete"},
                "selector": SELECTOR, "template": template(APP),
            }
        },
    ),
    "replicationcontroller": (
        "v1", "ReplicationController", "replicationcontrollers",
        {"spec": {"template": template(APP)}},
    ),
    "podtemplate": ("v1", "PodTemplate", "podtemplates", {"template": template(APP)}),
    "pod": ("v1", "Pod", "pods", template()),
    "pod-rich": ("v1", "Pod", "pods", {"spec": RICH_POD_SPEC}),
    "pod-limits-only": (
        "v1", "Pod", "pods",
        {
            "spec": {
                "hostNetwork": True,
                "containers": [
                    {
                        "name": "a", "image": "a",
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                        "ports": [{"containerPort": 80}],
                    }
                ],
            }
        },
    ),
    "pod-guaranteed": (
        "v1", "Pod", "pods",
        {
            "spec": {
                "containers": [
                    {
                        "name": "a", "image": "a",
                        "resources": {
                            "limits": {"cpu": "1", "memory": "1Gi"},
                            "requests": {"cpu": "1000m", "memory": "1024Mi"},
                        },
                    }
                ]
            }
        },
    ),
    "pod-level-resources": (
        "v1", "Pod", "pods",
        {
            "spec": {
                "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
                "initContainers": [
                    {
                        "name": "i", "image": "a",
                        "resources": {"requests": {"cpu": "3"}},
                    }
                ],
                "containers": [
                    {"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m"}}}
                ],
            }
        },
    ),
    "pod-gated": ("v1", "Pod", "pods", template(schedulingGates=[{"name": "example.com/hold"}])),
    "pod-quantities": (
        "v1", "Pod", "pods",
        {
            "spec": {
                "containers": [
                    {
                        "name": "a", "image": "a:v1",
                        "resources": {
                            "limits": {f"example.com/r{i}": f"{i}" for i in range(3)},
                            "requests": {f"example.com/r{i}": f"{i}.0" for i in range(3)},
                        },
                    }
                ],
                "volumes": [
                    {"name": f"v{i}", "emptyDir": {"sizeLimit": text}}
                    for i, text in enumerate(QUANTITIES)
                ],
            }
        },
    ),
    "service": (
        "v1", "Service", "services",
        {"spec": {"selector": APP, "ports": [{"port": 80}]}},
    ),
    "service-headless": (
        "v1", "Service", "services",
        {"spec": {"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http", "name": "a"}]}},
    ),
    "service-nodeport": (
        "v1", "Service", "services",
        {"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "UDP"}]}},
    ),
    "service-balancer": (
        "v1", "Service", "services",
        {"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]}},
    ),
    "service-external-name": (
        "v1", "Service", "services",
        {"spec": {"type": "ExternalName", "externalName": "example.com"}},
    ),
    "configmap": (
        "v1", "ConfigMap", "configmaps",
        {"data": {"a": "1", "b": ""}, "binaryData": {"c": "AAEC"}},
    ),
    "configmap-empty": ("v1", "ConfigMap", "configmaps", {"data": {}}),
    "secret": (
        "v1", "Secret", "secrets",
        {"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "over", "c": "é"}},
    ),
    "secret-typed": (
        "v1", "Secret", "secrets",
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}, "immutable": True},
    ),
    "serviceaccount": (
        "v1", "ServiceAccount", "serviceaccounts",
        {"secrets": [{"name": "s", "namespace": "other"}], "imagePullSecrets": [{"name": "r"}]},
    ),
    "claim": (
        "v1", "PersistentVolumeClaim", "persistentvolumeclaims",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                "resources": {"requests": {"storage": "1500Mi"}},
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "other"},
            }
        },
    ),
    "endpoints": (
        "v1", "Endpoints", "endpoints",
        {"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]},
    ),
    "event": (
        "v1", "Event", "events",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Why", "message": "m", "type": "Normal", "count": 1,
            "firstTimestamp": "2024-01-01T00:00:00+02:00",
        },
    ),
    "event-new": (
        "events.k8s.io/v1", "Event", "events",
        {
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "eventTime": "2024-01-01T00:00:00.000001Z", "reason": "Why", "type": "Normal",
            "action": "Act", "reportingController": "c", "reportingInstance": "i",
        },
    ),
    "lease": (
        "coordination.k8s.io/v1", "Lease", "leases",
        {
            "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15,
                "renewTime": "2024-01-01T01:00:00.100000+01:00",
            }
        },
    ),
    "limitrange": (
        "v1", "LimitRange", "limitranges",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "0.1"}}]}},
    ),
    "quota": (
        "v1", "ResourceQuota", "resourcequotas",
        {"spec": {"hard": {"pods": "10", "requests.cpu": "0.5"}}},
    ),
    "role": (
        "rbac.authorization.k8s.io/v1", "Role", "roles",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    "role-empty": ("rbac.authorization.k8s.io/v1", "Role", "roles", {"rules": []}),
    "rolebinding": (
        "rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "default"},
            ],
        },
    ),
    "hpa": (
        "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }
        },
    ),
    "hpa-behavior": (
        "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 3, "minReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "memory",
                            "target": {"type": "AverageValue", "averageValue": "1024Mi"},
                        },
                    }
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3}},
            }
        },
    ),
    "hpa-v1": (
        "autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }
        },
    ),
    "pdb": (
        "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    ),
    "networkpolicy": (
        "networking.k8s.io/v1", "NetworkPolicy", "networkpolicies",
        {
            "spec": {
                "podSelector": {},
                "ingress": [{"from": [{"podSelector": SELECTOR}], "ports": [{"port": 80}]}],
                "egress": [{}],
            }
        },
    ),
    "ingress": (
        "networking.k8s.io/v1", "Ingress", "ingresses",
        {
            "spec": {
                "rules": [
                    {
                        "host": "example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/", "pathType": "Prefix",
                                    "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            }
        },
    ),
    "endpointslice": (
        "discovery.k8s.io/v1", "EndpointSlice", "endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["1.2.3.4"], "conditions": {"ready": True}}],
            "ports": [{"port": 80}],
        },
    ),
    "namespace": ("v1", "Namespace", "namespaces", {}),
    "namespace-labels": (
        "v1", "Namespace", "namespaces",
        {"metadata": {"labels": {"a": "b"}}, "spec": {"finalizers": ["example.com/x"]}},
    ),
    "node": (
        "v1", "Node", "nodes",
        {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "4", "memory": "4Gi"}}},
    ),
    "volume": (
        "v1", "PersistentVolume", "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/tmp"},
            }
        },
    ),
    "priorityclass": (
        "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {"value": 100},
    ),
    "storageclass": (
        "storage.k8s.io/v1", "StorageClass", "storageclasses", {"provisioner": "example.com/p"},
    ),
    "clusterrole": (
        "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles",
        {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    ),
    "ingressclass": (
        "networking.k8s.io/v1", "IngressClass", "ingressclasses",
        {
            "spec": {
                "controller": "example.com/c",
                "parameters": {"kind": "K", "name": "n", "scope": "Cluster"},
            }
        },
    ),
    "webhooks": (
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        {
            "webhooks": [
                {
                    "name": "a.example.com", "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": "s", "namespace": "default"}},
                    "rules": [
                        {
                            "apiGroups": ["x.example.com"], "apiVersions": ["v1"],
                            "operations": ["CREATE"], "resources": ["things"],
                        }
                    ],
                }
            ]
        },
    ),
    "crd": (
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions",
        {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1", "served": True, "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": {"type": "object"}},
                            }
                        },
                    }
                ],
            },
        },
    ),
}  # fmt: skip

CLUSTER_SCOPED = {
    "Namespace", "Node", "PersistentVolume", "PriorityClass", "StorageClass", "ClusterRole",
    "IngressClass", "ValidatingWebhookConfiguration", "CustomResourceDefinition",
}  # fmt: skip


def without_allocations(obj: Object) -> Object:
    """The object without what only a running control plane hands out."""
    obj["metadata"].pop("resourceVersion", None)
    obj["metadata"].pop("managedFields", None)
    if obj["kind"] == "Service":
        spec = obj["spec"]
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
            spec.pop(name, None)
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    return obj


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Each place where the two differ, in words."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in sorted(ours.keys() | theirs.keys())
            for line in differences(ours.get(key, ...), theirs.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]")]
    same = type(ours) is type(theirs) and ours == theirs
    return [] if same else [f"{path}: ours {ours!r}, theirs {theirs!r}"]


@pytest.mark.parametrize("name", CORPUS)
def test_an_object_is_stored_as_a_real_apiserver_stores_it(oracle: Oracle, name: str) -> None:
    api_version, kind, plural, parts = CORPUS[name]
    namespace = "" if kind in CLUSTER_SCOPED else "default"
    metadata = {"name": f"x-{name}", **parts.get("metadata", {})}
    body = json.dumps(
        {"apiVersion": api_version, "kind": kind, **parts, "metadata": metadata}
    ).encode()

    status, stored = oracle.call("POST", path_of(api_version, plural, namespace), body)
    assert status == 201, stored["message"]

    group, _, version = api_version.rpartition("/")
    schema = schema_for(group, version, kind)
    ours = create(
        group,
        version,
        kind,
        decode(body, schema=schema, kind=(group, version, kind)).object,
        namespace=namespace,
        now=datetime.fromisoformat(stored["metadata"]["creationTimestamp"]),
        uid=stored["metadata"]["uid"],
        random=random.Random(0),
    )
    assert differences(without_allocations(ours), without_allocations(stored)) == []


# A name of CORPUS, the subresource, a merge patch; the whole object is compared afterwards.
CHANGES: dict[str, tuple[str, str, Object]] = {
    "job-labels": ("job", "", {"metadata": {"labels": {"a": "b"}}}),
    "job-parallelism": ("job", "", {"spec": {"parallelism": 3}}),
    "job-no-change": ("job", "", {"spec": {"parallelism": 1}}),
    "job-suspend": ("job", "", {"spec": {"suspend": True}}),
    "job-main-ignores-status": ("job", "", {"status": {"active": 9}, "spec": {"backoffLimit": 1}}),
    "job-status": ("job", "status", {"status": {"active": 2}, "spec": {"parallelism": 7}}),
    "job-status-labels": ("job", "status", {"metadata": {"labels": {"x": "y"}}}),
    "job-suspended-template": (
        "job-indexed", "",
        {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
    ),
    "job-indexed-scaled": ("job-indexed", "", {"spec": {"completions": 4, "parallelism": 4}}),
    "deployment-scale": ("deployment", "", {"spec": {"replicas": 4}}),
    "deployment-annotation": ("deployment", "", {"metadata": {"annotations": {"a": "b"}}}),
    "deployment-labels": ("deployment", "", {"metadata": {"labels": {"a": "b"}}}),
    "deployment-status": (
        "deployment", "status",
        {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"replicas": 9},
            "status": {"replicas": 1, "observedGeneration": 1},
        },
    ),
    "statefulset-scale": ("statefulset", "", {"spec": {"replicas": 4}}),
    "daemonset-template": (
        "daemonset", "",
        {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
    ),
    "daemonset-spec": ("daemonset", "", {"spec": {"minReadySeconds": 4}}),
    "cronjob-schedule": ("cronjob", "", {"spec": {"schedule": "1 * * * *"}}),
    "pod-image": (
        "pod", "",
        {"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}},
    ),
    "pod-labels": ("pod", "", {"metadata": {"labels": {"a": "b"}}}),
    "pod-status": (
        "pod", "status",
        {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "podIP": "1.2.3.4"},
        },
    ),
    "pod-gate-removed": ("pod-gated", "", {"spec": {"schedulingGates": []}}),
    "service-ports": ("service", "", {"spec": {"ports": [{"port": 81}]}}),
    "configmap": ("configmap", "", {"data": {"a": "2"}, "immutable": True}),
    "secret-text": ("secret", "", {"stringData": {"a": "new"}}),
    "namespace-labels": (
        "namespace-labels", "",
        {"metadata": {"labels": {"a": None}}, "spec": {"finalizers": []}},
    ),
    "lease": ("lease", "", {"spec": {"holderIdentity": "you", "preferredHolder": "x"}}),
    "role": ("role", "", {"rules": []}),
    "pdb": ("pdb", "", {"spec": {"minAvailable": 2}}),
    "pdb-status": ("pdb", "status", {"status": {"currentHealthy": 2}}),
    "hpa": ("hpa", "", {"spec": {"maxReplicas": 9}}),
    "networkpolicy": ("networkpolicy", "", {"spec": {"egress": []}}),
    "ingress": ("ingress", "", {"spec": {"ingressClassName": "x"}}),
    "ingress-status": (
        "ingress", "status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
    ),
    "owned-by-server": (
        "configmap", "",
        {"metadata": {"generation": 9, "creationTimestamp": None, "selfLink": "/x"}},
    ),
    "owner-twice": (
        "configmap", "",
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
                ]
            }
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_object_is_stored_as_a_real_apiserver_stores_it(
    oracle: Oracle, name: str
) -> None:
    base, subresource, patch = CHANGES[name]
    api_version, kind, plural, parts = CORPUS[base]
    group, _, version = api_version.rpartition("/")
    namespace = "" if kind in CLUSTER_SCOPED else "default"
    path = path_of(api_version, plural, namespace)
    metadata = {**parts.get("metadata", {}), "name": f"y-{name}"}
    body = json.dumps({**parts, "metadata": metadata}).encode()
    status, current = oracle.call("POST", path, body)
    assert status == 201, current["message"]

    change = json.dumps(patch).encode()
    where = f"{path}/y-{name}{'/' if subresource else ''}{subresource}"
    status, stored = oracle.call("PATCH", where, change, MERGE_PATCH)
    assert status == 200, stored["message"]

    schema = schema_for(group, version, kind)
    ours = update(
        group,
        version,
        kind,
        apply_patch(MERGE_PATCH, current, change, schema=schema),
        current,
        namespace=namespace,
        subresource=subresource,
    )
    assert differences(without_allocations(ours), without_allocations(stored)) == []


THING_SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
                "port": {"x-kubernetes-int-or-string": True},
                "ratio": {"type": "number"},
                "maybe": {"type": "string", "nullable": True},
                "nested": {
                    "type": "object",
                    "default": {},
                    "properties": {"on": {"type": "boolean", "default": True}},
                },
                "list": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object",
                        "required": ["k"],
                        "properties": {
                            "k": {"type": "string"},
                            "v": {"type": "string", "default": "d"},
                        },
                    },
                },
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"done": {"type": "integer"}}},
    },
}


@pytest.fixture(scope="module")
def things(oracle: Oracle) -> str:
    """The path of a custom resource with a schema and a status subresource."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": THING_SCHEMA},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, answer = oracle.call("POST", root, json.dumps(definition).encode())
    assert status == 201, answer["message"]
    path = "/apis/shop.example.com/v1/namespaces/default/widgets"
    # Each question makes the server look again; it answers once the definition is established.
    for _ in range(2000):
        if oracle.call("GET", path)[0] == 200:
            return path
    raise AssertionError("the custom resource was never served")


THINGS: dict[str, Object] = {
    "plain": {"spec": {"size": 1}},
    "defaults": {"spec": {"size": 1, "list": [{"k": "a"}, {"k": "b", "v": "x"}]}},
    "pruned": {
        "bogus": 1,
        "spec": {"size": 1, "bogus": 2, "nested": {"off": 1}, "list": [{"k": "a", "x": 1}]},
    },
    "kept": {"spec": {"size": 1, "free": {"any": {"thing": [1]}}, "map": {"a": "b"}}},
    "nulls": {"spec": {"size": 1, "mode": None, "maybe": None, "nested": None}},
    "status-dropped": {"spec": {"size": 1}, "status": {"done": 3}},
    "labels": {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["bare"], "bogus": 1},
        "spec": {"size": 1},
    },
    "int-or-string": {"spec": {"size": 1, "port": "http"}},
    "bad-missing": {},
    "bad-required": {"spec": {}},
    "bad-type": {"spec": {"size": "1"}},
    "bad-types": {
        "spec": {"size": 1, "mode": 1, "name": [], "list": {}, "map": {"a": 1}, "ratio": "x"}
    },
    "bad-enum": {"spec": {"size": 1, "mode": "C"}},
    "bad-bounds": {"spec": {"size": 0}},
    "bad-high": {"spec": {"size": 10}},
    "bad-short": {"spec": {"size": 1, "name": "a"}},
    "bad-long": {"spec": {"size": 1, "name": "abcde"}},
    "bad-pattern": {"spec": {"size": 1, "name": "AB"}},
    "bad-items": {"spec": {"size": 1, "list": [{"k": "a"}, {"k": "b"}, {"k": "c"}]}},
    "bad-item": {"spec": {"size": 1, "list": [{}]}},
    "bad-twice": {"spec": {"size": 1, "list": [{"k": "a"}, {"k": "a"}]}},
    "bad-port": {"spec": {"size": 1, "port": 1.5}},
    "bad-metadata": {"metadata": {"labels": {"-a": "b"}}, "spec": {"size": 1}},
}


def causes_of(details: Object) -> set[tuple[str, str, str]]:
    return {(c.get("reason"), c.get("field"), c["message"]) for c in details.get("causes", [])}


@pytest.mark.parametrize("name", THINGS)
def test_a_custom_resource_is_stored_as_a_real_apiserver_stores_it(
    oracle: Oracle, things: str, name: str
) -> None:
    fields = THINGS[name]
    metadata = {"name": f"t-{name}", **fields.get("metadata", {})}
    body = json.dumps(
        {
            "apiVersion": "shop.example.com/v1", "kind": "Widget", **fields,
            "metadata": metadata,
        }
    ).encode()  # fmt: skip
    status, stored = oracle.call("POST", things, body)
    kind = ("shop.example.com", "v1", "Widget")
    schema = structural_schema(THING_SCHEMA)
    seen = stored["metadata"]
    try:
        ours = create(
            *kind,
            decode(body, schema=schema, kind=kind).object,
            namespace="default",
            now=datetime.fromisoformat(seen.get("creationTimestamp", "2024-01-01T00:00:00Z")),
            uid=seen.get("uid", "u"),
            random=random.Random(0),
            schema=schema,
        )
    except ApiError as error:
        details = error.details
        assert details is not None
        listed = {(c.reason, c.field, c.message) for c in details.causes}
        theirs = causes_of(stored.get("details", {}))
        assert (error.http_code, listed - theirs, theirs - listed) == (status, set(), set())
        return
    assert status == 201, stored["message"]
    assert differences(without_allocations(ours), without_allocations(stored)) == []


@pytest.mark.parametrize(
    ("subresource", "patch"),
    [
        ("", {"spec": {"size": 2}, "status": {"done": 1}}),
        ("", {"metadata": {"labels": {"a": "b"}}}),
        ("", {"spec": {"bogus": 2}}),
        (
            "status",
            {"spec": {"size": 3}, "status": {"done": 1}, "metadata": {"labels": {"x": "y"}}},
        ),
    ],
)
def test_a_changed_custom_resource_is_stored_as_a_real_apiserver_stores_it(
    oracle: Oracle, things: str, request: pytest.FixtureRequest, subresource: str, patch: Object
) -> None:
    name = f"u{request.node.callspec.indices['patch']}"
    base = {
        "apiVersion": "shop.example.com/v1", "kind": "Widget",
        "metadata": {"name": name}, "spec": {"size": 1},
    }  # fmt: skip
    status, current = oracle.call("POST", things, json.dumps(base).encode())
    assert status == 201, current["message"]
    change = json.dumps(patch).encode()
    where = f"{things}/{name}{'/' if subresource else ''}{subresource}"
    status, stored = oracle.call("PATCH", where, change, MERGE_PATCH)
    assert status == 200, stored["message"]
    schema = structural_schema(THING_SCHEMA)
    ours = update(
        "shop.example.com", "v1", "Widget",
        apply_patch(MERGE_PATCH, current, change, schema=schema), current,
        namespace="default", subresource=subresource, schema=schema,
    )  # fmt: skip
    assert differences(without_allocations(ours), without_allocations(stored)) == []


def test_strategic_merge_patch_of_a_custom_resource_is_refused_alike(
    oracle: Oracle, things: str
) -> None:
    status, answer = oracle.call(
        "PATCH", f"{things}/any", b"{}", "application/strategic-merge-patch+json"
    )
    with pytest.raises(ApiError) as caught:
        apply_patch(
            "application/strategic-merge-patch+json", {}, b"{}",
            schema=structural_schema(THING_SCHEMA),
        )  # fmt: skip
    assert caught.value.http_code == status == 415
    assert JSON_PATCH in caught.value.message
    assert MERGE_PATCH in answer["message"]
