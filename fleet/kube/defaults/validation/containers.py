"""Rules for containers: regular, init and ephemeral (`pkg/apis/core/validation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.downward import (
    check_field_selector,
    check_resource_field_selector,
)
from fleet.kube.defaults.validation.resources import check_resources
from fleet.kube.defaults.validation.volumes import check_mounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NOT_EPHEMERAL: Final = (
    "ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
    "resizePolicy", "restartPolicy",
)  # fmt: skip


def check_containers(
    problems: Problems, spec: Object, volumes: Mapping[str, Object], path: str
) -> None:
    """All containers of a pod spec; `volumes` are those that mounts may name."""
    grace_period = spec.get("terminationGracePeriodSeconds")
    regular = spec.get("containers") or []
    if not regular:
        problems.required(f"{path}.containers")
    seen: set[str] = set()
    for index, container in enumerate(regular):
        where = f"{path}.containers[{index}]"
        _common(problems, container, volumes, where)
        _unique(problems, container, seen, where)
        _life(problems, container, where, grace_period)
        _restart_policy(problems, container, where)
    _host_ports(problems, regular, f"{path}.containers")
    seen = {c.get("name", "") for c in regular}
    for index, container in enumerate(spec.get("initContainers") or []):
        where = f"{path}.initContainers[{index}]"
        _common(problems, container, volumes, where)
        _restart_policy(problems, container, where)
        _unique(problems, container, seen, where)
        _host_ports(problems, [container], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            _life(problems, container, where, grace_period)
        else:
            for field in ("lifecycle", *_PROBES):
                if field in container:
                    problems.forbidden(
                        f"{where}.{field}",
                        "may not be set for init containers without restartPolicy=Always",
                    )
    others = set(seen) | {c.get("name", "") for c in spec.get("initContainers") or []}
    for index, container in enumerate(spec.get("ephemeralContainers") or []):
        where = f"{path}.ephemeralContainers[{index}]"
        _common(problems, container, volumes, where)
        check_image_blanks(problems, container, where)
        _unique(problems, container, seen, where)
        target = container.get("targetContainerName")
        if target and target not in others:
            problems.not_found(f"{where}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                problems.forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container")


def check_image_blanks(problems: Problems, container: Object, path: str) -> None:
    """Pods, unlike templates, insist on an image without blanks around it."""
    image = container.get("image", "")
    if image != image.strip():
        problems.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def check_port(problems: Problems, port: object, path: str) -> None:
    """A port by number or by name."""
    if isinstance(port, int):
        problems.invalid_each(path, port, names.port_number(port))
    else:
        problems.invalid_each(path, port, names.port_name(str(port)))


def _common(
    problems: Problems, container: Object, volumes: Mapping[str, Object], path: str
) -> None:
    name = container.get("name", "")
    if not name:
        problems.required(f"{path}.name")
    else:
        problems.invalid_each(f"{path}.name", name, names.dns_label(name))
    if not container.get("image"):
        problems.required(f"{path}.image")
    problems.one_of(
        f"{path}.terminationMessagePolicy",
        container.get("terminationMessagePolicy", ""),
        ("File", "FallbackToLogsOnError"),
    )
    _ports(problems, container.get("ports") or [], f"{path}.ports")
    _environment(problems, container.get("env") or [], f"{path}.env")
    _environment_from(problems, container.get("envFrom") or [], f"{path}.envFrom")
    check_mounts(problems, container, volumes, path)
    problems.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES)
    check_resources(problems, container.get("resources", {}), f"{path}.resources")
    _security(problems, container.get("securityContext") or {}, f"{path}.securityContext")


def _unique(problems: Problems, container: Object, seen: set[str], path: str) -> None:
    name = container.get("name", "")
    if name in seen:
        problems.duplicate(f"{path}.name", name)
    seen.add(name)


def _ports(problems: Problems, ports: list[Object], path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            wrong = names.port_name(name)
            problems.invalid_each(f"{where}.name", name, wrong)
            if not wrong and name in seen:
                problems.duplicate(f"{where}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            problems.required(f"{where}.containerPort")
        else:
            rule = names.port_number(number)
            problems.invalid_each(f"{where}.containerPort", number, rule)
        if host_port := port.get("hostPort"):
            rule = names.port_number(host_port)
            problems.invalid_each(f"{where}.hostPort", host_port, rule)
        problems.one_of(f"{where}.protocol", port.get("protocol", ""), PROTOCOLS)


def _host_ports(problems: Problems, containers: list[Object], path: str) -> None:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                problems.duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            taken.add(key)


def _environment(problems: Problems, variables: list[Object], path: str) -> None:
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            problems.required(f"{where}.name")
        else:
            problems.invalid_each(f"{where}.name", name, names.variable_name(name))
        if (source := variable.get("valueFrom")) is not None:
            _value_from(problems, source, variable, f"{where}.valueFrom")


def _value_from(problems: Problems, source: Object, variable: Object, path: str) -> None:
    kinds = [
        kind
        for kind in (
            "fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef",
        )
        if kind in source
    ]  # fmt: skip
    for kind in kinds:
        where, reference = f"{path}.{kind}", source[kind]
        if kind == "fieldRef":
            check_field_selector(problems, reference, where)
        elif kind == "resourceFieldRef":
            check_resource_field_selector(problems, reference, where)
        elif kind != "fileKeyRef":
            name, key = reference.get("name", ""), reference.get("key", "")
            problems.invalid_each(f"{where}.name", name, names.dns_subdomain(name))
            if not key:
                problems.required(f"{where}.key")
            else:
                problems.invalid_each(f"{where}.key", key, names.config_key(key))
    if not kinds:
        problems.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`",
        )
    elif variable.get("value"):
        problems.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(kinds) > 1:
        problems.invalid(path, "", "may not have more than one field specified at a time")


def _environment_from(problems: Problems, sources: list[Object], path: str) -> None:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            problems.invalid_each(f"{where}.prefix", prefix, names.variable_name(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in kinds:
            name = source[kind].get("name", "")
            if not name:
                problems.required(f"{where}.{kind}.name")
            else:
                rule = names.dns_subdomain(names.as_prefix(name))
                problems.invalid_each(f"{where}.{kind}.name", name, rule)
        # Upstream leaves the index out of these paths.
        if not kinds:
            problems.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            problems.invalid(path, "", "may not have more than one field specified at a time")


def _life(problems: Problems, container: Object, path: str, grace_period: int | None) -> None:
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            _handler(problems, lifecycle[hook], f"{path}.lifecycle.{hook}", grace_period)
    for field in _PROBES:
        probe = container.get(field)
        if probe is None:
            continue
        where = f"{path}.{field}"
        _handler(problems, probe, where, grace_period)
        for number in (
            "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
            "failureThreshold",
        ):  # fmt: skip
            problems.not_negative(f"{where}.{number}", probe.get(number))
        own_grace = probe.get("terminationGracePeriodSeconds")
        if own_grace is not None and own_grace <= 0:
            problems.invalid(
                f"{where}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"
            )
        if field == "readinessProbe":
            if own_grace is not None:
                problems.invalid(
                    f"{where}.terminationGracePeriodSeconds",
                    own_grace,
                    "must not be set for readinessProbes",
                )
        elif probe.get("successThreshold") != 1:
            problems.invalid(
                f"{where}.successThreshold", probe.get("successThreshold", 0), "must be 1"
            )


def _handler(problems: Problems, handler: Object, path: str, grace_period: int | None) -> None:
    kinds = [kind for kind in _HANDLERS if kind in handler]
    if not kinds:
        problems.required(path, "must specify a handler type")
        return
    for extra in kinds[1:]:
        problems.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    action, where = handler[kinds[0]], f"{path}.{kinds[0]}"
    match kinds[0]:
        case "exec":
            if not action.get("command"):
                problems.required(f"{where}.command")
        case "httpGet":
            if not action.get("path"):
                problems.required(f"{where}.path")
            check_port(problems, action.get("port", 0), f"{where}.port")
            if action.get("scheme") not in ("HTTP", "HTTPS"):
                problems.not_supported(
                    f"{where}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")
                )
            for header in action.get("httpHeaders") or []:
                name = header.get("name", "")
                problems.invalid_each(f"{where}.httpHeaders", name, names.header_name(name))
        case "tcpSocket" | "grpc":
            check_port(problems, action.get("port", 0), f"{where}.port")
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace_period is not None and not 0 <= seconds <= grace_period:
                problems.invalid(
                    where,
                    seconds,
                    "must be non-negative and less than terminationGracePeriodSeconds "
                    f"({grace_period})",
                )


def _restart_policy(problems: Problems, container: Object, path: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            problems.required(
                f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"
            )
    elif policy not in _RESTART_POLICIES:
        problems.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)


def _security(problems: Problems, context: Object, path: str) -> None:
    for field in ("runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            problems.invalid_each(f"{path}.{field}", number, names.user_or_group(number))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            problems.invalid(
                path,
                context,
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            )
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
            problems.invalid(
                path,
                context,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN",
            )
