"""Content negotiation: which form of an answer a client wants, which form a body has.

As k8s.io/apiserver `negotiation`, with one difference: an Accept clause that cannot be served
for this very object is passed over and the next one tried, where upstream may answer 406 too
early (kubernetes#138582). Answers are JSON or YAML; protobuf is understood in bodies only, so a
client that accepts nothing else gets 406. Encoding what was chosen is the API edge's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fleet.errors import BadRequest, NotAcceptable, UnsupportedMediaType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Form = Literal["object", "table", "partial", "partiallist"]
Include = Literal["Metadata", "Object", "None"]
Encoding = Literal["json", "yaml"]
BodyForm = Literal["json", "yaml", "protobuf"]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ANSWERS = (JSON, YAML)
BODIES = (JSON, YAML, PROTOBUF)
_STREAMS = (f"{JSON};stream=watch",)

_FORMS: Mapping[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partiallist",
}
_META = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of an answer. `version` is that of `meta.k8s.io` for forms other than "object";
    `include` says what a Table's rows carry beside their cells."""

    form: Form = "object"
    include: Include = "Metadata"
    version: Literal["v1", "v1beta1"] = "v1"
    encoding: Encoding = "json"
    pretty: bool = False

    @property
    def content_type(self) -> str:
        return JSON if self.encoding == "json" else YAML


@dataclass(frozen=True, slots=True)
class _Clause:
    """One entry of an Accept header."""

    media: str
    parameters: Mapping[str, str]
    quality: float

    def offers(self, media: str) -> bool:
        kind = media.partition("/")[0]
        return self.media in (media, f"{kind}/*", "*/*")


def _clauses(accept: str) -> list[_Clause]:
    """Best first: by quality, then whole types before wildcards, else as written."""
    found = [_clause(part) for part in _split(accept, ",") if part.strip()]
    return sorted(found, key=lambda c: (-c.quality, c.media == "*/*", c.media.endswith("/*")))


def _clause(text: str) -> _Clause:
    media, *rest = _split(text, ";")
    parameters: dict[str, str] = {}
    quality = 1.0
    for part in rest:
        key, given, value = part.partition("=")
        key, value = key.strip().lower(), value.strip().strip('"')
        if not given:
            continue
        if key == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
        else:
            parameters[key] = value
    media = media.strip().lower()
    return _Clause("*/*" if media == "*" else media, parameters, quality)


def _split(text: str, separator: str) -> Iterator[str]:
    """Split outside double quotes."""
    start, quoted = 0, False
    for i, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == separator and not quoted:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def representation(
    accept: str | None,
    *,
    table_ok: bool = True,
    listing: bool | None = None,
    watch: bool = False,
    include: str | None = None,
    pretty: bool = False,
) -> Representation:
    """The best form that `accept` asks for and that can be made.

    `table_ok` is False for kinds without a Table (create-only reviews). `listing` tells whether
    the answer is a list (None: do not care) and so which of PartialObjectMetadata and its list
    fits; a watch sends single objects. `include` is the query's `includeObject`.

    Raises NotAcceptable when no clause can be served, BadRequest for an unknown `include`.
    """
    streams = _STREAMS if watch else ANSWERS
    refused = ""
    for clause in _clauses(accept) if accept and accept.strip() else [_Clause("*/*", {}, 1.0)]:
        for media in (JSON,) if watch else ANSWERS:
            if not clause.offers(media) or clause.parameters.get("stream", "watch") != "watch":
                continue
            target = _target(clause.parameters)
            if target is None or (target[0] == "table" and not table_ok):
                continue
            form, version = target
            if why := _misfit(form, listing=False if watch else listing):
                refused = refused or why
                continue
            return Representation(
                form=form,
                include=_include(include) if form == "table" else "Metadata",
                version=version,
                encoding="json" if media == JSON else "yaml",
                pretty=(pretty or clause.parameters.get("pretty") == "1") and not watch,
            )
    raise NotAcceptable(refused) if refused else NotAcceptable.of(streams)


def _target(parameters: Mapping[str, str]) -> tuple[Form, Literal["v1", "v1beta1"]] | None:
    """The conversion a clause asks for; None for one that does not exist."""
    if parameters.get("sv", "v1") not in ("", "v1"):
        return None
    if not any(key in parameters for key in ("as", "g", "v")):
        return "object", "v1"
    form = _FORMS.get(parameters.get("as", ""))
    version = parameters.get("v")
    if form is None or parameters.get("g") != _META or version not in ("v1", "v1beta1"):
        return None
    return form, "v1" if version == "v1" else "v1beta1"


def _misfit(form: Form, *, listing: bool | None) -> str:
    """Why a metadata form does not fit the answer's shape, in upstream's words."""
    if form == "partial" and listing is True:
        return "you requested PartialObjectMetadata, but the requested object is a list"
    if form == "partiallist" and listing is False:
        return "you requested PartialObjectMetadataList, but the requested object is not a list"
    return ""


def _include(value: str | None) -> Include:
    match value or "Metadata":
        case "Metadata":
            return "Metadata"
        case "Object":
            return "Object"
        case "None":
            return "None"
    raise BadRequest(
        f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


def discovery_form(accept: str | None) -> Literal["v2", "v2beta1", "legacy"]:
    """Which discovery document `/api` and `/apis` answer with.

    Raises NotAcceptable when neither an aggregated nor the plain form can be served.
    """
    if not accept or not accept.strip():
        return "legacy"
    for clause in _clauses(accept):
        if not clause.offers(JSON):
            continue
        asked = clause.parameters
        if not any(key in asked for key in ("as", "g", "v")):
            return "legacy"
        if asked.get("as") == "APIGroupDiscoveryList" and asked.get("g") == "apidiscovery.k8s.io":
            if asked.get("v") == "v2":
                return "v2"
            if asked.get("v") == "v2beta1":
                return "v2beta1"
    raise NotAcceptable.of(ANSWERS)


def body_form(content_type: str | None) -> BodyForm:
    """The form of a create, update or delete body; without a Content-Type it is JSON.

    Raises UnsupportedMediaType.
    """
    match (content_type or JSON).partition(";")[0].strip().lower():
        case "application/json":
            return "json"
        case "application/yaml":
            return "yaml"
        case "application/vnd.kubernetes.protobuf":
            return "protobuf"
    raise UnsupportedMediaType.of(BODIES)
