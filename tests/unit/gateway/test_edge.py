"""Routing: which handler gets which path, and what gets to none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.apiserver.http import Exchange
from fleet.errors import ApiError, Forbidden, MethodNotAllowed, NotFound, Unauthorized
from fleet.gateway import metrics
from fleet.gateway.edge import Edge, Roots
from fleet.gateway.health import Health
from fleet.gateway.routes import route_of
from fleet.kube.wire import Request, Response, UserInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

ADMIN = UserInfo("fleet:admin", ("fleet:admins", "system:authenticated"))


class Root:
    def __init__(self, name: str) -> None:
        self.name = name

    async def handle(self, request: Request) -> Response:
        return Response(200, {}, f"{self.name} {request.path}".encode())


def edge(health: Health | None = None) -> Edge:
    roots = Roots(
        merged=Root("merged"),
        objects=Root("objects"),
        members=Root("members"),
        actions={"/fleet/join": Root("join")},
    )
    return Edge(roots, health=health or Health())


def request(
    path: str,
    *,
    method: str = "GET",
    user: UserInfo = ADMIN,
    headers: Mapping[str, str] | None = None,
    query: tuple[tuple[str, str], ...] = (),
) -> Request:
    return Request(method, path, query, headers or {}, user=user)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/v1/pods", "merged /api/v1/pods"),
        ("/clustersx/api", "merged /clustersx/api"),
        ("/fleetx", "merged /fleetx"),
        ("/apis/fleet.dev/v1alpha1/clusters/east", "merged /apis/fleet.dev/v1alpha1/clusters/east"),
        ("/fleet", "objects /"),
        ("/fleet/", "objects /"),
        ("/fleet/api/v1/pods", "objects /api/v1/pods"),
        ("/fleet/clusters/x", "objects /clusters/x"),
        ("/fleet/join", "join /fleet/join"),
        ("/clusters/east", "members /east/"),
        ("/clusters/east/", "members /east/"),
        ("/clusters/east/api/v1/pods", "members /east/api/v1/pods"),
        ("/clusters/east/version", "members /east/version"),
        ("/clusters/east/livez", "members /east/livez"),
    ],
)
async def test_paths_lead_to_roots(path: str, answer: str) -> None:
    assert (await edge().handle(request(path))).body == answer.encode()


@pytest.mark.parametrize("path", ["/api/v1/pods", "/fleet/join", "/clusters/east/api", "/metrics"])
async def test_nobody_but_an_administrator_is_let_through(path: str) -> None:
    jane = UserInfo("jane", ("dev", "system:authenticated"))
    with pytest.raises(Forbidden, match="jane is not in fleet:admins"):
        await edge().handle(request(path, user=jane))


@pytest.mark.parametrize("path", ["/version", "/fleet/version"])
async def test_the_version_is_the_gateways(path: str) -> None:
    document = orjson.loads((await edge().handle(request(path))).body)  # type: ignore[arg-type]
    assert re.fullmatch(r"v1\.\d+\.\d+\+fleet-\d+\.\d+\.\d+", document["gitVersion"])
    assert document["major"] == "1" and document["minor"].isdecimal()
    assert all(isinstance(value, str) for value in document.values())


async def test_the_index_lists_the_roots() -> None:
    document = orjson.loads((await edge().handle(request("/"))).body)  # type: ignore[arg-type]
    assert {"/api", "/apis", "/version", "/fleet", "/clusters"} <= set(document["paths"])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (request("/clusters"), NotFound),
        (request("/clusters/"), NotFound),
        (request("/version", method="POST"), MethodNotAllowed),
        (request("/metrics", method="PUT"), MethodNotAllowed),
        (request("/livez", method="DELETE"), MethodNotAllowed),
        (request("/livez/none"), NotFound),
        (request("/api", headers={"impersonate-user": "root"}), Forbidden),
        (request("/clusters/east/api", headers={"impersonate-group": "x"}), Forbidden),
        (request("/fleet/join", headers={"impersonate-extra-a": "x"}), Forbidden),
        (Request("GET", "/api"), Unauthorized),
        (Request("GET", "/metrics"), Unauthorized),
        (Request("POST", "/fleet/join"), Unauthorized),
        (Request("GET", "/clusters/east/livez"), Unauthorized),
    ],
)
async def test_what_gets_to_no_root(wrong: Request, error: type[ApiError]) -> None:
    with pytest.raises(error):
        await edge().handle(wrong)


# -- health


async def text(health: Health, path: str, *query: str) -> tuple[int, str]:
    pairs = tuple((name, value) for name, _, value in (part.partition("=") for part in query))
    response = await edge(health).handle(Request("GET", path, pairs))
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


async def test_health_in_upstreams_words() -> None:
    health = Health()
    health.add("store", lambda: None)
    assert await text(health, "/livez") == (200, "ok")
    assert await text(health, "/livez/store") == (200, "ok")
    assert await text(health, "/livez", "verbose") == (
        200,
        "[+]ping ok\n[+]store ok\nlivez check passed\n",
    )
    assert await text(health, "/readyz", "verbose=1", "exclude=store", "exclude=nothing") == (
        200,
        "[+]ping ok\n[+]shutdown ok\n[+]store excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "nothing"\n'
        "readyz check passed\n",
    )


async def test_a_failed_check_fails_health_and_keeps_its_reason_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = Health()
    health.add("store", lambda: "disk /secret is full")
    status, body = await text(health, "/healthz")
    assert status == 500
    assert "[-]store failed: reason withheld\n" in body and "secret" not in body
    assert body.endswith("healthz check failed\n")
    assert "disk /secret is full" in caplog.text
    assert (await text(health, "/livez", "exclude=store"))[0] == 200


async def test_a_stopping_gateway_lives_and_is_not_ready() -> None:
    health = Health()
    health.stop()
    assert (await text(health, "/livez"))[0] == 200
    assert (await text(health, "/readyz"))[0] == 500


# -- metrics


def exchange(path: str, status: int = 200, **parts: Any) -> Exchange:
    return Exchange("GET", path, "id", status=status, **parts)


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


async def test_requests_are_counted_by_root_verb_resource_and_code() -> None:
    labels = {"root": "merged", "verb": "list", "resource": "deployments.apps", "code": "200"}
    before = value("fleet_requests_total", **labels)
    observer = metrics.RequestMetrics()
    observer.observe(exchange("/apis/apps/v1/deployments", sent_bytes=10, seconds=0.2))
    assert value("fleet_requests_total", **labels) == before + 1
    response = await edge().handle(request("/metrics"))
    assert b"fleet_request_duration_seconds_bucket" in response.body  # type: ignore[operator]
    assert response.headers["Content-Type"].startswith("text/plain")


def test_guessed_paths_do_not_grow_the_series() -> None:
    observer = metrics.RequestMetrics()
    labels = {"root": "member", "verb": "list", "resource": "other", "code": "404"}
    before = value("fleet_requests_total", **labels)
    for number in range(50):
        observer.observe(exchange(f"/clusters/east/apis/g{number}/v1/things", 404))
    assert value("fleet_requests_total", **labels) == before + 50


def test_streams_do_not_count_as_slow_requests() -> None:
    labels = {"root": "objects", "verb": "watch", "resource": "pods"}
    before = value("fleet_request_duration_seconds_count", **labels)
    observer = metrics.RequestMetrics()
    watch = exchange("/fleet/api/v1/pods", query=(("watch", "1"),), long_running=True, seconds=900)
    observer.observe(watch)
    assert value("fleet_request_duration_seconds_count", **labels) == before
    assert value("fleet_requests_total", **labels, code="200") >= 1


def test_route_of_keeps_the_rest_of_the_path() -> None:
    assert route_of("/clusters/east/a//b") == ("member", "/a//b", "east")


def test_every_metric_of_the_gateway_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    ours = [
        part
        for part in vars(metrics).values()
        if isinstance(part, metrics.Counter | metrics.Gauge | metrics.Histogram)
    ]
    assert len(ours) == 5
    for metric in ours:
        for described in metric.describe():
            suffix = "_total" if described.type == "counter" else ""
            assert f"`{described.name}{suffix}`" in reference
