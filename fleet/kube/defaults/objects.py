"""Defaults of everything that is no workload (upstream's `pkg/apis/*/v1/defaults.go`).

Functions change their argument, which the caller has copied.
"""

from __future__ import annotations

import base64
from typing import Any

from fleet.kube.defaults.pods import default_claim_spec, round_resources

Object = dict[str, Any]

_RBAC_GROUP = "rbac.authorization.k8s.io"


def default_service(service: Object) -> None:
    spec = service["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (0, "", None):
            port["targetPort"] = port.get("port", 0)
    external = kind in ("NodePort", "LoadBalancer") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if external:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def default_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    # Write-only: stringData is merged into data and never kept.
    texts = secret.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


def default_namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def default_claim(claim: Object) -> None:
    claim.setdefault("status", {}).setdefault("phase", "Pending")
    default_claim_spec(claim["spec"])
    for field in ("capacity", "allocatedResources"):
        round_resources(claim["status"].get(field))


def default_volume(volume: Object) -> None:
    spec = volume["spec"]
    volume.setdefault("status", {}).setdefault("phase", "Pending")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    round_resources(spec.get("capacity"))
    if (host_path := spec.get("hostPath")) is not None:
        host_path.setdefault("type", "")


def default_node(node: Object) -> None:
    status = node.get("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    round_resources(status.get("capacity"))
    round_resources(status.get("allocatable"))


def default_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_endpoint_slice(endpoint_slice: Object) -> None:
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_limit_range(limit_range: Object) -> None:
    for item in limit_range["spec"].get("limits") or ():
        if item.get("type") == "Container":
            default = {**item.get("max", {}), **item.get("default", {})}
            request = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
            for field, amounts in (("default", default), ("defaultRequest", request)):
                if amounts:
                    item[field] = amounts
        for amounts in item.values():
            if isinstance(amounts, dict):
                round_resources(amounts)


def default_role_binding(binding: Object) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC_GROUP
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC_GROUP


def default_network_policy(policy: Object) -> None:
    spec = policy["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_ingress_class(ingress_class: Object) -> None:
    if (parameters := ingress_class.get("spec", {}).get("parameters")) is not None:
        parameters.setdefault("scope", "Cluster")


def default_autoscaler(autoscaler: Object) -> None:
    """autoscaling/v2."""
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is not None:
        up = behavior.setdefault("scaleUp", {})
        up.setdefault("stabilizationWindowSeconds", 0)
        up.setdefault("selectPolicy", "Max")
        up.setdefault(
            "policies",
            [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        )
        down = behavior.setdefault("scaleDown", {})
        down.setdefault("selectPolicy", "Max")
        down.setdefault("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])


def default_autoscaler_v1(autoscaler: Object) -> None:
    """autoscaling/v1, which is stored as v2 and gains its CPU target there."""
    autoscaler["spec"].setdefault("minReplicas", 1)
    autoscaler["spec"].setdefault("targetCPUUtilizationPercentage", 80)


def default_custom_resource_definition(definition: Object) -> None:
    spec = definition["spec"]
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    status = definition.setdefault("status", {})
    if not status.get("storedVersions"):
        stored = [v["name"] for v in spec.get("versions") or () if v.get("storage")][:1]
        status["storedVersions"] = stored or None


def default_priority_class(priority_class: Object) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def default_webhooks(configuration: Object) -> None:
    """ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""
    mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    for webhook in configuration.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if mutating:
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = webhook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
