"""A fleet Job as the gateway stores it, and what a member sees of it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from fleet.dispatch.jobs import JobWorkload
from fleet.kube import defaults


class MakeJob(Protocol):
    def __call__(self, name: str = "train", **spec: Any) -> JobWorkload: ...


@pytest.fixture
def make_job() -> MakeJob:
    """A stored Job in `payments`; `pod` are fields of its pod's spec, the rest of the Job's."""

    def make(
        name: str = "train",
        *,
        pod: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        **spec: Any,
    ) -> JobWorkload:
        container = {"name": "main", "image": "busybox"}
        given = {
            "completions": 6,
            "parallelism": 6,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"app": "train"}},
                "spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})},
            },
        }
        obj = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, **(metadata or {})},
            "spec": {k: v for k, v in (given | spec).items() if v is not None},
        }
        return JobWorkload(
            defaults.create(
                "batch",
                "v1",
                "Job",
                obj,
                namespace="payments",
                now=datetime(2026, 11, 29, tzinfo=UTC),
                uid="5b0c1a4e-0000-4000-8000-000000000001",
                random=random.Random(1),
            )
        )

    return make
