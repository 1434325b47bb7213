"""Rules for Deployments, ReplicaSets, StatefulSets and DaemonSets (`pkg/apis/apps/validation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.metadata import check_selector, selects
from fleet.kube.defaults.validation.pods import check_pod_template
from fleet.kube.defaults.validation.volumes import check_claim_spec

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_STATEFUL_MUTABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def check_deployment(problems: Problems, deployment: Object) -> None:
    spec = deployment.get("spec", {})
    problems.not_negative("spec.replicas", spec.get("replicas"))
    _selector(problems, spec, "deployment")
    _template(problems, spec, "ReplicaSet")
    _deployment_strategy(problems, spec.get("strategy", {}))
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        problems.not_negative(f"spec.{field}", spec.get(field))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        problems.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def check_replica_set(problems: Problems, replica_set: Object) -> None:
    spec = replica_set.get("spec", {})
    problems.not_negative("spec.replicas", spec.get("replicas"))
    problems.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    _selector(problems, spec, "deployment")
    _template(problems, spec, "ReplicaSet")


def check_replication_controller(problems: Problems, controller: Object) -> None:
    spec = controller.get("spec", {})
    problems.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector, template = spec.get("selector"), spec.get("template")
    if not selector:
        problems.required("spec.selector")
    problems.not_negative("spec.replicas", spec.get("replicas"))
    if template is None:
        problems.required("spec.template")
        return
    labels = template.get("metadata", {}).get("labels") or {}
    if selector and not selector.items() <= labels.items():
        problems.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    check_pod_template(problems, template, "spec.template")
    _always_restarted(problems, template, "ReplicationController")


def check_stateful_set(problems: Problems, stateful_set: Object, *, update: bool = False) -> None:
    spec = stateful_set.get("spec", {})
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        problems.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        problems.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _stateful_strategy(problems, spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if field in retention and retention[field] not in ("Retain", "Delete"):
            problems.not_supported(
                f"spec.persistentVolumeClaimRetentionPolicy.{field}",
                retention[field],
                ("Retain", "Delete"),
            )
    claims = spec.get("volumeClaimTemplates") or []
    if not update:
        for index, claim in enumerate(claims):
            where = f"spec.volumeClaimTemplates[{index}].spec"
            check_claim_spec(problems, claim.get("spec", {}), where)
        if service := spec.get("serviceName"):
            problems.invalid_each("spec.serviceName", service, names.dns_label(service))
    for field in ("replicas", "minReadySeconds"):
        problems.not_negative(f"spec.{field}", spec.get(field))
    problems.not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    _selector(problems, spec, "statefulset")
    _template(problems, _with_claims(spec, claims), "StatefulSet")


def _with_claims(spec: Object, claims: list[Object]) -> Object:
    """The spec as its controller will complete it: claims become volumes, names are its own."""
    template = spec.get("template", {})
    pod = {k: v for k, v in template.get("spec", {}).items() if k not in ("hostname", "subdomain")}
    if claims:
        named = [claim.get("metadata", {}).get("name", "") for claim in claims]
        own = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in named]
        others = [v for v in pod.get("volumes") or [] if v.get("name") not in named]
        pod["volumes"] = own + others
    return {**spec, "template": {**template, "spec": pod}}


def check_stateful_set_update(problems: Problems, new: Object, old: Object) -> None:
    def fixed(obj: Object) -> Object:
        return {k: v for k, v in obj.get("spec", {}).items() if k not in _STATEFUL_MUTABLE}

    if fixed(new) != fixed(old):
        problems.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden",
        )


def check_daemon_set(problems: Problems, daemon_set: Object) -> None:
    spec = daemon_set.get("spec", {})
    selector, template = spec.get("selector"), spec.get("template", {})
    check_selector(problems, selector, "spec.selector")
    labels = template.get("metadata", {}).get("labels")
    if selects(selector, labels) is False:
        problems.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    if selector is not None and not _terms(selector):
        problems.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    check_pod_template(problems, template, "spec.template")
    _always_restarted(problems, template, "DaemonSet")
    problems.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    strategy = spec.get("updateStrategy", {})
    kind = strategy.get("type", "")
    if kind == "RollingUpdate":
        _daemon_rolling(problems, strategy.get("rollingUpdate") or {})
    elif kind != "OnDelete":
        problems.not_supported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))
    problems.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def check_selector_update(problems: Problems, new: Object, old: Object) -> None:
    """Deployments, DaemonSets and ReplicaSets keep their selector."""
    before, after = old.get("spec", {}).get("selector"), new.get("spec", {}).get("selector")
    problems.immutable("spec.selector", after, before)


def check_count(problems: Problems, value: object, path: str) -> None:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        problems.invalid_each(path, value, names.percent(value))
    else:
        problems.not_negative(path, value)


def check_at_most_all(problems: Problems, value: object, path: str) -> None:
    if isinstance(value, str) and not names.percent(value) and int(value[:-1]) > 100:
        problems.invalid(path, value, "must not be greater than 100%")


def _is_zero(value: object) -> bool:
    """Upstream reads anything it cannot read as zero."""
    if isinstance(value, str):
        return bool(names.percent(value)) or int(value[:-1]) == 0
    return value in (0, None)


def _terms(selector: Object) -> int:
    return len(selector.get("matchLabels") or {}) + len(selector.get("matchExpressions") or [])


def _selector(problems: Problems, spec: Object, kind: str) -> None:
    selector = spec.get("selector")
    if selector is None:
        problems.required("spec.selector")
        return
    check_selector(problems, selector, "spec.selector")
    if not _terms(selector):
        problems.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _template(problems: Problems, spec: Object, kind: str) -> None:
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    matches = selects(selector, labels)
    if matches is None:
        detail = "" if kind == "StatefulSet" else "invalid label selector"
        problems.invalid("spec.selector", selector, detail)
        return
    if not matches:
        problems.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    check_pod_template(problems, template, "spec.template")
    _always_restarted(problems, template, kind)


def _always_restarted(problems: Problems, template: Object, kind: str) -> None:
    spec = template.get("spec", {})
    if spec.get("restartPolicy") != "Always":
        policy = spec.get("restartPolicy", "")
        problems.not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in spec:
        problems.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            f"activeDeadlineSeconds in {kind} is not Supported",
        )


def _deployment_strategy(problems: Problems, strategy: Object) -> None:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            problems.forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        problems.not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        problems.required(path, "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        check_count(problems, unavailable, f"{path}.maxUnavailable")
        check_count(problems, surge, f"{path}.maxSurge")
        if _is_zero(unavailable) and _is_zero(surge):
            problems.invalid(
                f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"
            )
        check_at_most_all(problems, unavailable, f"{path}.maxUnavailable")


def _stateful_strategy(problems: Problems, strategy: Object) -> None:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if not kind:
        problems.required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            problems.invalid(
                f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'"
            )
    elif kind != "RollingUpdate":
        problems.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        problems.not_negative(f"{path}.rollingUpdate.partition", rolling.get("partition"))


def _daemon_rolling(problems: Problems, rolling: Object) -> None:
    path = "spec.updateStrategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        check_count(problems, value, f"{path}.{name}")
        check_at_most_all(problems, value, f"{path}.{name}")
    if not _is_zero(unavailable) and not _is_zero(surge):
        problems.invalid(
            f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"
        )
    elif _is_zero(unavailable) and _is_zero(surge):
        problems.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
