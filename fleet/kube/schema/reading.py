"""Bodies to values: JSON and YAML parsed as an API server parses them.

Three things ordinary parsers lose are kept: repeated keys (`Repeated`), the text of a number that
is no integer (`Number`, so that `1e3` stays the quantity it is), and YAML's line numbers for
repeated keys. A body that does not parse is a BadRequest. `fields` takes it from here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class Number(float):
    """A JSON number with a fraction or an exponent, and how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text


class Repeated(dict[str, Any]):
    """An object in which a key occurred more than once; `pairs` has all of them in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class Unreadable(ValueError):
    """A body that is no JSON or no YAML; the message says where."""


def parse_json(body: bytes) -> Any:
    """The value of a JSON text; objects with repeated keys come as `Repeated`.

    Raises Unreadable.
    """
    try:
        value = json.loads(
            body, object_pairs_hook=_object, parse_float=Number, parse_constant=_no_constant
        )
        return _whole(value) if _SURROGATE.search(body) else value
    except json.JSONDecodeError as error:
        raise Unreadable(_go_syntax_error(error)) from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) or "exceeded max depth") from error


def _whole(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced, as Go's decoder does: no other text can be
    written down."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Repeated):
        return Repeated([(_whole(name), _whole(entry)) for name, entry in value.pairs])
    if isinstance(value, dict):
        return {_whole(name): _whole(entry) for name, entry in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value


_GO_PLACES = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}


def _go_syntax_error(error: json.JSONDecodeError) -> str:
    """What encoding/json says about the same fault."""
    place = _GO_PLACES.get(error.msg)
    if error.pos >= len(error.doc.rstrip()) or "Unterminated string" in error.msg:
        return "unexpected end of JSON input"
    if place is None:
        return f"{error.msg} at offset {error.pos}"
    character = error.doc[error.pos]
    return "invalid character '" + ("\\'" if character == "'" else character) + f"' {place}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else Repeated(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def word_of(value: Any) -> str:
    """How upstream calls a JSON value of the wrong type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "null"


def repeated_fields(value: Any) -> list[str]:
    """`duplicate field "PATH"` for each repeated key in an untyped value, in order."""
    found: dict[str, None] = {}

    def walk(item: Any, path: str) -> None:
        if isinstance(item, dict):
            seen = set()
            for name, entry in item.pairs if isinstance(item, Repeated) else item.items():
                where = f"{path}.{name}" if path else name
                if name in seen:
                    found[f'duplicate field "{where}"'] = None
                seen.add(name)
                walk(entry, where)
        elif isinstance(item, list):
            for index, entry in enumerate(item):
                walk(entry, f"{path}[{index}]")

    walk(value, "")
    return list(found)


_WRITTEN_OUT_BYTES: Final = 4 << 20
"""How large a document may become whose aliases are written out (CVE-2019-11253)."""


class _Loader(yaml.CSafeLoader):
    """YAML with the scalars that sigs.k8s.io/yaml knows: no timestamps, no base 60."""

    repeats: list[str]

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _written_out(node) > _WRITTEN_OUT_BYTES:
            raise yaml.YAMLError("document contains excessive aliasing")
        return node


def _written_out(root: yaml.Node) -> int:
    """Bytes of a document, at least, with every alias written out; 0 where it has none.

    Raises YAMLError for one that holds itself.
    """
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    aliased = False

    def size_of(node: yaml.Node) -> int:
        nonlocal aliased
        known = sizes.get(id(node))
        if known is not None:
            aliased = True
            return known
        if isinstance(node, yaml.ScalarNode):
            size = len(node.value) + 1
        else:
            if id(node) in open_nodes:
                raise yaml.YAMLError("anchor contains itself")
            open_nodes.add(id(node))
            parts = node.value
            if isinstance(node, yaml.MappingNode):
                parts = [each for pair in node.value for each in pair]
            size = 2 + sum(map(size_of, parts))
            open_nodes.discard(id(node))
        sizes[id(node)] = size
        return size

    size = size_of(root)
    return size if aliased else 0


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = _key(loader.construct_object(key_node, deep=True))
        if key in seen:
            line = key_node.start_mark.line + 1
            loader.repeats.append(f'  line {line}: key "{key}" already set in map')
        seen[key] = 1
    loader.flatten_mapping(node)
    return {
        _key(loader.construct_object(key, deep=True)): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


def _key(value: object) -> str:
    """A mapping key as JSON demands it: text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return repr(value)
    raise yaml.YAMLError(f"unsupported map key of type: {type(value).__name__}")


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    text = str(node.value).replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16)):
        if digits.lower().startswith(prefix):
            return sign * int(digits[2:], base)
    if re.fullmatch(r"0[0-7]+", digits):
        return sign * int(digits, 8)
    if re.fullmatch(r"[0-9]+", digits):
        return sign * int(digits)
    if digits.lower() in {".inf", ".nan"}:
        raise yaml.YAMLError(f"json: unsupported value: {text}")
    return Number(text)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    (
        "tag:yaml.org,2002:bool",
        r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
        "yYnNtTfFoO",
    ),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:merge", r"<<", "<"),
    (
        "tag:fleet,number",
        r"[-+]?(?:0b[01_]+|0o[0-7_]+|0[xX][0-9a-fA-F_]+|[0-9][0-9_]*"
        r"|(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(
        _tag, re.compile(f"(?:{_pattern})$"), ["" if c == "\0" else c for c in _first]
    )
_TRUE = {"y", "yes", "true", "on"}
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: str(node.value).lower() in _TRUE)
_Loader.add_constructor("tag:fleet,number", _construct_number)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def parse_yaml(body: bytes) -> tuple[Any, str]:
    """The value of a YAML document, and what strict decoding says about repeated keys or "".

    Raises Unreadable.
    """
    loader = _Loader(body)
    loader.repeats = []
    try:
        value = loader.get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(_yaml_error(error)) from error
    finally:
        loader.dispose()
    return value, _repeats(loader.repeats)


def _repeats(lines: Iterable[str]) -> str:
    found = "\n".join(lines)
    return f"yaml: unmarshal errors:\n{found}" if found else ""


def _yaml_error(error: BaseException) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"yaml: line {mark.line + 1}: {problem}" if mark else f"yaml: {problem}"
