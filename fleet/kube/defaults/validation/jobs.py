"""Rules for Jobs and CronJobs (`pkg/apis/batch/validation`)."""

from __future__ import annotations

import copy
import re
import zoneinfo
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.cron import wrong_schedule
from fleet.kube.defaults.validation.metadata import check_selector, selects
from fleet.kube.defaults.validation.pods import check_pod_template

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_MAX_PARALLELISM: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MANY_PARALLELISM: Final = 10_000
_MANY_FAILED: Final = 10_000
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_LABELS: Final = (
    ("controller-uid", "uid"),
    ("job-name", "name"),
    ("batch.kubernetes.io/controller-uid", "uid"),
    ("batch.kubernetes.io/job-name", "name"),
)


def check_job(problems: Problems, job: Object) -> None:
    spec, metadata = job.get("spec", {}), job["metadata"]
    if not spec.get("manualSelector"):
        _generated_selector(problems, job)
    check_job_spec(problems, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        problems.required("spec.selector")
    else:
        check_selector(problems, selector, "spec.selector")
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if selects(selector, labels) is False:
        problems.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions:
        name = metadata.get("name", "")
        host = f"{name}-{completions - 1}"
        if names.dns_label(host):
            problems.invalid(
                "metadata.name", name, f"will not able to create pod with invalid DNS label: {host}"
            )


def check_job_update(problems: Problems, new: Object, old: Object) -> None:
    """A Job's template, selector and way of counting stay; a suspended one may be re-planned."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    if spec.get("completionMode") != "Indexed":
        problems.immutable("spec.completions", spec.get("completions"), before.get("completions"))
    elif spec.get("completions") not in (None, before.get("completions")):
        if spec["completions"] != spec.get("parallelism"):
            problems.invalid(
                "spec.completions",
                spec["completions"],
                "can only be modified in tandem with spec.parallelism",
            )
    problems.immutable("spec.selector", spec.get("selector"), before.get("selector"))
    _template_update(problems, spec, old)
    for field in (
        "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
        "successPolicy",
    ):  # fmt: skip
        problems.immutable(f"spec.{field}", spec.get(field), before.get(field))


def _template_update(problems: Problems, spec: Object, old: Object) -> None:
    before, status = old.get("spec", {}), old.get("status", {})
    template, twin = spec.get("template", {}), copy.deepcopy(before.get("template", {}))
    suspended = bool(before.get("suspend"))
    told = {c.get("type") for c in status.get("conditions") or [] if c.get("status") == "True"}
    idle = "startTime" not in status or "Suspended" in told
    replannable = suspended and idle and not status.get("active")
    if replannable:
        _copy_over(twin.setdefault("spec", {}), template.get("spec", {}),
                   ("nodeSelector", "tolerations", "schedulingGates"))  # fmt: skip
        _copy_over(twin.setdefault("metadata", {}), template.get("metadata", {}),
                   ("annotations", "labels"))  # fmt: skip
        _copy_node_affinity(twin["spec"], template.get("spec", {}))
        for field in ("containers", "initContainers"):
            mine, theirs = template.get("spec", {}).get(field), twin["spec"].get(field)
            for container, other in zip(mine or [], theirs or [], strict=False):
                if container.get("name") == other.get("name"):
                    _copy_over(other, container, ("resources",))
        problems.immutable("spec.template.spec", template.get("spec"), twin["spec"])
    else:
        problems.immutable("spec.template", template, twin)


def _copy_over(target: Object, source: Object, fields: tuple[str, ...]) -> None:
    for field in fields:
        target.pop(field, None)
        if field in source:
            target[field] = source[field]


def _copy_node_affinity(target: Object, source: Object) -> None:
    affinity = {**(target.get("affinity") or {})}
    _copy_over(affinity, source.get("affinity") or {}, ("nodeAffinity",))
    target.pop("affinity", None)
    if affinity or "affinity" in source:
        target["affinity"] = affinity


def _generated_selector(problems: Problems, job: Object) -> None:
    metadata, spec = job["metadata"], job.get("spec", {})
    labels = spec.get("template", {}).get("metadata", {}).get("labels") or {}
    expected = {}
    for label, field in _LABELS:
        value = expected[label] = metadata.get(field, "")
        where = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            problems.required(where, f"must be '{value}'")
        elif labels[label] != value:
            problems.invalid(where, labels, f"must be '{value}'")
    if selects(spec.get("selector"), expected) is False:
        problems.invalid("spec.selector", spec.get("selector"), "`selector` not auto-generated")


def check_job_spec(problems: Problems, spec: Object, path: str) -> None:
    for field in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        problems.not_negative(f"{path}.{field}", spec.get(field))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        problems.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        _managed_by(problems, manager, f"{path}.managedBy")
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        problems.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        _indexed(problems, spec, path)
    elif mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                problems.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    if (policy := spec.get("podFailurePolicy")) is not None:
        _failure_policy(problems, policy, spec, f"{path}.podFailurePolicy")
    if (policy := spec.get("successPolicy")) is not None:
        if mode != "Indexed":
            problems.invalid(f"{path}.successPolicy", policy, "requires indexed completion mode")
        elif "completions" in spec:
            _success_policy(problems, policy, spec["completions"], f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        both = ("Failed", "TerminatingOrFailed")
        supported = ("Failed",) if "podFailurePolicy" in spec else both
        if replacement not in supported:
            problems.not_supported(f"{path}.podReplacementPolicy", replacement, supported)
    check_pod_template(problems, spec.get("template", {}), f"{path}.template")
    _restart_policy(problems, spec, f"{path}.template.spec.restartPolicy")


def _restart_policy(problems: Problems, spec: Object, path: str) -> None:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        problems.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        problems.not_supported(path, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        problems.invalid(
            path, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


def _indexed(problems: Problems, spec: Object, path: str) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        problems.required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MAX_PARALLELISM:
        problems.invalid(
            f"{path}.parallelism",
            parallelism,
            f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed",
        )
    if completions is not None and failed is not None and failed > completions:
        problems.invalid(
            f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"
        )
    if failed is not None and failed > _MAX_PARALLELISM:
        problems.invalid(
            f"{path}.maxFailedIndexes",
            failed,
            f"must be less than or equal to {_MAX_PARALLELISM}",
        )
    if (completions or 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        why = (
            f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        )
        if failed is None:
            problems.required(
                f"{path}.maxFailedIndexes",
                f"must be specified when completions is above {_MANY_COMPLETIONS}",
            )
        if parallelism > _MANY_PARALLELISM:
            problems.invalid(
                f"{path}.parallelism",
                parallelism,
                f"must be less than or equal to {_MANY_PARALLELISM} {why}",
            )
        if failed is not None and failed > _MANY_FAILED:
            problems.invalid(
                f"{path}.maxFailedIndexes",
                failed,
                f"must be less than or equal to {_MANY_FAILED} {why}",
            )


def _managed_by(problems: Problems, manager: str, path: str) -> None:
    domain, slash, rest = manager.partition("/")
    if not manager:
        problems.required(path)
    elif not (slash and domain and rest):
        problems.invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        problems.invalid_each(path, domain, names.dns_subdomain(domain))
        problems.invalid_each(path, rest, names.http_path(rest))
    if len(manager.encode()) > 63:
        problems.too_long(path, 63)


def _failure_policy(problems: Problems, policy: Object, spec: Object, path: str) -> None:
    rules = policy.get("rules") or []
    if len(rules) > 20:
        problems.too_many(f"{path}.rules", len(rules), 20)
    pod = spec.get("template", {}).get("spec", {})
    containers = {c.get("name") for f in ("containers", "initContainers") for c in pod.get(f) or []}
    for index, rule in enumerate(rules):
        where, action = f"{path}.rules[{index}]", rule.get("action", "")
        if not action:
            problems.required(f"{where}.action", _valid_values(_ACTIONS))
        elif action == "FailIndex":
            if "backoffLimitPerIndex" not in spec:
                problems.invalid(
                    f"{where}.action", action, "requires the backoffLimitPerIndex to be set"
                )
        elif action not in _ACTIONS:
            problems.not_supported(f"{where}.action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            _exit_codes(problems, codes, containers, f"{where}.onExitCodes")
        _pod_conditions(problems, conditions, f"{where}.onPodConditions")
        if codes is not None and conditions:
            problems.wrong(
                where, "specifying both OnExitCodes and OnPodConditions is not supported"
            )
        if codes is None and not conditions:
            problems.wrong(where, "specifying one of OnExitCodes and OnPodConditions is required")


def _valid_values(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def _exit_codes(problems: Problems, codes: Object, containers: set[Any], path: str) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        problems.required(f"{path}.operator", _valid_values(("In", "NotIn")))
    elif operator not in ("In", "NotIn"):
        problems.not_supported(f"{path}.operator", operator, ("In", "NotIn"))
    container = codes.get("containerName")
    if container is not None and container not in containers:
        problems.invalid(
            f"{path}.containerName",
            container,
            "must be one of the container or initContainer names in the pod template",
        )
    if not values:
        problems.invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    elif len(values) > 255:
        problems.too_many(f"{path}.values", len(values), 255)
    for index, value in enumerate(values):
        where = f"{path}.values[{index}]"
        if operator == "In" and value == 0:
            problems.invalid(where, value, "must not be 0 for the In operator")
        if value in values[:index]:
            problems.duplicate(where, value)
    if values != sorted(values):
        problems.invalid(f"{path}.values", values, "must be ordered")


def _pod_conditions(problems: Problems, conditions: list[Object], path: str) -> None:
    if len(conditions) > 20:
        problems.too_many(path, len(conditions), 20)
    for index, pattern in enumerate(conditions):
        where, kind = f"{path}[{index}]", pattern.get("type", "")
        problems.invalid_each(f"{where}.type", kind, names.qualified_name(kind))
        supported = ("False", "True", "Unknown")
        if pattern.get("status") not in supported:
            problems.not_supported(f"{where}.status", pattern.get("status", ""), supported)


def _success_policy(problems: Problems, policy: Object, completions: int, path: str) -> None:
    rules = policy.get("rules") or []
    if not rules:
        problems.required(
            f"{path}.rules",
            "at least one rules must be specified when the successPolicy is specified",
        )
    if len(rules) > 20:
        problems.too_many(f"{path}.rules", len(rules), 20)
    for index, rule in enumerate(rules):
        where = f"{path}.rules[{index}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            problems.required(
                where, "at least one of succeededCount or succeededIndexes must be specified"
            )
        total = 0
        if indexes is not None:
            total, wrong = _index_count(indexes, completions)
            if wrong:
                problems.invalid(
                    f"{where}.succeededIndexes",
                    indexes,
                    f"error parsing succeededIndexes: {wrong}",
                )
        if count is not None:
            problems.not_negative(f"{where}.succeededCount", count)
            if count > completions:
                problems.invalid(
                    f"{where}.succeededCount",
                    count,
                    f"must be less than or equal to {completions} (the number of specified "
                    "completions)",
                )
            if indexes is not None and count > total:
                problems.invalid(
                    f"{where}.succeededCount",
                    count,
                    f"must be less than or equal to {total} (the number of indexes in the "
                    "specified succeededIndexes field)",
                )


def _index_count(text: str, completions: int) -> tuple[int, str]:
    """How many indexes `1,3-5` names, and what is wrong with it or ""."""
    if not text:
        return 0, ""
    total, last = 0, -1
    for part in text.split(","):
        edges = part.split("-")
        if len(edges) > 2:
            return total, (
                f'the fragment "{part}" violates the requirement that an index interval can have '
                "at most two parts separated by '-'"
            )
        numbers = []
        for edge in edges:
            if not re.fullmatch(r"[0-9]+", edge):
                return total, f'cannot convert string to integer for index: "{edge}"'
            if int(edge) >= completions:
                return total, f'too large index: "{edge}"'
            numbers.append(int(edge))
        if numbers[0] <= last:
            return total, f"non-increasing order, previous: {last}, current: {numbers[0]}"
        if len(numbers) == 2 and numbers[1] <= numbers[0]:
            return total, f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}"
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total, ""


def check_cron_job(problems: Problems, cron_job: Object, *, old: Object | None = None) -> None:
    spec, name = cron_job.get("spec", {}), cron_job["metadata"].get("name", "")
    before = None if old is None else old.get("spec", {})
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        problems.required("spec.schedule")
    else:
        if wrong := wrong_schedule(schedule):
            problems.invalid("spec.schedule", schedule, wrong)
        if "TZ" in schedule:
            if before is not None and "TZ" in before.get("schedule", ""):
                if zone is not None:
                    problems.invalid(
                        "spec.schedule",
                        schedule,
                        "cannot use both timeZone field and TZ or CRON_TZ in schedule",
                    )
            else:
                problems.invalid(
                    "spec.schedule",
                    schedule,
                    "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                )
    problems.not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if zone is not None and (before is None or before.get("timeZone") != zone):
        _time_zone(problems, zone)
    problems.one_of(
        "spec.concurrencyPolicy",
        spec.get("concurrencyPolicy", ""),
        ("Allow", "Forbid", "Replace"),
    )
    job_spec = spec.get("jobTemplate", {}).get("spec", {})
    check_job_spec(problems, job_spec, "spec.jobTemplate.spec")
    if (selector := job_spec.get("selector")) is not None:
        problems.invalid(
            "spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated"
        )
    if job_spec.get("manualSelector"):
        problems.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        problems.not_negative(f"spec.{field}", spec.get(field))
    if old is None and len(name) > 52:
        problems.invalid("metadata.name", name, "must be no more than 52 characters")


def _time_zone(problems: Problems, zone: str) -> None:
    path = "spec.timeZone"
    if not zone:
        problems.invalid(path, zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        problems.invalid(
            path,
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        )
    elif zone != "UTC" and zone not in zoneinfo.available_timezones():
        problems.invalid(path, zone, f"unknown time zone {zone}")
