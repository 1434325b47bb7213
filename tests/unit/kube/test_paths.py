from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import MethodNotAllowed, NotFound
from fleet.kube import builtin
from fleet.kube.paths import Target, check, parse_target, path_of
from fleet.kube.resources import GroupVersionResource

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
SERVICES = GroupVersionResource("", "v1", "services")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")


def target(method: str, url: str) -> Target | None:
    path, _, query = url.partition("?")
    pairs = [tuple(part.partition("=")[::2]) for part in query.split("&") if part]
    return parse_target(method, path, pairs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/api/v1/pods", Target("list", PODS)),
        ("HEAD", "/api/v1/pods", Target("list", PODS, method="HEAD")),
        ("GET", "/api/v1/pods/", Target("list", PODS)),
        ("GET", "/api/v1/namespaces/a/pods", Target("list", PODS, "a")),
        ("GET", "/api/v1/namespaces/payments.east/pods", Target("list", PODS, "payments.east")),
        ("GET", "/api/v1/namespaces/payments.*/pods", Target("list", PODS, "payments.*")),
        ("GET", "/api/v1/namespaces/a/pods/x", Target("get", PODS, "a", "x")),
        ("GET", "/api/v1/nodes/n1.east", Target("get", NODES, name="n1.east")),
        ("GET", "/api/v1/namespaces", Target("list", NAMESPACES)),
        ("GET", "/api/v1/namespaces/a", Target("get", NAMESPACES, name="a")),
        ("PUT", "/api/v1/namespaces/a", Target("update", NAMESPACES, name="a", method="PUT")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            Target("update", NAMESPACES, name="a", subresource="finalize", method="PUT"),
        ),
        (
            "GET",
            "/api/v1/namespaces/a/status",
            Target("get", NAMESPACES, name="a", subresource="status"),
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/a/deployments/web/scale",
            Target("get", DEPLOYMENTS, "a", "web", "scale"),
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods/x/eviction",
            Target("create", PODS, "a", "x", "eviction", method="POST"),
        ),
        ("POST", "/api/v1/namespaces/a/pods", Target("create", PODS, "a", method="POST")),
        ("PUT", "/api/v1/namespaces/a/pods/x", Target("update", PODS, "a", "x", method="PUT")),
        ("PATCH", "/api/v1/namespaces/a/pods/x", Target("patch", PODS, "a", "x", method="PATCH")),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods/x",
            Target("delete", PODS, "a", "x", method="DELETE"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods",
            Target("deletecollection", PODS, "a", method="DELETE"),
        ),
        ("GET", "/api/v1/namespaces/a/pods/x/log", Target("get", PODS, "a", "x", "log")),
        ("GET", "/api/v1/namespaces/a/pods/x/exec", Target("connect", PODS, "a", "x", "exec")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/x/portforward",
            Target("connect", PODS, "a", "x", "portforward", method="POST"),
        ),
        ("GET", "/api/v1/nodes/n/proxy", Target("connect", NODES, "", "n", "proxy")),
        ("GET", "/api/v1/nodes/n/proxy/", Target("connect", NODES, "", "n", "proxy", "/")),
        (
            "DELETE",
            "/api/v1/namespaces/a/services/https:web:80/proxy/a//b%/../c/",
            Target(
                "connect", SERVICES, "a", "https:web:80", "proxy", "/a//b%/../c/", method="DELETE"
            ),
        ),
    ],
)
def test_method_and_path_give_verb_and_target(method: str, url: str, expected: Target) -> None:
    assert target(method, url) == expected


@pytest.mark.parametrize("value", ["true", "1", "", "yes", "True"])
def test_any_value_of_watch_but_false_and_0_makes_a_list_a_watch(value: str) -> None:
    assert target("GET", f"/api/v1/pods?watch={value}") == Target("watch", PODS)


@pytest.mark.parametrize("value", ["false", "0", "FALSE"])
def test_watch_switched_off_stays_a_list(value: str) -> None:
    assert target("GET", f"/api/v1/pods?watch={value}") == Target("list", PODS)


def test_watch_on_a_named_object_is_ignored() -> None:
    assert target("GET", "/api/v1/namespaces/a/pods/x?watch=1") == Target("get", PODS, "a", "x")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/api/v1/watch/pods", Target("watch", PODS)),
        ("/api/v1/watch/namespaces/a/pods", Target("watch", PODS, "a")),
        ("/api/v1/watch/namespaces/a/pods/x", Target("watch", PODS, "a", "x")),
        ("/api/v1/watch/nodes/n", Target("watch", NODES, "", "n")),
        ("/api/v1/watch/namespaces", Target("watch", NAMESPACES)),
        ("/api/v1/watch/namespaces/a", Target("watch", NAMESPACES, "", "a")),
        ("/apis/apps/v1/watch/deployments", Target("watch", DEPLOYMENTS)),
    ],
)
def test_legacy_watch_prefix_equals_the_query_form(url: str, expected: Target) -> None:
    # kubernetes#125133
    assert target("GET", url) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        "/healthz/ping",
        "/openapi/v3/api/v1",
        "/api/v1//pods",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a/pods/../x",
        "/api/v1/namespaces/./pods",
        "/api/v1/namespaces/a/pods/a%2Fb",
        "/api/v1/namespaces/a/pods/x/status/more",
        "/api/v1/namespaces/a/pods/x/exec/more",
        "/apis/apps/v1/namespaces/a/deployments/x/proxy/more",
        "/api/v1/watch",
        "/api/v1/watch/namespaces/a/pods/x/status",
        "/api/v1/proxy/nodes/n",
        "/apis//v1/pods",
        "/apis/../v1/pods",
    ],
)
def test_paths_that_name_no_resource(path: str) -> None:
    assert parse_target("GET", path, ()) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/namespaces/a/pods"),
        ("PATCH", "/api/v1/namespaces/a/pods"),
        ("POST", "/api/v1/namespaces/a/pods/x"),
        ("OPTIONS", "/api/v1/pods"),
        ("TRACE", "/api/v1/namespaces/a/pods/x"),
        ("POST", "/api/v1/watch/pods"),
    ],
)
def test_a_method_without_a_route_has_no_verb_and_is_refused(method: str, path: str) -> None:
    found = target(method, path)
    assert found is not None
    assert found.verb == ""
    with pytest.raises(MethodNotAllowed):
        check(found, builtin_pods())


def builtin_pods():  # type: ignore[no-untyped-def]
    found = builtin.resource(PODS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("method", "right"),
    [("GET", "get"), ("POST", "create"), ("PUT", "update"), ("PATCH", "patch")],
)
def test_a_connection_asks_for_the_right_of_its_method(method: str, right: str) -> None:
    found = target(method, "/api/v1/nodes/n/proxy/metrics")
    assert found is not None
    assert (found.verb, found.right) == ("connect", right)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/a/nodes"),
        ("GET", "/api/v1/namespaces/a/nodes/n"),
        ("GET", "/api/v1/pods/x"),
        ("GET", "/api/v1/pods/x/log"),
        ("GET", "/api/v1/namespaces/a/pods/x/nothing"),
    ],
)
def test_a_path_that_does_not_fit_the_resource_is_not_found(method: str, path: str) -> None:
    found = target(method, path)
    assert found is not None
    resource = builtin.resource(found.gvr)
    assert resource is not None
    with pytest.raises(NotFound):
        check(found, resource)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/a/pods/x/log"),
        ("DELETE", "/api/v1/namespaces/a/pods/x/status"),
        ("GET", "/api/v1/namespaces/a/bindings"),
        ("DELETE", "/api/v1/namespaces"),
    ],
)
def test_a_verb_that_is_not_served_is_refused(method: str, path: str) -> None:
    found = target(method, path)
    assert found is not None
    resource = builtin.resource(found.gvr)
    assert resource is not None
    with pytest.raises(MethodNotAllowed):
        check(found, resource)


@pytest.mark.parametrize(
    ("method", "path", "subresource"),
    [
        ("GET", "/api/v1/pods", None),
        ("DELETE", "/api/v1/namespaces/a/pods", None),
        ("DELETE", "/api/v1/nodes", None),
        ("GET", "/api/v1/watch/namespaces/a/pods/x", None),
        ("GET", "/api/v1/watch/pods/x", None),
        ("GET", "/api/v1/namespaces/a/pods/x/exec", "exec"),
        ("DELETE", "/api/v1/nodes/n/proxy/x", "proxy"),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/w/scale", "scale"),
    ],
)
def test_what_fits_gives_the_row_of_its_subresource(
    method: str, path: str, subresource: str | None
) -> None:
    found = target(method, path)
    assert found is not None
    resource = builtin.resource(found.gvr)
    assert resource is not None
    row = check(found, resource)
    assert (row.name if row else None) == subresource


names = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True).filter(
    lambda name: name not in ("watch", "proxy", "namespaces", "status", "finalize")
)


@given(
    group=st.one_of(st.just(""), names),
    version=names,
    resource=names,
    namespace=st.one_of(st.just(""), names),
    name=names,
    subresource=st.one_of(st.just(""), names),
)
def test_path_of_is_undone_by_parse_target(
    group: str, version: str, resource: str, namespace: str, name: str, subresource: str
) -> None:
    gvr = GroupVersionResource(group, version, resource)
    path = path_of(gvr, namespace=namespace, name=name, subresource=subresource)
    found = parse_target("PATCH", path, ())
    assert found is not None
    assert (found.gvr, found.namespace, found.name, found.subresource) == (
        gvr,
        namespace,
        name,
        subresource,
    )


@given(st.text("/ap iv1s.%watchnmeproxy*", max_size=40), st.sampled_from(["GET", "POST", "PUT"]))
def test_no_path_is_an_error_and_no_target_has_bad_segments(path: str, method: str) -> None:
    found = parse_target(method, path, ())
    if found is not None:
        for segment in (found.namespace or "-", found.name or "-", found.subresource or "-"):
            assert segment not in (".", "..")
            assert "/" not in segment
            assert "%" not in segment
