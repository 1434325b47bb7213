"""What crosses to a member, and what never does."""

from __future__ import annotations

from adapters.kubernetes import headers
from adapters.kubernetes.kubeconfig import Impersonation
from adapters.kubernetes.proxies import proxy_for

NOBODY = Impersonation()


def test_the_callers_own_credentials_never_cross():
    sent = headers.towards_member(
        {
            "authorization": "Bearer callers-own",
            "cookie": "session",
            "x-remote-user": "admin",
            "x-remote-group": "system:masters",
            "host": "gateway",
            "content-length": "7",
            "accept-encoding": "br",
            "accept": "application/json",
            "user-agent": "kubectl",
        },
        authorization="Bearer ours",
        impersonation=NOBODY,
    )
    assert sorted(sent.items()) == [
        ("Authorization", "Bearer ours"),
        ("accept", "application/json"),
        ("user-agent", "kubectl"),
    ]


def test_without_a_credential_no_authorization_is_sent():
    sent = headers.towards_member({"authorization": "x"}, authorization="", impersonation=NOBODY)
    assert dict(sent) == {"User-Agent": "fleet"}


def test_hop_by_hop_headers_stop_here_and_no_name_in_one_takes_the_identity_away():
    """CVE-2022-31676, and kin: a client must not choose which of the gateway's headers arrive."""
    sent = headers.towards_member(
        {
            "connection": "keep-alive, impersonate-user, authorization",
            "impersonate-user": "fleet:jane",
            "te": "trailers",
            "x-kept": "2",
        },
        authorization="Bearer ours",
        impersonation=NOBODY,
    )
    assert dict(sent) == {
        "impersonate-user": "fleet:jane",
        "x-kept": "2",
        "User-Agent": "fleet",
        "Authorization": "Bearer ours",
    }


def test_groups_are_sent_one_a_line():
    sent = headers.towards_member(
        {"impersonate-user": "fleet:jane", "impersonate-group": "a,b\nsystem:authenticated"},
        authorization="",
        impersonation=Impersonation(user="joe", groups=("x",)),
    )
    assert sent.getall("Impersonate-Group") == ["a,b", "system:authenticated"]
    assert sent.getall("Impersonate-User") == ["fleet:jane"]


def test_the_kubeconfigs_impersonation_fills_in():
    sent = headers.towards_member(
        {"impersonate-group": "system:masters"},
        authorization="",
        impersonation=Impersonation("joe", "7", ("a", "b"), {"k": ("v", "w")}),
    )
    assert sent.getall("Impersonate-User") == ["joe"]
    assert sent.getall("Impersonate-Group") == ["a", "b"]
    assert sent.getall("Impersonate-Extra-k") == ["v", "w"]
    assert sent.getall("Impersonate-Uid") == ["7"]


def test_every_offered_protocol_has_a_line_of_its_own():
    offered = {
        "connection": "Upgrade",
        "upgrade": "SPDY/3.1",
        "x-stream-protocol-version": "v4.channel.k8s.io, v3.channel.k8s.io",
    }
    plain = headers.towards_member(offered, authorization="", impersonation=NOBODY)
    sent = headers.for_upgrade(offered, plain)
    assert sent["Upgrade"] == "SPDY/3.1"
    assert sent["Connection"] == "Upgrade"
    assert sent.getall("X-Stream-Protocol-Version") == ["v4.channel.k8s.io", "v3.channel.k8s.io"]


def test_warnings_become_texts():
    kept, warnings = headers.from_member(
        [
            ("Content-Type", "application/json"),
            ("Warning", '299 - "say \\"no\\" to v1beta1", 299 - "and, twice"'),
            ("Warning", "odd"),
            ("Content-Encoding", "gzip"),
            ("Content-Length", "7"),
            ("Set-Cookie", "a=b"),
            ("Vary", "a"),
            ("Vary", "b"),
        ]
    )
    assert kept == {"content-type": "application/json", "vary": "a, b"}
    assert warnings == ('say "no" to v1beta1', "and, twice", "odd")


def test_proxies_of_the_kubeconfig_and_the_environment(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    assert proxy_for("https://east.example", "http://mine:1") == "http://mine:1"
    assert proxy_for("https://east.example", "") == "http://proxy.example:3128"
    assert proxy_for("http://east.example", "") == ""
    assert proxy_for("https://127.0.0.1:6443", "") == ""
    assert proxy_for("https://[::1]:6443", "") == ""
    assert proxy_for("https://localhost:6443", "") == ""
    monkeypatch.setenv("no_proxy", "east.example")
    assert proxy_for("https://east.example", "") == ""
    monkeypatch.setenv("https_proxy", "socks5://proxy.example:1080")
    assert proxy_for("https://west.example", "") == ""
