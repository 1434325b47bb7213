"""Deployments and their ReplicaSets: pods in the number that is asked for, replaced step by step.

`replicas` decides for one ReplicaSet, `decision` for one Deployment (`rollout` how many pods each
of its sets gets, `templates` and `revisions` which set is the one asked for, `progress` what the
status says); `claims` settles for both what belongs to whom. All of these are pure; the
`controller` of each reads the present state, asks them, and writes the difference.

Invariant: no step of a rollout takes more pods than `maxSurge` allows, nor leaves fewer available
than `maxUnavailable` does, however late the counts that it goes by are. Next step: `scheduler`
and `kubelet` take the pods up from the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtualnode.deployments.controller import DeploymentController
from virtualnode.deployments.replicasets import ReplicaSetController

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.events import Recorder
    from virtualnode.objects import Objects

__all__ = ["DeploymentController", "ReplicaSetController", "controllers"]


def controllers(
    objects: Objects, recorder: Recorder, *, now: Callable[[], datetime]
) -> tuple[tuple[str, ReplicaSetController | DeploymentController], ...]:
    """The controllers by name; each `run`s until cancelled. The store must be open."""
    return (
        ("replica sets", ReplicaSetController(objects, recorder, now=now)),
        ("deployments", DeploymentController(objects, recorder, now=now)),
    )
