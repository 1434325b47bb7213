"""Parts that several kinds share, as Kubernetes has them: selectors, taints, conditions.

Of values alone; `policies.registry` says which kinds there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fleet.kube.selectors import LabelSelector
from policies.base import REQUIRED, Items, Model, setting
from policies.scalars import Sum, Time

if TYPE_CHECKING:
    from collections.abc import Mapping

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Expression(Model):
    """One requirement of a selector."""

    key: str = setting(REQUIRED, "Key of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = setting(
        REQUIRED, "How the label is compared with the values."
    )
    values: Items[str] = setting((), "Values for In and NotIn.")


class Selector(Model):
    """A label selector; without any requirement it selects everything."""

    match_labels: dict[str, str] = setting({}, "Labels that must have exactly these values.")
    match_expressions: Items[Expression] = setting((), "Requirements that must all hold.")

    def compiled(self) -> LabelSelector:
        """Raises BadRequest with what is wrong: keys and values are checked here, not before."""
        return LabelSelector.from_object(self.model_dump(by_alias=True))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.compiled().matches(labels)


class Taint(Model):
    """Keeps work away from a cluster unless it tolerates this."""

    key: str = setting(REQUIRED, "Key of the taint.")
    value: str = setting("", "Value of the taint.")
    effect: Effect = setting("NoSchedule", "What it does to work that does not tolerate it.")
    time_added: Time | None = setting(None, "When it was added.")


class Toleration(Model):
    """Lets work onto a cluster with a matching taint."""

    key: str = setting("", "Key of the taint; empty with operator Exists tolerates every taint.")
    operator: Literal["Equal", "Exists"] = setting(
        "Equal", "Whether the value must be equal or the key alone counts."
    )
    value: str = setting("", "Value of the taint, for operator Equal.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = setting(
        "", "Effect of the taint; empty means any."
    )

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


class Condition(Model):
    """One aspect of an object's state."""

    type: str = setting(REQUIRED, "Name of the condition.")
    status: Literal["True", "False", "Unknown"] = setting(REQUIRED, "Whether it holds.")
    reason: str = setting("", "One word for programs: why.")
    message: str = setting("", "The same for people.")
    last_transition_time: Time | None = setting(None, "When the status last changed.")
    observed_generation: int = setting(0, "The generation of the spec that it was judged by.")


class SecretKeyReference(Model):
    """A key of a Secret."""

    name: str = setting(REQUIRED, "Name of the Secret.")
    namespace: str = setting("fleet-system", "Namespace of the Secret.")
    key: str = setting("kubeconfig", "Key in its data.")


WhenSpent = Literal["Queue", "Refuse", "Warn"]


class Budget(Model):
    """What may be spent in a calendar month (UTC), and what happens to work above it."""

    per_month: Sum = setting(REQUIRED, 'The ceiling with its currency, e.g. "200000 USD".')
    when_spent: WhenSpent = setting(
        "Queue",
        "What becomes of work that would go above it: it waits for the next month, is refused, or "
        "runs with a warning.",
    )
