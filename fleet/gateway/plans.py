"""`POST /fleet/plan`: what would be decided about objects that are not stored, and what would help.

The body is `{"objects": […]}`: workloads, and FleetQuotas, LendingPolicies, PlacementPolicies,
PriceBooks and Namespaces as they would be.
Each goes first through what a write of it would go through, as the caller, with `dryRun=All` and
`fieldValidation=Strict` as kubectl asks for it, on top of those before it; so what would be refused
is refused here, with the same words, and what would be warned of is warned of. Then the planner is
asked, and nothing is written. With `"exact": true` each decision is held against the proven
optimum, where OR-tools is installed. `fleet plan` shows the answer.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from fleet.apiserver.bodies import json_response
from fleet.dispatch import kinds
from fleet.dispatch import record as records
from fleet.dispatch.planning import Question
from fleet.errors import AlreadyExists, BadRequest, ConfigError, Invalid
from fleet.gateway.actions import body_of
from fleet.gateway.givens import row
from fleet.gateway.loans import account_written
from fleet.gateway.own import NAMESPACES
from fleet.kube.paths import path_of
from fleet.kube.wire import Request
from fleet.scheduling.exact.neighbourhood import Neighbourhoods
from fleet.scheduling.exact.solver import Limits, cp_sat
from fleet.scheduling.exact.verdict import Verdict
from fleet.scheduling.lending import record
from fleet.scheduling.lending.loans import Lend, Recall, Settle
from fleet.scheduling.requests import quantity_text
from fleet.store.objects import Draft
from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement import name_of
from policies.scalars import amount_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.gateway.placing import Outlook, Placing
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler, Response
    from fleet.scheduling.exact.gang import Objective
    from fleet.scheduling.foretelling import Foretold
    from fleet.scheduling.together import Gain
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

_RULES: Final = {
    each.kind: each
    for each in (
        FLEET_QUOTA.resource, LENDING_POLICY.resource, PLACEMENT_POLICY.resource,
        PRICE_BOOK.resource, row(NAMESPACES),
    )
}  # fmt: skip
"""What work is placed by."""
_LOANS: Final[Mapping[type, str]] = {Lend: "Lent", Recall: "Recalled", Settle: "Settled"}
_MOST: Final = 100
_MOST_EXACT: Final = 10
_FURTHER: Final = Limits(work=2.0)
_LEVELS: Final = {
    "tier": "tier", "clusters": "clusters", "unknown": "unpriced", "micro": "perHour",
    "blocks": "blocks",
}  # fmt: skip
_NO_PLACE_WANTED: Final = Verdict(
    "NotCompared", why="it waits for its turn or for quota, not for a place"
)


class Plan:
    """See the module."""

    def __init__(
        self, store: ObjectStore, own: Callable[[Draft], Handler], placing: Placing
    ) -> None:
        """`own` gives what stands for the fleet's own objects, with those of a draft on top."""
        self._store = store
        self._own = own
        self._placing = placing
        self._aside = asyncio.Semaphore(1)
        """For what takes long, in a thread beside the rounds: of one request at a time."""

    async def handle(self, request: Request) -> Response:
        body = body_of(request)
        objects, exact = body.get("objects"), body.get("exact", False)
        if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
            raise BadRequest("a plan needs objects, a list")
        if len(objects) > _MOST:
            raise BadRequest(f"a plan is made of at most {_MOST} objects, these are {len(objects)}")
        if not isinstance(exact, bool):
            raise BadRequest("exact is true or false")
        draft = Draft(self._store)
        own, written, warnings = self._own(draft), list[Object](), dict[str, None]()
        for each in objects:
            answer = await _written(own, request, each)
            stored: Object = orjson.loads(cast("bytes", answer.body))
            if stored["kind"] in _RULES:
                draft.put(_RULES[stored["kind"]], stored)
            written.append(stored)
            warnings |= dict.fromkeys(answer.warnings)
        rules = [each for each in written if each["kind"] in _RULES]
        questions = [self._question(each) for each in written if each["kind"] not in _RULES]
        if exact and len(questions) > _MOST_EXACT:
            raise BadRequest(
                f"at most {_MOST_EXACT} workloads are held against the optimum at a time, these "
                f"are {len(questions)}"
            )
        settled = {_uid(each): item for each in questions if (item := _settled(each)) is not None}
        open_ = [each for each in questions if _uid(each) not in settled]
        outlook = self._placing.foretell(open_, rules, measured=exact)
        workloads = {_uid(each): each.workload for each in open_}
        told = {
            each.uid: _item(each, outlook, workloads[each.uid]) for each in outlook.prospect.told
        }
        if exact:
            async with self._aside:
                verdicts = await asyncio.to_thread(_verdicts, outlook)
            for uid, item in told.items():
                if item["verdict"] != "Runs":
                    item["exact"] = _exact(verdicts.get(uid, _NO_PLACE_WANTED))
        unsound = {
            _uid(each): _unsound(each, outlook.unsound[_uid(each)])
            for each in open_
            if _uid(each) in outlook.unsound
        }
        items = {**settled, **unsound, **told}
        asked = dict.fromkeys(map(_uid, questions))
        found = _answer(outlook, [items[uid] for uid in asked if uid in items])
        if (together := outlook.prospect.together) is not None:
            polish = Neighbourhoods(_FURTHER).improve if exact else None
            async with self._aside:
                gain = await asyncio.to_thread(together.gain, polish)
            if gain is not None:
                found["together"] = _together(gain, workloads)
        return replace(json_response(200, found), warnings=tuple(warnings))

    def words(self, workload: Object) -> str:
        """What would be decided about one that a dry run let through, for a warning; "" where that
        is nothing."""
        question = self._question(workload)
        if (settled := _settled(question)) is not None:
            return f"would wait: {settled['message']}" if settled["verdict"] == "Suspended" else ""
        try:
            outlook = self._placing.foretell([question], ())
        except Invalid as error:
            return error.message
        for why in outlook.unsound.values():
            return f"would wait: {why.message}"
        for told in outlook.prospect.told:
            status = outlook.placements.get(told.uid, {}).get("status") or {}
            match told.verdict:
                case "Starts":
                    loan = f", {record.words(told.loan)}" if told.loan is not None else ""
                    above = f"; warning: {over}" if (over := status.get("overBudget")) else ""
                    return f"would start: {status.get('usedClusters', '')}{loan}{above}"
                case "Evicts":
                    gone = ", ".join(map(outlook.name, told.victims))
                    return f"would start; {gone} would be ended for it"
                case "Refused":
                    return f"would be refused, and be Failed at once: {status.get('message', '')}"
                case "Waits":
                    then = outlook.later.get(told.uid)
                    used = f"; then: {_place(then['status'])}" if then is not None else ""
                    return f"would wait: {status.get('message', '')}{used}"
        return ""

    def _question(self, workload: Object) -> Question:
        kind = kinds.kind_of(workload)
        assert kind is not None
        metadata = workload["metadata"]
        entry = self._store.get(
            PLACEMENT.resource, metadata["namespace"], name_of(kind.name, metadata["name"])
        )
        reference = {name: workload[name] for name in ("apiVersion", "kind")} | {
            name: metadata[name] for name in ("name", "uid")
        }
        placement = entry.parse() if entry is not None else {}
        if (placement.get("spec") or {}).get("workload") != reference:
            placement = {"metadata": {}, "spec": {"workload": reference}, "status": {}}
        return Question(
            workload=workload,
            placement=placement,
            unsplittable=kind.read(workload).unsplittable(),
        )


async def _written(own: Handler, request: Request, obj: Object) -> Response:
    """The answer to a dry run of a write, with the object as it would be stored. Raises what that
    would be refused with."""
    resource = _resource(obj)
    metadata = obj.get("metadata") or {}
    namespace = str(metadata.get("namespace") or "default") if resource.namespaced else ""
    headers = {"content-type": "application/json", "accept": "application/json"}
    query = (("dryRun", "All"), ("fieldValidation", "Strict"))
    place = path_of(resource.gvr, namespace=namespace)
    body = orjson.dumps(obj)
    try:
        return await own.handle(
            Request("POST", place, query, headers=headers, body=body, user=request.user)
        )
    except AlreadyExists:
        headers["content-type"] = "application/merge-patch+json"
        path = path_of(resource.gvr, namespace=namespace, name=str(metadata["name"]))
        return await own.handle(
            Request("PATCH", path, query, headers=headers, body=body, user=request.user)
        )


def _verdicts(outlook: Outlook) -> dict[str, Verdict]:
    """Raises BadRequest where OR-tools is not installed."""
    try:
        cp_sat()
    except ConfigError as error:
        raise BadRequest(f"{error}, where the gateway runs; then start it again") from error
    return {uid: each.verdict() for uid, each in outlook.comparisons.items()}


def _exact(found: Verdict) -> Object:
    told: Object = {"verdict": found.word}
    if found.reached is not None:
        told["objective"] = _objective(found.reached)
    if found.best is not None and found.word != "Optimal":
        clusters: dict[str, int] = {}
        for share in found.best.shares:
            clusters[share.cluster] = clusters.get(share.cluster, 0) + share.pods
        told |= {"optimum": _objective(found.best.objective), "clusters": clusters}
    if found.level:
        told |= {"level": _LEVELS[found.level], "gap": round(found.gap, 6)}
    if found.bound is not None:
        told["bound"] = _amount(found.level, found.bound)
    return told | ({"message": found.why} if found.why else {})


def _objective(levels: Objective) -> Object:
    """What is made least, the first first."""
    return {
        name: _amount(field, getattr(levels, field)) for field, name in _LEVELS.items()
    }  # fmt: skip


def _amount(field: str, value: int) -> int | str:
    return amount_text(value) if field == "micro" else value


def _place(status: Object) -> str:
    """Where a later tier would put it; why nowhere, of what would be refused then."""
    return str(status.get("usedClusters") or f"refused, {status.get('message', '')}")


def _uid(question: Question) -> str:
    return str(question.workload["metadata"]["uid"])


def _settled(question: Question) -> Object | None:
    """The item of a workload that dispatch asks nobody about; None for one that it does."""
    kind = kinds.kind_of(question.workload)
    assert kind is not None
    workload = kind.read(question.workload)
    ask = workload.ask()
    record = records.read(question.placement.get("status") or {})
    if workload.finished or record.ended:
        verdict, message = "Ended", "has ended; what has ended is not placed again"
    elif workload.deleting:
        verdict, message = "Leaves", "is being deleted"
    elif workload.others:
        verdict, message = "NotPlaced", "is left to its manager, whom it names itself"
    elif ask.suspended:
        verdict, message = "Suspended", "it is suspended, and placed when that is over"
    else:
        return None
    return {
        "kind": kind.name,
        "namespace": workload.namespace,
        "name": workload.name,
        "verdict": verdict,
        "message": message,
    }


def _unsound(question: Question, error: Invalid) -> Object:
    """The item of one that a write lets in, and that waits until what it names is there."""
    metadata = question.workload["metadata"]
    status = {"phase": "Queued", "reason": "Invalid", "message": error.message}
    return {
        "kind": question.workload["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "verdict": "Waits",
        "placement": {"spec": question.placement["spec"], "status": status},
    }


def _resource(obj: Object) -> Resource:
    """Raises BadRequest for what nobody places and no rule of placing."""
    kind, version = str(obj.get("kind") or ""), str(obj.get("apiVersion") or "")
    known = {name: each.gvr.group_version for name, each in kinds.KINDS.items()}
    known |= {name: each.api_version for name, each in _RULES.items()}
    every = ", ".join(known)
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    told = f"{kind or 'an object'} {name}" if name else kind or "an object"
    if not kind:
        raise BadRequest(f"{told}: kind is missing; a plan is made of {every}")
    if kind not in known:
        named = " ".join(filter(None, (version, kind)))
        raise BadRequest(f"{named} has no part in a plan; {every} have")
    if version != known[kind]:
        wrong = f"apiVersion is {version}" if version else "apiVersion is missing"
        raise BadRequest(f"{told}: {wrong}; that of a {kind} is {known[kind]}")
    rule = _RULES.get(kind)
    return rule if rule is not None else kinds.row_of(kinds.KINDS[kind].gvr)


def _answer(outlook: Outlook, items: list[Object]) -> Object:
    return {
        "items": items,
        "overcommitted": [
            {
                "quota": node,
                "name": key.resource,
                **({"accelerator": key.accelerator} if key.accelerator else {}),
                "by": quantity_text(key.resource, by),
            }
            for node, key, by in outlook.prospect.over
        ],
        "starts": [outlook.name(each.uid) for each in outlook.prospect.starts],
        "waits": [
            {
                "workload": outlook.name(uid),
                "before": {"reason": before.word, "message": before.message},
                "reason": after.word,
                "message": after.message,
            }
            for uid, (before, after) in outlook.waits.items()
        ],
        "evictions": [
            {"workload": outlook.name(each.uid), "evicts": [*map(outlook.name, each.victims)]}
            for each in outlook.prospect.evictions
        ],
        "loans": [_loan(each, outlook) for each in outlook.prospect.loans],
        "donors": [{"policy": each.policy, "quota": each.donor, **account_written(each)}
            for each in outlook.prospect.donors
        ],
    }  # fmt: skip


def _together(gain: Gain, workloads: Mapping[str, Object]) -> Object:
    """How many would start one by one, and where all could be that could start at once."""
    return {
        "starts": gain.starts,
        "could": len(gain.places),
        "workloads": [
            {
                "kind": workloads[uid]["kind"],
                "namespace": workloads[uid]["metadata"]["namespace"],
                "name": workloads[uid]["metadata"]["name"],
                "clusters": dict(sorted(places.items())),
            }
            for uid, places in gain.places.items()
        ],
    }


def _loan(decided: Lend | Recall | Settle, outlook: Outlook) -> Object:
    """What would become of a loan of work that is there already."""
    return {
        "verdict": _LOANS[type(decided)],
        "workload": outlook.name(decided.uid),
        "loan": record.written(decided.loan),
    }


def _item(told: Foretold, outlook: Outlook, workload: Object) -> Object:
    metadata = workload["metadata"]
    found: Object = {
        "kind": workload["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "verdict": told.verdict,
    }
    if told.victims:
        found["evicts"] = [outlook.name(uid) for uid in told.victims]
    if told.why is not None and told.why.starts_s is not None:
        starts = datetime.fromtimestamp(told.why.starts_s, UTC)
        found["startsAt"] = starts.strftime("%Y-%m-%dT%H:%M:%SZ")
    if told.later is not None and told.after_s is not None and told.uid in outlook.later:
        found["later"] = {
            "after": duration_text(timedelta(seconds=math.ceil(told.after_s))),
            "verdict": told.later.verdict,
            "placement": outlook.later[told.uid],
        }
        if told.later.victims:
            found["later"]["evicts"] = [outlook.name(uid) for uid in told.later.victims]
    placement = outlook.placements.get(told.uid)
    return found | ({"placement": placement} if placement is not None else {})
