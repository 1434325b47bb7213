"""Who may do what, and what goes first: RBAC, certificates, admission, fair queueing, priority."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, NAME, Column, column
from fleet.kube.tables.durations import human_duration
from fleet.kube.tables.reading import (
    Object,
    condition,
    flag,
    items,
    mapping,
    number,
    optional_number,
    sequence,
    string_map,
    text,
)
from fleet.kube.tables.rows import Cell, Cells, Printer, since
from fleet.kube.tables.wording import NONE, UNSET, labels, selector_debug


def _binding(obj: Object) -> Cells:
    metadata, role = mapping(obj, "metadata"), mapping(obj, "roleRef")
    users: list[str] = []
    groups: list[str] = []
    accounts: list[str] = []
    for subject in items(obj, "subjects"):
        name = text(subject, "name")
        match text(subject, "kind"):
            case "ServiceAccount":
                accounts.append(f"{text(subject, 'namespace')}/{name}")
            case "User":
                users.append(name)
            case "Group":
                groups.append(name)
    return (
        text(metadata, "name"),
        f"{text(role, 'kind')}/{text(role, 'name')}",
        since(metadata, "creationTimestamp"),
        ", ".join(users),
        ", ".join(groups),
        ", ".join(accounts),
    )


def _signing_status(status: Object) -> str:
    """The conditions in order of precedence; their status does not matter."""
    kinds = {text(each, "type") for each in items(status, "conditions")}
    shown = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        shown += ",Failed"
    if text(status, "certificate"):
        shown += ",Issued"
    return shown


def _signing_request(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    expires_s = optional_number(spec, "expirationSeconds")
    return (
        text(metadata, "name"),
        since(metadata, "creationTimestamp"),
        text(spec, "signerName") or NONE,
        text(spec, "username"),
        NONE if expires_s is None else human_duration(expires_s),
        _signing_status(mapping(obj, "status")),
    )


def _trust_bundle(obj: Object) -> Cells:
    signer = text(mapping(obj, "spec"), "signerName")
    return text(mapping(obj, "metadata"), "name"), signer or NONE


def _pod_certificate(obj: Object) -> Cells:
    spec = mapping(obj, "spec")
    state = "Pending"
    for each in items(mapping(obj, "status"), "conditions"):
        kind = text(each, "type")
        if kind in ("Issued", "Denied", "Failed"):
            state = kind
    return (
        text(mapping(obj, "metadata"), "name"),
        text(spec, "podName"),
        text(spec, "serviceAccountName"),
        text(spec, "nodeName"),
        text(spec, "signerName"),
        state,
        labels(string_map(spec, "unverifiedUserAnnotations")),
    )


def _webhooks(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        len(sequence(obj, "webhooks")),
        since(metadata, "creationTimestamp"),
    )


def _policy(obj: Object, rules: str) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    parameters = UNSET
    if isinstance(spec.get("paramKind"), dict):
        kind = mapping(spec, "paramKind")
        parameters = f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}"
    return (
        text(metadata, "name"),
        len(sequence(spec, rules)),
        parameters,
        since(metadata, "creationTimestamp"),
    )


def _validating_policy(obj: Object) -> Cells:
    return _policy(obj, "validations")


def _mutating_policy(obj: Object) -> Cells:
    return _policy(obj, "mutations")


def _policy_binding(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    reference = mapping(spec, "paramRef")
    parameter = UNSET
    if name := text(reference, "name"):
        # Whether the parameter is namespaced cannot be told from here.
        parameter = f"{text(reference, 'namespace') or '*'}/{name}"
    elif isinstance(reference.get("selector"), dict):
        parameter = selector_debug(mapping(reference, "selector"))
    return (
        text(metadata, "name"),
        text(spec, "policyName"),
        parameter,
        since(metadata, "creationTimestamp"),
    )


def _flow_schema(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    distinguisher = NONE
    if isinstance(spec.get("distinguisherMethod"), dict):
        distinguisher = text(mapping(spec, "distinguisherMethod"), "type")
    dangling = condition(mapping(obj, "status"), "Dangling")
    return (
        text(metadata, "name"),
        text(mapping(spec, "priorityLevelConfiguration"), "name"),
        number(spec, "matchingPrecedence"),
        distinguisher,
        since(metadata, "creationTimestamp"),
        "?" if dangling is None else text(dangling, "status"),
    )


def _priority_level(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    shares: Cell = NONE
    queues: Cell = NONE
    hand_size: Cell = NONE
    length_limit: Cell = NONE
    if isinstance(spec.get("limited"), dict):
        limited = mapping(spec, "limited")
        shares = number(limited, "nominalConcurrencyShares")
        response = mapping(limited, "limitResponse")
        if isinstance(response.get("queuing"), dict):
            queuing = mapping(response, "queuing")
            queues = number(queuing, "queues")
            hand_size = number(queuing, "handSize")
            length_limit = number(queuing, "queueLengthLimit")
    return (
        text(metadata, "name"),
        text(spec, "type"),
        shares,
        queues,
        hand_size,
        length_limit,
        since(metadata, "creationTimestamp"),
    )


def _priority_class(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        number(obj, "value"),
        flag(obj, "globalDefault"),
        since(metadata, "creationTimestamp"),
        text(obj, "preemptionPolicy"),
    )


def _binding_columns(kind: str, doc: str) -> tuple[Column, ...]:
    return (
        NAME,
        column("Role", doc=f"rbac/v1beta1.{doc}.roleRef"),
        AGE,
        column("Users", f"Users in the {kind}", priority=1),
        column("Groups", f"Groups in the {kind}", priority=1),
        column("ServiceAccounts", f"ServiceAccounts in the {kind}", priority=1),
    )


_WEBHOOKS: Final = Printer(
    columns=(
        NAME,
        column(
            "Webhooks",
            "Webhooks indicates the number of webhooks registered in this configuration",
            type="integer",
        ),
        AGE,
    ),
    render=_webhooks,
)
_PARAM_KIND: Final = column(
    "ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"
)
_POLICY_BINDING: Final = Printer(
    columns=(
        NAME,
        column(
            "PolicyName",
            "PolicyName indicates the policy definition which the policy binding binded to",
        ),
        column(
            "ParamRef", "ParamRef indicates the param resource which sets the configuration param"
        ),
        AGE,
    ),
    render=_policy_binding,
)
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_SIGNING: Final = "certificates/v1beta1.CertificateSigningRequest"
_POD_CERTIFICATE: Final = "certificates/v1beta1.PodCertificateRequestSpec"
_QUEUING: Final = "flowcontrol/v1.QueuingConfiguration"

PRINTERS: Final = {
    (_RBAC, "rolebindings"): Printer(
        columns=_binding_columns("roleBinding", "RoleBinding"), render=_binding
    ),
    (_RBAC, "clusterrolebindings"): Printer(
        columns=_binding_columns("clusterRoleBinding", "ClusterRoleBinding"), render=_binding
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): Printer(
        columns=(
            NAME,
            AGE,
            column("SignerName", doc=f"{_SIGNING}Spec.signerName"),
            column("Requestor", doc=f"{_SIGNING}Spec.request"),
            column("RequestedDuration", doc=f"{_SIGNING}Spec.expirationSeconds"),
            column("Condition", doc=f"{_SIGNING}Status.conditions"),
        ),
        render=_signing_request,
    ),
    ("certificates.k8s.io", "clustertrustbundles"): Printer(
        columns=(
            NAME,
            column("SignerName", doc="certificates/v1beta1.ClusterTrustBundleSpec.signerName"),
        ),
        render=_trust_bundle,
    ),
    ("certificates.k8s.io", "podcertificaterequests"): Printer(
        columns=(
            NAME,
            column("PodName", doc=f"{_POD_CERTIFICATE}.podName"),
            column("ServiceAccountName", doc=f"{_POD_CERTIFICATE}.serviceAccountName"),
            column("NodeName", doc=f"{_POD_CERTIFICATE}.nodeName"),
            column("SignerName", doc=f"{_POD_CERTIFICATE}.signerName"),
            column("State", "Is the request Pending, Issued, Denied, or Failed?"),
            column(
                "UnverifiedUserAnnotations", doc=f"{_POD_CERTIFICATE}.unverifiedUserAnnotations"
            ),
        ),
        render=_pod_certificate,
    ),
    (_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
    (_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
    (_ADMISSION, "validatingadmissionpolicies"): Printer(
        columns=(
            NAME,
            column(
                "Validations",
                "Validations indicates the number of validation rules defined"
                " in this configuration",
                type="integer",
            ),
            _PARAM_KIND,
            AGE,
        ),
        render=_validating_policy,
    ),
    (_ADMISSION, "mutatingadmissionpolicies"): Printer(
        columns=(
            NAME,
            column(
                "Mutations",
                "Mutation indicates the number of mutations rules defined in this configuration",
                type="integer",
            ),
            _PARAM_KIND,
            AGE,
        ),
        render=_mutating_policy,
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): _POLICY_BINDING,
    (_ADMISSION, "mutatingadmissionpolicybindings"): _POLICY_BINDING,
    (_FLOW, "flowschemas"): Printer(
        columns=(
            NAME,
            column("PriorityLevel", doc="flowcontrol/v1.PriorityLevelConfigurationReference.name"),
            column("MatchingPrecedence", doc="flowcontrol/v1.FlowSchemaSpec.matchingPrecedence"),
            column("DistinguisherMethod", doc="flowcontrol/v1.FlowSchemaSpec.distinguisherMethod"),
            AGE,
            column("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
        ),
        render=_flow_schema,
    ),
    (_FLOW, "prioritylevelconfigurations"): Printer(
        columns=(
            NAME,
            column("Type", doc="flowcontrol/v1.PriorityLevelConfigurationSpec.type"),
            column(
                "NominalConcurrencyShares",
                doc="flowcontrol/v1.LimitedPriorityLevelConfiguration.nominalConcurrencyShares",
            ),
            column("Queues", doc=f"{_QUEUING}.queues"),
            column("HandSize", doc=f"{_QUEUING}.handSize"),
            column("QueueLengthLimit", doc=f"{_QUEUING}.queueLengthLimit"),
            AGE,
        ),
        render=_priority_level,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        columns=(
            NAME,
            column("Value", doc="scheduling/v1.PriorityClass.value", type="integer"),
            column(
                "Global-Default", doc="scheduling/v1.PriorityClass.globalDefault", type="boolean"
            ),
            AGE,
            column("PreemptionPolicy", doc="scheduling/v1.PriorityClass.preemptionPolicy"),
        ),
        render=_priority_class,
    ),
}
