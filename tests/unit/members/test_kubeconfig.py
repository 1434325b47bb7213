"""Kubeconfigs: every form that is understood, and what is said of those that are not."""

from __future__ import annotations

import base64
import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.kubernetes.kubeconfig import flatten, load
from fleet.errors import ConfigError

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def document(user: Any = None, **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "east",
        "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://east.example:6443", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def raw(user: Any = None, **cluster: Any) -> bytes:
    return yaml.safe_dump(document(user, **cluster)).encode()


def complaint(source: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(source, **options)
    return str(caught.value)


def test_inline_certificates():
    config = load(
        raw(
            {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)},
            **{"certificate-authority-data": encoded(CERTIFICATE), "tls-server-name": "kubernetes"},
        )
    )
    assert config.server == "https://east.example:6443"
    assert (config.certificate, config.key, config.authority) == (CERTIFICATE, KEY, CERTIFICATE)
    assert config.server_name == "kubernetes"
    assert not config.insecure


def test_files_are_found_beside_the_kubeconfig(tmp_path):
    pki = tmp_path / "pki"
    pki.mkdir()
    (pki / "ca.crt").write_bytes(CERTIFICATE)
    (pki / "me.crt").write_bytes(CERTIFICATE)
    (pki / "me.key").write_bytes(KEY)
    (tmp_path / "token").write_text("abc")
    path = tmp_path / "config"
    path.write_bytes(
        raw(
            {
                "client-certificate": "pki/me.crt",
                "client-key": str(pki / "me.key"),
                "tokenFile": "token",
            },
            **{"certificate-authority": "pki/ca.crt"},
        )
    )
    config = load(path)
    assert config.certificate == pki / "me.crt"
    assert config.key == pki / "me.key"
    assert config.token_file == tmp_path / "token"
    assert config.authority == CERTIFICATE
    flat = load(flatten(path))
    assert (flat.certificate, flat.key, flat.authority) == (CERTIFICATE, KEY, CERTIFICATE)
    assert flat.token_file == tmp_path / "token"


def test_inline_data_wins_over_a_file_that_is_not_even_there():
    config = load(raw(**{"certificate-authority-data": encoded(CERTIFICATE),
                         "certificate-authority": "/nowhere/ca.crt"}))  # fmt: skip
    assert config.authority == CERTIFICATE


def test_flattening_keeps_one_context_and_every_setting():
    whole = document(
        {"token": "t", "as": "jane", "as-groups": ["a", "b"]}, **{"proxy-url": "http://p:3128"}
    )
    whole["contexts"].append({"name": "west", "context": {"cluster": "c", "user": "v"}})
    whole["users"].append({"name": "v", "user": {"token": "secret of another"}})
    flat = flatten(yaml.safe_dump(whole).encode())
    assert b"secret of another" not in flat
    before, after = load(yaml.safe_dump(whole).encode()), load(flat)
    assert after.where == 'kubeconfig: context "east"'
    for part in ("server", "proxy_url", "token", "impersonation"):
        assert getattr(after, part) == getattr(before, part)


def test_a_list_of_files_is_merged_and_the_first_wins(tmp_path):
    first = document({"token": "one"})
    del first["clusters"]
    (tmp_path / "a").write_bytes(yaml.safe_dump(first).encode())
    (tmp_path / "b").write_bytes(raw({"token": "two"}))
    config = load([tmp_path / "a", tmp_path / "missing", tmp_path / "b"])
    assert config.token == "one"
    assert config.server == "https://east.example:6443"


@pytest.mark.parametrize(
    ("given", "server"),
    [
        ("https://h:1/prefix/k8s/", "https://h:1/prefix/k8s"),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
        ("east.example", "https://east.example"),
        ("https://[::1]:6443", "https://[::1]:6443"),
    ],
)
def test_servers(given, server):
    assert load(raw(server=given)).server == server


def test_impersonation_fields():
    config = load(
        raw({"as": "jane", "as-uid": "7", "as-groups": ["dev"], "as-user-extra": {"k": ["v"]}})
    )
    assert config.impersonation.user == "jane"
    assert config.impersonation.groups == ("dev",)
    assert config.impersonation.extra == {"k": ("v",)}
    assert "as: is missing" in complaint(raw({"as-groups": ["dev"]}))


def test_exec_plugins(tmp_path):
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--cluster", 7],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    path = tmp_path / "config"
    path.write_bytes(
        raw(
            {"exec": spec},
            extensions=[
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
            ],
        )
    )
    plugin = load(path).exec_plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert plugin.args == ("--cluster", "7")
    assert plugin.env == {"A": "1"}
    assert plugin.cluster == {
        "server": "https://east.example:6443",
        "config": {"audience": "x"},
    }
    assert load(flatten(path)).exec_plugin == plugin


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}
CASES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "not-yaml": (b"a: [", ("not YAML", "line 2")),
    "a-list": (b"- a", ("no mapping",)),
    "another-kind": (b"kind: Pod", ('"Pod"',)),
    "empty": (b"", ("no contexts",)),
    "no-server": (raw(server=""), ('context "east"', 'cluster "c"', "server: is missing")),
    "odd-server": (raw(server="ftp://x"), ("server", "no http or https URL")),
    "odd-port": (raw(server="https://x:port"), ("server", "no URL")),
    "authority-not-base64": (
        raw(**{"certificate-authority-data": "@@"}),
        ('cluster "c"', "certificate-authority-data", "base64"),
    ),
    "authority-not-pem": (
        raw(**{"certificate-authority-data": encoded(b"junk")}),
        ("certificate-authority-data", "no PEM"),
    ),
    "authority-missing": (
        raw(**{"certificate-authority": "/nowhere/ca.crt"}),
        ("certificate-authority", "/nowhere/ca.crt", "No such file"),
    ),
    "relative-file-in-bytes": (
        raw(**{"certificate-authority": "ca.crt"}),
        ("certificate-authority", "ca.crt", "absolute"),
    ),
    "insecure-and-authority": (
        raw(**{"certificate-authority-data": encoded(CERTIFICATE),
               "insecure-skip-tls-verify": True}),
        ("insecure-skip-tls-verify", "contradicts"),
    ),
    "certificate-without-key": (
        raw({"client-certificate-data": encoded(CERTIFICATE)}),
        ('user "u"', "client-key: is missing"),
    ),
    "key-without-certificate": (
        raw({"client-key-data": encoded(KEY)}),
        ("client-certificate: is missing",),
    ),
    "token-of-another-type": (raw({"token": 7}), ("token", "must be a string")),
    "token-file-missing": (raw({"tokenFile": "/nowhere/token"}), ("tokenFile", "use token")),
    "two-ways-in": (raw({"token": "t", "username": "u"}), ("username", "remove one")),
    "socks": (raw(**{"proxy-url": "socks5://p:1080"}), ("proxy-url", "no http or https proxy")),
    "exec-without-command": (
        raw({"exec": {**EXEC, "command": ""}}), ("exec: command", "missing"),
    ),
    "exec-old": (
        raw({"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        ("exec: apiVersion", "v1alpha1", "v1beta1"),
    ),
    "exec-interactive": (
        raw({"exec": {**EXEC, "interactiveMode": "Always"}}), ("interactiveMode", "terminal"),
    ),
    "exec-env": (raw({"exec": {**EXEC, "env": ["A=1"]}}), ("exec: env", "name and value")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named(case):
    source, parts = CASES[case]
    said = complaint(source)
    assert said.startswith("kubeconfig:")
    for part in parts:
        assert part in said


WHOLE = document(
    {
        "client-certificate-data": encoded(CERTIFICATE),
        "client-key-data": encoded(KEY),
        "token": "t",
        "username": "u",
        "password": "p",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev"],
        "as-user-extra": {"k": ["v"]},
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/true",
            "args": ["a"],
            "env": [{"name": "A", "value": "B"}],
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        },
        "auth-provider": {"name": "oidc", "config": {"a": "b"}},
    },
    **{
        "certificate-authority-data": encoded(CERTIFICATE),
        "proxy-url": "http://p:1",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
    },
)


def places(node: Any, *above: Any) -> list[tuple[Any, ...]]:
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    return [above, *(place for key in keys for place in places(node[key], *above, key))]


@pytest.mark.parametrize("wrong", [None, 5, True, "x", [1], {"a": 1}], ids=repr)
@pytest.mark.parametrize("place", places(WHOLE)[1:], ids=lambda place: ".".join(map(str, place)))
def test_a_value_of_the_wrong_type_anywhere_is_at_most_a_complaint(place, wrong):
    changed = copy.deepcopy(WHOLE)
    node = changed
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = wrong
    for read in (load, flatten):
        with contextlib.suppress(ConfigError):
            read(yaml.safe_dump(changed).encode())


def test_contexts_that_are_not_there():
    two = document()
    two["contexts"].append({"name": "west", "context": {"cluster": "gone", "user": "u"}})
    source = yaml.safe_dump(two).encode()
    assert "there are: east, west" in complaint(source, context="north")
    assert 'context "west": there is no cluster "gone"' in complaint(source, context="west")
    del two["current-context"]
    assert "name one of east, west" in complaint(yaml.safe_dump(two).encode())


def test_the_only_context_needs_no_mention():
    one = document({"token": "t"})
    del one["current-context"]
    assert load(yaml.safe_dump(one).encode()).token == "t"


@pytest.mark.parametrize("entry", [{"name": "u"}, {"name": "u", "user": None}])
def test_a_user_without_anything_is_nobody_in_particular(entry):
    one = {**document(), "users": [entry]}
    assert load(yaml.safe_dump(one).encode()).token == ""


@pytest.mark.parametrize("kind", ["user", "cluster", "context"])
def test_an_entry_that_is_no_mapping_says_what_is_missing(kind):
    one = document()
    one[f"{kind}s"][0][kind] = "text"
    assert f"has no mapping under `{kind}:`" in complaint(yaml.safe_dump(one).encode())


def test_missing_and_unreadable_files(tmp_path):
    assert "there is no such file" in complaint(tmp_path / "config")
    assert "cannot be read" in complaint(tmp_path)
    assert "no kubeconfig found" in complaint([tmp_path / "a", tmp_path / "b"])


def test_a_kubeconfig_from_the_network_must_not_choose_commands():
    assert "not allowed here" in complaint(raw({"exec": EXEC}), allow_exec=False)
    assert load(raw({"token": "t"}), allow_exec=False).token == "t"


def test_secrets_stay_out_of_complaints():
    said = complaint(raw({"token": "hush-hush", "username": "u", "password": "hush-too"}))
    assert "hush" not in said


def test_where_names_the_file(tmp_path):
    path = Path(tmp_path / "config")
    path.write_bytes(raw())
    assert load(path).where == f'{path}: context "east"'
