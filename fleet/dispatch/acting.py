"""Acting: what `decisions` asks for, done in the members.

Each act compares what is there with what should be and writes the difference, so that doing it
again writes nothing. Names are deterministic and objects carry our marks: what has the name and not
the marks is somebody else's, and the act is refused with that reason. A refusal says that it would
not help to try again; anything else is raised and tried again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from cachetools import TTLCache

from fleet.dispatch import carrying, environment, rendezvous, shape, walls
from fleet.dispatch.acts import Act, Hold, Meet, Open, Release, Remove, Renew, Resize, Stop
from fleet.dispatch.leases import Leases, ShardKey, deadline_s
from fleet.dispatch.marks import (
    FLEET_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    slice_name,
)
from fleet.dispatch.sight import Refused
from fleet.errors import ApiError, MemberStatus, Unavailable
from fleet.kube.resources import GroupVersionResource
from fleet.view.naming import (
    OWNER_REFERENCE_ANNOTATION,
    SHARD_LABEL,
    WORKLOAD_NAMESPACE_LABEL,
    WORKLOAD_UID_LABEL,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.dispatch.kind import Kind
    from fleet.dispatch.premises import Premises
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.remote import Remote
    from fleet.dispatch.shape import Workload
    from fleet.dispatch.sight import ShardView, Sight
    from fleet.dispatch.walls import Neighbours

Object = dict[str, Any]

PODS: Final = GroupVersionResource("", "v1", "pods")
SERVICES: Final = GroupVersionResource("", "v1", "services")
SLICES: Final = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
# Not to be asked for again as it was asked for; other errors may pass.
_FINAL_CODES: Final = frozenset({400, 403, 404, 405, 413, 415, 422})
_UNHEARD_CODES: Final = frozenset({403, 404})
_REFUSALS: Final = frozenset({403, 422})
_FAULTS: Final = 429
_STOP_S: Final = 1
_NO_LIMIT: Final = 2**31 - 1
_KNOWN: Final = 65536
_KNOWN_S: Final = 60.0
_GATE_S: Final = 15.0  # pods that start anew need it: looked at with each poll


class Sources(Protocol):
    """The fleet's own objects, as far as workloads refer to them."""

    def get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Object | None: ...


class OnBlocks(Protocol):
    def __call__(self, cluster: str, blocks: Sequence[str], pod_spec: Object, /) -> Object:
        """The pod spec, bound to nodes of these blocks of a cluster."""


def anywhere(cluster: str, blocks: Sequence[str], pod_spec: Object) -> Object:
    """Where nobody has a say in it."""
    return pod_spec


class Actor:
    def __init__(
        self,
        remote: Callable[[str], Remote | None],
        *,
        premises: Premises,
        sources: Sources,
        fleet: str,
        leases: Leases,
        neighbours: Neighbours,
        on_blocks: OnBlocks = anywhere,
    ) -> None:
        """`on_blocks` binds a pod spec to blocks of a cluster; `neighbours` keeps work apart."""
        self._remote = remote
        self._on_blocks = on_blocks
        self._neighbours = neighbours
        self._premises = premises
        self._sources = sources
        self._fleet = fleet
        self._leases = leases
        # What was seen to stand in members as it should; asked for again from time to time.
        self._known: TTLCache[tuple[str, ...], bytes] = TTLCache(
            maxsize=_KNOWN, ttl=_KNOWN_S, timer=leases.now
        )
        self._gates: TTLCache[tuple[str, ...], bytes] = TTLCache(
            maxsize=_KNOWN, ttl=_GATE_S, timer=leases.now
        )

    async def act(
        self, act: Act, workload: Workload, record: Record, sights: Mapping[str, Sight]
    ) -> Refused | None:
        """Do it. Returns why it will not be, None when it is done or there was nothing to do.

        Raises ApiError and TransportError for what may go better next time.
        """
        cluster = act.cluster if isinstance(act, Remove | Release) else act.shard.cluster
        remote = self._remote(cluster)
        if remote is None or (
            not isinstance(act, Remove | Release) and remote.is_another(act.shard.cluster_uid)
        ):
            return None  # the next look says that it is no member
        try:
            match act:
                case Hold():
                    return await self._hold(remote, act, workload, record)
                case Renew():
                    await self._renew(remote, act, workload)
                case Resize():
                    await self._resize(remote, act, workload)
                case Meet():
                    return self._dated(await self._meet(remote, act, workload, record, sights))
                case Open():
                    return self._dated(await self._open(remote, act, workload, record, sights))
                case Stop():
                    await self._set_deadline(remote, act.shard, act.view, workload, _STOP_S)
                case Remove():
                    await self._remove(remote, act, workload)
                case Release():
                    await self._release(remote, act, workload)
        except ApiError as error:
            if isinstance(act, Hold) and error.http_code in _FINAL_CODES:
                if await self._passes(error, remote, cluster, workload):
                    raise
                return Refused(reason_of(error), str(error))
            if isinstance(act, Resize | Meet | Open) and error.http_code in _FINAL_CODES - {404}:
                return self._dated(Refused(reason_of(error), str(error)))
            if isinstance(act, Hold) and error.http_code == 409:
                return None  # there is such an object by now; the next look tells whose
            raise
        return None

    def _dated(self, refused: Refused | None) -> Refused | None:
        return None if refused is None else replace(refused, since=self._leases.now())

    async def _passes(
        self, error: ApiError, remote: Remote, cluster: str, workload: Workload
    ) -> bool:
        """Whether the refusal of a hold may be over with the next try: of a name or a namespace
        that the API server has not heard of. Where nobody can tell, it is none that passes."""
        if error.http_code not in _UNHEARD_CODES:
            return False
        try:
            return await self._premises.settle(remote, cluster, workload)
        except ApiError:
            return False

    # -- holds

    async def _hold(
        self, remote: Remote, act: Hold, workload: Workload, record: Record
    ) -> Refused | None:
        shard = act.shard
        refused = (
            await self._premises.namespace(remote, shard.cluster, workload.namespace)
            or await self._clear_gate(remote, shard, workload)
            or await self._service_is_free(remote, workload)
        )
        if refused is not None:
            return refused
        refused = await self._carry(remote, shard, workload, owner=None)
        if refused is not None:
            return refused
        whole = len(record.shards) == 1
        numbered = False
        if workload.indexed:
            numbered, why = await self._premises.numbers_globally(
                remote, shard.cluster, workload.namespace
            )
            if not numbered and not whole and not record.offsets:
                if await self._premises.settle(remote, shard.cluster, workload):
                    raise Unavailable(f"{shard.cluster} {why}")
                return Refused("NoGlobalIndex", why)
        priority_class, refused = await self._premises.hold_class(remote, shard.cluster, workload)
        refused = refused or await self._refuses_what_follows(remote, shard, workload, record)
        if refused is not None:
            return refused
        terms = shape.Terms(
            fleet=self._fleet,
            deadline_s=act.deadline_s,
            # Which failures of a gang count is for `budget` to say.
            backoff_limit=_NO_LIMIT
            if workload.gang
            else max(workload.ask().backoff_limit - record.failures, 0),
            whole=whole,
            global_index=numbered,
            priority_class=priority_class,
            names_from=lambda source: self._names_from(workload.namespace, source),
            on_nodes=lambda spec: self._on_blocks(shard.cluster, shard.blocks, spec),
            alone=lambda template: self._alone(shard.cluster, template, record),
            elastic=record.elastic,
        )
        kind = workload.kind
        wanted = kind.shape(workload, shard, terms)
        self._leases.granted(self._key(shard, workload), act.deadline_s)
        try:
            made = await remote.create(kind.gvr, workload.namespace, wanted)
        except ApiError as error:
            if error.http_code == 403 and await self._premises.lacks(remote, priority_class):
                raise Unavailable(f"PriorityClass {priority_class} was just deleted") from error
            raise
        owner = _owner(kind, made["metadata"]["name"], made["metadata"]["uid"])
        return await self._carry(remote, shard, workload, owner=owner) or await self._wall(
            remote, shard, workload, record, {}, owner=owner
        )

    # -- neighbours

    def _alone(self, cluster: str, template: Object, record: Record) -> Object:
        if not record.apart.exclusive:
            return template
        return self._neighbours.alone(cluster, template, work=record.apart.work)

    async def _wall(
        self,
        remote: Remote,
        shard: Shard,
        workload: Workload,
        record: Record,
        sights: Mapping[str, Sight],
        *,
        owner: Object,
    ) -> Refused | None:
        """See that the shard's NetworkPolicy, where it is to have one, is there and up to date.
        Never before the shard's object is, which it goes with, nor after its gate is open."""
        if not record.apart.walled:
            return None
        refused = self._premises.walls(shard.cluster)
        if refused is not None:
            return refused
        metadata = self._metadata(shard, workload, owner)
        wanted = walls.wall(self._neighbours, workload, shard, record, sights, metadata)
        known = ("wall", shard.cluster, owner["uid"])
        if self._knows(workload, known, wanted):
            return None
        refused = await self._ensure(
            remote, walls.NETWORK_POLICIES, wanted, workload.namespace, fields=("spec",)
        )
        if refused is None:
            self._note(workload, known, wanted)
        return refused

    async def _clear_gate(self, remote: Remote, shard: Shard, workload: Workload) -> Refused | None:
        """A gate that stands before its shard does is of another time: nobody may pass it."""
        name = workload.kind.gate_name(shard.name(workload.name))
        gate = await remote.get(carrying.CONFIG_MAPS, workload.namespace, name)
        if gate is None:
            return None
        if not self._is_ours(gate):
            return _taken("ConfigMap", name)
        # At once: a ConfigMap on its way out still lets pods through.
        await remote.delete(
            carrying.CONFIG_MAPS,
            workload.namespace,
            name,
            uid=gate["metadata"]["uid"],
            propagation="Background",
        )
        if await remote.get(carrying.CONFIG_MAPS, workload.namespace, name) is not None:
            raise Unavailable(f"ConfigMap {workload.namespace}/{name} of an earlier time lingers")
        return None

    async def _refuses_what_follows(
        self, remote: Remote, shard: Shard, workload: Workload, record: Record
    ) -> Refused | None:
        """Whether the member would refuse what the shard needs to begin: asked by dry runs while
        nothing has started, so that no gang begins half because of it. Raises ApiError for what it
        does refuse."""
        if record.apart.walled and (refused := self._premises.walls(shard.cluster)) is not None:
            return refused
        name = shard.name(workload.name)
        metadata = self._marks(shard, workload)
        gate = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "name": workload.kind.gate_name(name)},
        }
        wanted = [(carrying.CONFIG_MAPS, gate)]
        if workload.gang:
            wanted.append((SERVICES, rendezvous.service(workload.service, metadata)))
            slices = rendezvous.slices(workload.service, name, (), metadata)
            wanted += [(SLICES, each) for each in slices]
        if record.apart.walled:
            wall = walls.wall(self._neighbours, workload, shard, record, {}, metadata)
            wanted.append((walls.NETWORK_POLICIES, wall))
        for gvr, obj in wanted:
            try:
                await remote.create(gvr, workload.namespace, obj, dry_run=True)
            except ApiError as error:
                if error.http_code in _REFUSALS or error.http_code >= _FAULTS:
                    raise  # it would be so in earnest as well
                # Any other answer is none: what is there already, a webhook that knows no dry run.
        return None

    async def _service_is_free(self, remote: Remote, workload: Workload) -> Refused | None:
        if not workload.gang:
            return None
        present = await remote.get(SERVICES, workload.namespace, workload.service)
        if present is None or self._is_ours(present):
            return None
        return _taken("Service", workload.service)

    async def _carry(
        self, remote: Remote, shard: Shard, workload: Workload, *, owner: Object | None
    ) -> Refused | None:
        """See that copies of what the pods refer to are there and up to date."""
        for reference, wanted in self._copies(workload):
            gvr, name = reference
            known = ("copy", shard.cluster, gvr.resource, name, (owner or {}).get("uid", ""))
            if owner is not None and self._knows(workload, known, wanted):
                continue
            present = await remote.get(gvr, workload.namespace, name)
            if present is None:
                if owner is not None:
                    wanted["metadata"]["ownerReferences"] = [owner]
                await remote.create(gvr, workload.namespace, wanted)
            elif not carrying.is_copy(present, fleet=self._fleet):
                return _taken(wanted["kind"], name)
            elif changed := carrying.updated(present, wanted, gvr, owner=owner):
                await remote.update(gvr, changed)
            if owner is not None:
                self._note(workload, known, wanted)
        return None

    def _copies(self, workload: Workload) -> list[tuple[carrying.Reference, Object]]:
        """What of the fleet's goes along, in the order in which it has to be there."""
        wanted = carrying.references(workload.pod_spec)
        for reference in list(wanted):
            if reference.gvr == carrying.SERVICE_ACCOUNTS:
                account = self._sources.get(reference.gvr, workload.namespace, reference.name)
                wanted |= carrying.pull_secrets(account or {})
        copies = []
        for reference in sorted(wanted, key=lambda each: (carrying.CARRIED.index(each.gvr), each)):
            source = self._sources.get(reference.gvr, workload.namespace, reference.name)
            if source is None:
                continue  # the member's own, or missing there as it is here
            copied = carrying.copy_of(source, reference.gvr, fleet=self._fleet)
            if copied is not None:
                copies.append((reference, copied))
        return copies

    def _names_from(self, namespace: str, source: Mapping[str, Any]) -> list[str]:
        """The variables that one entry of `envFrom` brings, where the fleet has its object."""
        reference = carrying.source_of(source)
        found = reference and self._sources.get(reference.gvr, namespace, reference.name)
        prefix = source.get("prefix") or ""
        return [prefix + key for key in (found or {}).get("data") or ()]

    # -- leases

    async def _renew(self, remote: Remote, act: Renew, workload: Workload) -> None:
        self._leases.granted(self._key(act.shard, workload), act.seconds)
        await self._set_deadline(remote, act.shard, act.view, workload, act.seconds)

    async def _resize(self, remote: Remote, act: Resize, workload: Workload) -> None:
        kind, view = workload.kind, act.view
        await remote.merge(
            kind.gvr,
            workload.namespace,
            act.shard.name(workload.name),
            kind.sized(workload, act.shard.count),
            uid=view.uid,
            revision=view.revision,
        )

    async def _set_deadline(
        self, remote: Remote, shard: Shard, view: ShardView, workload: Workload, seconds: float
    ) -> None:
        """Have the shard end in `seconds`; to stop it, they are over by then."""
        ends = (
            _STOP_S if seconds <= _STOP_S else deadline_s(view, clock=remote.clock, seconds=seconds)
        )
        if view.deadline_s == ends:
            return
        kind = workload.kind
        await remote.merge(
            kind.gvr,
            workload.namespace,
            shard.name(workload.name),
            kind.deadline(ends),
            uid=view.uid,
            revision=view.revision,
        )

    async def _remove(self, remote: Remote, act: Remove, workload: Workload) -> None:
        kind = workload.kind
        await remote.delete(
            kind.gvr,
            workload.namespace,
            act.shard,
            uid=act.view.uid,
            propagation=kind.propagation,
            grace_s=act.grace_s,
        )

    async def _release(self, remote: Remote, act: Release, workload: Workload) -> None:
        marks = dict.fromkeys((FLEET_ANNOTATION, OWNER_REFERENCE_ANNOTATION))
        labels = dict.fromkeys((*shape.MARKS, MANAGED_BY_LABEL))
        kind = workload.kind
        await self._release_pods(remote, act, workload)
        await remote.merge(
            kind.gvr,
            workload.namespace,
            act.shard,
            {"metadata": {"annotations": marks, "labels": labels}, **kind.unleased(workload)},
            uid=act.view.uid,
            revision=act.view.revision,
        )

    async def _release_pods(self, remote: Remote, act: Release, workload: Workload) -> None:
        """Take from pods what shows them in the fleet's namespace. Before their shard: once that
        is released, nobody comes by again. By the other labels the shard knows them."""
        chosen = f"{SHARD_LABEL}={act.shard},{WORKLOAD_UID_LABEL}={workload.uid}"
        for pod in await remote.list(PODS, workload.namespace, labels=chosen):
            metadata = pod["metadata"]
            if metadata["name"] == act.shard or WORKLOAD_NAMESPACE_LABEL not in metadata["labels"]:
                continue
            patch = {"metadata": {"labels": {WORKLOAD_NAMESPACE_LABEL: None}}}
            await remote.merge(
                PODS, workload.namespace, metadata["name"], patch, uid=metadata["uid"], revision=""
            )

    # -- gates and names

    async def _meet(
        self,
        remote: Remote,
        act: Meet,
        workload: Workload,
        record: Record,
        sights: Mapping[str, Sight],
    ) -> Refused | None:
        shard = act.shard
        owner = self._owner_of(shard, act.view, workload)
        refused = await self._carry(remote, shard, workload, owner=owner) or await self._wall(
            remote, shard, workload, record, sights, owner=owner
        )
        if refused is not None:
            return refused
        await self._follow(remote, act, workload)
        if not workload.gang:
            return None
        metadata = self._metadata(shard, workload, owner)
        service = rendezvous.service(workload.service, metadata)
        peers = rendezvous.peers_of(workload.name, record.world, sights)
        name = shard.name(workload.name)
        slices = rendezvous.slices(workload.service, name, peers, metadata)
        known = ("meet", shard.cluster, act.view.uid)
        if self._knows(workload, known, slices):
            return None
        refused = await self._ensure(remote, SERVICES, service, workload.namespace, fields=())
        for each in slices:
            refused = refused or await self._ensure(
                remote, SLICES, each, workload.namespace, fields=("endpoints",)
            )
        if refused is not None:
            return refused
        await self._drop_slices(remote, slices, name, workload)
        self._note(workload, known, slices)
        return None

    async def _follow(self, remote: Remote, act: Meet, workload: Workload) -> None:
        """Bring to the shard what was changed at the fleet's object since it was made."""
        kind, view = workload.kind, act.view
        patch = kind.followed(workload, view)
        if patch is not None:
            name = act.shard.name(workload.name)
            await remote.merge(
                kind.gvr, workload.namespace, name, patch, uid=view.uid, revision=view.revision
            )

    async def _drop_slices(
        self, remote: Remote, wanted: list[Object], shard: str, workload: Workload
    ) -> None:
        """Slices that fewer addresses have made superfluous."""
        names = {each["metadata"]["name"] for each in wanted}
        labels = f"{rendezvous.SERVICE_LABEL}={workload.service}"
        for present in await remote.list(SLICES, workload.namespace, labels=labels):
            name = present["metadata"]["name"]
            if name.startswith(slice_name(shard)) and name not in names and self._is_ours(present):
                uid = present["metadata"]["uid"]
                await remote.delete(SLICES, workload.namespace, name, uid=uid)

    async def _open(
        self,
        remote: Remote,
        act: Open,
        workload: Workload,
        record: Record,
        sights: Mapping[str, Sight],
    ) -> Refused | None:
        shard = act.shard
        gang = self._gang(workload, record, sights)
        known = (workload.uid, shard.cluster, act.view.uid)
        told = _fingerprint(
            [gang.generation, gang.shards, gang.loan, gang.lead, *map(str, gang.peers)]
        )
        if shard.state == "Running" and self._gates.get(known) == told:
            return None
        name = workload.kind.gate_name(shard.name(workload.name))
        present = await remote.get(carrying.CONFIG_MAPS, workload.namespace, name)
        offset = 0 if self._numbered(act.shard, sights) else shard.first
        data = environment.gate_data(
            gang,
            cluster=shard.cluster,
            index=shard.index,
            offset=offset,
            lead=environment.lead_for(gang, (present or {}).get("data")),
        )
        owner = self._owner_of(shard, act.view, workload)
        gate = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**self._metadata(shard, workload, owner), "name": name},
            "data": data,
        }
        refused = await self._ensure(
            remote, carrying.CONFIG_MAPS, gate, workload.namespace, fields=("data",)
        )
        if refused is None:
            self._gates[known] = told
        return refused

    def _numbered(self, shard: Shard, sights: Mapping[str, Sight]) -> bool:
        sight = sights.get(shard.cluster)
        return shard.first == 0 or bool(sight and any(pod.numbered for pod in sight.pods))

    def _gang(
        self, workload: Workload, record: Record, sights: Mapping[str, Sight]
    ) -> environment.Gang:
        pod_spec = workload.pod_spec
        gang, lead = workload.gang, record.lead
        return environment.Gang(
            job=workload.name,
            generation=record.told,
            domain=record.plane,
            shards=len(record.world),
            nodes=record.ranks if record.elastic else workload.nodes,
            service=workload.service if gang else "",
            port=shape.port_of(pod_spec),
            processes=shape.processes_of(pod_spec),
            peers=rendezvous.peers_of(workload.name, record.world, sights) if gang else (),
            loan=record.loan.file() if record.loan is not None else None,
            lead=lead.first if lead is not None else 0,
            between=None if record.least is None else (record.least, workload.nodes),
            run=workload.uid,
        )

    async def _ensure(
        self,
        remote: Remote,
        gvr: GroupVersionResource,
        wanted: Object,
        namespace: str,
        *,
        fields: tuple[str, ...],
    ) -> Refused | None:
        """Create the object, or bring `fields` of ours up to date; refused where somebody else has
        the name."""
        name = wanted["metadata"]["name"]
        present = await remote.get(gvr, namespace, name)
        if present is None:
            await remote.create(gvr, namespace, wanted)
            return None
        if not self._is_ours(present):
            return _taken(wanted["kind"], name)
        changed = dict(present)
        owners = present["metadata"].get("ownerReferences") or []
        mine = wanted["metadata"].get("ownerReferences") or []
        if mine and not any(each.get("uid") == mine[0]["uid"] for each in owners):
            changed["metadata"] = {**present["metadata"], "ownerReferences": [*owners, *mine]}
        changed |= {field: wanted[field] for field in fields}
        if changed != present:
            await remote.update(gvr, changed)
        return None

    # -- marks

    def _metadata(self, shard: Shard, workload: Workload, owner: Object) -> Object:
        return {**self._marks(shard, workload), "ownerReferences": [owner]}

    def _marks(self, shard: Shard, workload: Workload) -> Object:
        return {
            "namespace": workload.namespace,
            "labels": {**shape.labels_of(workload, shard), MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {FLEET_ANNOTATION: self._fleet},
        }

    def _is_ours(self, obj: Mapping[str, Any]) -> bool:
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        return annotations.get(FLEET_ANNOTATION) == self._fleet

    def _owner_of(self, shard: Shard, view: ShardView, workload: Workload) -> Object:
        return _owner(workload.kind, shard.name(workload.name), view.uid)

    def _key(self, shard: Shard, workload: Workload) -> ShardKey:
        name = shard.name(workload.name)
        return ShardKey(shard.cluster, workload.kind.name, workload.namespace, name)

    # -- memory

    def _knows(self, workload: Workload, key: tuple[str, ...], value: Any) -> bool:
        return self._known.get((workload.uid, *key)) == _fingerprint(value)

    def _note(self, workload: Workload, key: tuple[str, ...], value: Any) -> None:
        self._known[(workload.uid, *key)] = _fingerprint(value)


def _owner(kind: Kind, name: str, uid: str) -> Object:
    """The ownerReference of what goes with a shard's object in its member."""
    return {
        "apiVersion": kind.gvr.group_version,
        "kind": kind.name,
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": True,
    }


def _taken(kind: str, name: str) -> Refused:
    return Refused(
        "NameTaken",
        f"has a {kind} {name} of its own in that namespace; it was not touched: rename one of them",
    )


def reason_of(error: ApiError) -> str:
    """What the member calls the error."""
    if isinstance(error, MemberStatus):
        return str(error.status.get("reason") or "Refused")
    return error.reason


def _fingerprint(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
