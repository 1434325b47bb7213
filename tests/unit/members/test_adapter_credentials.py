"""Credentials that are read again, issued again, and refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import stat
import sys
import tempfile
import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from adapters.kubernetes import credentials, tls
from adapters.kubernetes.credentials import Credentials
from adapters.kubernetes.kubeconfig import ExecPlugin, Kubeconfig
from fleet.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)


class Wall:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def pair(ends: datetime) -> tuple[bytes, bytes]:
    """A self-signed certificate that ends at `ends`, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=9))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def config(**parts) -> Kubeconfig:
    return Kubeconfig(where='kc: context "east"', server="https://east.example", **parts)


def script(path: Path, body: str) -> str:
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def wall() -> Wall:
    return Wall()


async def test_fixed_parts_make_one_credential_for_ever(wall):
    source = Credentials(config(token="abc"), now=wall)
    first = await source.current()
    wall.passes(10**8)
    assert await source.current() is first
    assert first.authorization == "Bearer abc"
    assert isinstance(first.tls, ssl.SSLContext)
    assert await Credentials(config(username="u", password="p:w"), now=wall).current() != first


async def test_basic_authentication(wall):
    made = await Credentials(config(username="u", password="p:w"), now=wall).current()
    assert made.authorization == "Basic dTpwOnc="


async def test_a_plain_server_has_no_tls(wall):
    plain = Kubeconfig(where="kc", server="http://127.0.0.1:8001")
    made = await Credentials(plain, now=wall).current()
    assert made.tls is None
    assert made.authorization == ""


async def test_a_token_file_is_read_again_when_it_may_have_been_rotated(wall, tmp_path):
    path = tmp_path / "token"
    path.write_text("one\n")
    source = Credentials(config(token_file=path, token="fallback"), now=wall)
    first = await source.current()
    path.write_text("two")
    assert await source.current() is first
    wall.passes(11)
    second = await source.current()
    assert (first.authorization, second.authorization) == ("Bearer one", "Bearer two")
    assert first.tls is second.tls
    path.write_text("three")
    wall.passes(4)
    assert (await source.renewed(second)).authorization == "Bearer three"
    path.write_text("")
    wall.passes(11)
    assert (await source.current()).authorization == "Bearer fallback"


async def test_a_refusal_just_after_reading_does_not_read_again(wall, tmp_path):
    path = tmp_path / "token"
    path.write_text("one")
    source = Credentials(config(token_file=path), now=wall)
    first = await source.current()
    path.write_text("two")
    wall.passes(1)
    assert await source.renewed(first) is first


async def test_a_file_that_is_away_for_a_moment_does_no_harm(wall, tmp_path, caplog):
    path = tmp_path / "token"
    path.write_text("one")
    source = Credentials(config(token_file=path), now=wall)
    first = await source.current()
    path.unlink()
    wall.passes(11)
    assert await source.current() is first
    assert "token" in caplog.text
    path.write_text("two")
    wall.passes(4)
    assert (await source.current()).authorization == "Bearer two"


async def test_a_file_that_was_never_there_is_told(wall, tmp_path):
    source = Credentials(config(token_file=tmp_path / "token"), now=wall)
    with pytest.raises(ConfigError, match=r"tokenFile: .*No such file"):
        await source.current()
    (tmp_path / "token").write_text("one")
    with pytest.raises(ConfigError):
        await source.current()  # not asked for every request
    wall.passes(4)
    assert (await source.current()).authorization == "Bearer one"


async def test_certificates_are_reloaded_and_the_tls_context_with_them(wall, tmp_path):
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    for path, content in zip((certificate, key), pair(START + timedelta(days=1)), strict=True):
        path.write_bytes(content)
    source = Credentials(config(certificate=certificate, key=key), now=wall)
    first = await source.current()
    assert first.expires_at == START + timedelta(days=1)
    wall.passes(11)
    assert (await source.current()).tls is first.tls
    for path, content in zip((certificate, key), pair(START + timedelta(days=9)), strict=True):
        path.write_bytes(content)
    wall.passes(11)
    second = await source.current()
    assert second.tls is not first.tls
    assert second.expires_at == source.expires_at == START + timedelta(days=9)


async def test_a_certificate_and_a_key_that_do_not_belong_together(wall):
    certificate, _ = pair(START)
    _, key = pair(START)
    with pytest.raises(ConfigError, match="cannot be used together"):
        await Credentials(config(certificate=certificate, key=key), now=wall).current()


@pytest.mark.parametrize("part", ["certificate", "authority"])
async def test_pem_that_holds_rubbish(wall, part):
    rubbish = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    _, key = pair(START)
    parts = {part: rubbish} | ({"key": key} if part == "certificate" else {})
    with pytest.raises(ConfigError, match=r"no (usable|readable) certificate"):
        await Credentials(config(**parts), now=wall).current()


def test_an_encrypted_key_is_refused_without_asking():
    certificate, key = pair(START)
    loaded = serialization.load_pem_private_key(key, None)
    locked = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    with pytest.raises(ConfigError, match="unencrypted PEM"):
        tls.context(where="kc", authority=b"", insecure=False, certificate=certificate, key=locked)


def test_insecure_checks_nothing():
    made = tls.context(where="kc", authority=b"", insecure=True, certificate=b"", key=b"")
    assert made.verify_mode is ssl.CERT_NONE
    assert not made.check_hostname


ISSUER = """
    import json, os, pathlib
    told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    server = told["spec"].get("cluster", {}).get("server", "")
    count = pathlib.Path(os.environ["COUNT"])
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    print(json.dumps({
        "kind": "ExecCredential",
        "apiVersion": told["apiVersion"],
        "status": {
            "token": server + str(len(count.read_text())),
            "expirationTimestamp": os.environ.get("ENDS"),
        },
    }))
"""


def issuer(tmp_path: Path, **parts) -> ExecPlugin:
    env = {"COUNT": str(tmp_path / "count"), **parts.pop("env", {})}
    return ExecPlugin(command=script(tmp_path / "issue", ISSUER), env=env, **parts)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_exec_plugin_is_asked_once_until_what_it_gave_ends(wall, tmp_path, version):
    plugin = issuer(
        tmp_path,
        env={"ENDS": "2026-01-01T00:01:00Z"},
        api_version=f"client.authentication.k8s.io/{version}",
        cluster={"server": "s"},
    )
    source = Credentials(config(exec_plugin=plugin), now=wall)
    several = await asyncio.gather(*(source.current() for _ in range(5)))
    assert {each.authorization for each in several} == {"Bearer s1"}
    assert several[0].expires_at == START + timedelta(minutes=1)
    wall.passes(44)
    assert (await source.current()).authorization == "Bearer s1"
    wall.passes(2)
    assert (await source.current()).authorization == "Bearer s2"


async def test_a_refused_credential_is_issued_anew(wall, tmp_path):
    source = Credentials(config(exec_plugin=issuer(tmp_path)), now=wall)
    first = await source.current()
    assert first.expires_at is None
    wall.passes(60)
    second = await source.renewed(first)
    assert (first.authorization, second.authorization) == ("Bearer 1", "Bearer 2")
    assert await source.renewed(first) is second  # another request that was refused as well


async def test_a_plugin_may_issue_certificates(wall, tmp_path):
    certificate, key = pair(START + timedelta(days=1))
    body = f"""
        import json
        print(json.dumps({{"kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "status": {{"clientCertificateData": {certificate.decode()!r},
                        "clientKeyData": {key.decode()!r}}}}}))
    """
    plugin = ExecPlugin(command=script(tmp_path / "issue", body))
    made = await Credentials(config(exec_plugin=plugin), now=wall).current()
    assert made.authorization == ""
    assert made.expires_at == START + timedelta(days=1)


FAULTS = {
    "fails": ("import sys; sys.exit('no such profile')", "exited with 1: no such profile"),
    "rubbish": ("print('hello')", "no ExecCredential"),
    "another-version": (
        'print(\'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"}\')',
        "printed ExecCredential client.authentication.k8s.io/v1beta1",
    ),
    "nothing": (
        'print(\'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}\')',
        "neither a token nor",
    ),
    "half": (
        'print(\'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
        '"status":{"clientKeyData":"k","token":"t"}}\')',
        "without the other",
    ),
    "odd-time": (
        'print(\'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
        '"status":{"token":"t","expirationTimestamp":"soon"}}\')',
        "'soon' is no time",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_of_plugins_are_told(wall, tmp_path, fault):
    body, said = FAULTS[fault]
    plugin = ExecPlugin(command=script(tmp_path / "issue", body))
    with pytest.raises(ConfigError) as caught:
        await Credentials(config(exec_plugin=plugin), now=wall).current()
    assert said in str(caught.value)
    assert 'context "east"' in str(caught.value)


async def test_a_missing_plugin_gives_its_own_hint(wall):
    plugin = ExecPlugin(command="/nowhere/login", install_hint="get it from your administrator")
    with pytest.raises(ConfigError, match="get it from your administrator"):
        await Credentials(config(exec_plugin=plugin), now=wall).current()


async def test_a_plugin_that_hangs_is_ended_with_its_caller(wall, tmp_path):
    body = f"""
        import os, time
        with open({str(tmp_path / "pid.part")!r}, "w") as file:
            file.write(str(os.getpid()))
        os.replace({str(tmp_path / "pid.part")!r}, {str(tmp_path / "pid")!r})
        os.close(os.open({str(tmp_path / "begun")!r}, os.O_WRONLY))
        time.sleep(3600)
    """
    os.mkfifo(tmp_path / "begun")
    plugin = ExecPlugin(command=script(tmp_path / "issue", body))
    source = Credentials(config(exec_plugin=plugin), now=wall)
    first, second = (asyncio.create_task(source.current()) for _ in range(2))
    await asyncio.to_thread((tmp_path / "begun").read_bytes)
    pid = int((tmp_path / "pid").read_text())
    second.cancel()
    first.cancel()
    await asyncio.wait({first, second})
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_whoever_waits_takes_over_when_the_first_is_cancelled(wall, tmp_path):
    os.mkfifo(tmp_path / "begun")
    body = f"""
        import json, os, pathlib, time
        begun = pathlib.Path({str(tmp_path / "again")!r})
        if not begun.exists():
            begun.touch()
            os.close(os.open({str(tmp_path / "begun")!r}, os.O_WRONLY))
            time.sleep(3600)
        print(json.dumps({{"kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": "t"}}}}))
    """
    plugin = ExecPlugin(command=script(tmp_path / "issue", body))
    source = Credentials(config(exec_plugin=plugin), now=wall)
    first, second = (asyncio.create_task(source.current()) for _ in range(2))
    await asyncio.to_thread((tmp_path / "begun").read_bytes)
    first.cancel()
    assert (await second).authorization == "Bearer t"


def provided(name: str, **settings: str) -> dict[str, object]:
    user = {"auth-provider": {"name": name, "config": settings}}
    return {
        "current-context": "member",
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "member"}}],
        "clusters": [{"name": "member", "cluster": {"server": "https://east.example"}}],
        "users": [{"name": "member", "user": user}],
    }


async def test_an_auth_provider_is_asked_through_the_kubernetes_package(wall):
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'none'})}.{part({'exp': 4102444800})}.{part('signature')}"
    made = await Credentials(
        config(auth_provider=provided("oidc", **{"id-token": token})), now=wall
    ).current()
    assert made.authorization == f"Bearer {token}"


async def test_an_auth_provider_that_gives_nothing(wall):
    with pytest.raises(ConfigError, match="auth-provider: gave no token"):
        await Credentials(config(auth_provider=provided("unheard-of")), now=wall).current()


@pytest.mark.parametrize("descriptors", ["/proc/self/fd", "/nowhere"], ids=["proc", "no proc"])
def test_no_key_is_left_in_a_file(tmp_path, monkeypatch, descriptors):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tls, "_DESCRIPTORS", descriptors)
    certificate, key = pair(START)
    tls.context(where="kc", authority=b"", insecure=False, certificate=certificate, key=key)
    assert list(tmp_path.iterdir()) == []
    assert stat.S_IMODE(tmp_path.stat().st_mode)


def test_now_is_aware_of_its_zone():
    assert credentials.utc_now().tzinfo is UTC
