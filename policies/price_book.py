"""Kind PriceBook: what an hour in a cluster costs, as joint offers.

An offer is a price for a whole node type in a cluster under one way of billing; prices of
different offers are never mixed into one that nobody offers.
"""

from __future__ import annotations

from typing import Literal

from policies.base import REQUIRED, Items, Model, setting
from policies.parts import Condition
from policies.scalars import Amount, Currency, Duration, Time

Billing = Literal["Owned", "Reserved", "OnDemand", "Spot"]


class Offer(Model):
    """One way to get one kind of node in one cluster."""

    cluster: str = setting(REQUIRED, "Name of the cluster.")
    accelerator: str = setting("", "Kind of accelerator it is for; empty means any or none.")
    instance_type: str = setting(
        "", "Type of node it is for (label node.kubernetes.io/instance-type); empty means any."
    )
    billing: Billing = setting("OnDemand", "How it is paid for; Owned alone costs nothing.")
    per_hour: Amount | None = setting(
        None, 'Price for an hour, e.g. "98.32"; must be absent where it is Owned.'
    )
    per: Literal["Node", "Accelerator"] = setting(
        "Node", "What the price is for: a node, of which a pod pays its share, or an accelerator."
    )
    interruptions_per_hour: Amount | None = setting(
        None,
        'Expected interruptions of a spot node per hour, e.g. "0.04"; what they cost is added to '
        "its price where offers are compared. Absent counts as none.",
    )
    as_of: Time | None = setting(
        None, "When the price was true; absent means that it does not age, as in a contract."
    )


class Egress(Model):
    """What data costs that leaves a network for a cluster."""

    from_: str = setting(REQUIRED, "Name of the network it leaves.", alias="from")
    to: str = setting(REQUIRED, "Name of the cluster it goes to.")
    per_gib: Amount = setting(REQUIRED, 'Price of one GiB, e.g. "0.05".', alias="perGiB")


class PriceBookSpec(Model):
    """Offers in one currency."""

    currency: Currency = setting("USD", "Currency of all its prices, by its three letters.")
    max_age: Duration = setting("24h", "A price older than this counts as unknown.")
    offers: Items[Offer] = setting((), "What can be had.")
    egress: Items[Egress] = setting((), "What it costs to move data.")


class PriceBookStatus(Model):
    """Whether it is acted on."""

    conditions: Items[Condition] = setting(
        (), "Valid (it can be read); absent where it always could be."
    )


class PriceBook(Model):
    """What an hour of work costs in each cluster.

    All books count together, those in the currency of the first of them by name: where several
    offers fit a node, whichever books they stand in, the cheapest that is not outdated is its
    price, and of several prices for the same egress the lowest. Kinds of accelerator are compared
    letter by letter.
    """

    spec: PriceBookSpec = setting({}, "The offers.")
    status: PriceBookStatus | None = setting(None, "Whether it is acted on.")
