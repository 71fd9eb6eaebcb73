"""A complete rebuild: connects to etcd, storage nodes and the object store of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from broker_containers.rebuild.plan import OnGap, TopicPlan, plan_topics
from broker_containers.rebuild.rebuild import Rebuild, Rebuilt, known_lists, wait_until_alone
from broker_containers.rebuild.survey import LedgerCopies, Progress, StorageSurvey, survey
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.remote import RemoteNodes, RemoteSettings
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.metadata.keys import namespaces
from sulina.objects.opening import open_store
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_random import real_random
from sulina.runtime.tls_files import TlsFiles

_NODES_SECONDS: Final = 15.0
_ALONE_SECONDS: Final = 60.0
"""How long to wait for restored registrations to expire."""


@dataclass(frozen=True, slots=True)
class RebuildSettings:
    """What to rebuild from, and how."""

    etcd: EtcdSettings
    places: Sequence[str]
    """All storage nodes, each ``name=host:port``."""
    quorum: QuorumSettings
    tier: str = ""
    """The URL of the object store; empty if there is none."""
    on_gap: OnGap = OnGap.STOP
    dry_run: bool = False
    storage_tls: TlsFiles | None = None
    """If given, connections to storage nodes use TLS."""


@dataclass(frozen=True, slots=True)
class RebuildOutcome:
    """What was found, planned and done."""

    survey: StorageSurvey
    plans: tuple[TopicPlan, ...]
    rebuilt: tuple[Rebuilt, ...]


async def run_rebuild(settings: RebuildSettings, progress: Progress) -> RebuildOutcome:
    """Survey everything, plan, and carry out the plan unless ``dry_run``.

    Raises ``Unavailable`` if etcd, a storage node or the object store does not answer, ``Refused``
    while brokers run.
    """
    clock = RealClock()
    async with AsyncExitStack() as stack:
        store = await EtcdStore.open(settings.etcd, clock)
        stack.push_async_callback(store.close)
        remote = RemoteSettings(tls=settings.storage_tls)
        nodes = await stack.enter_async_context(
            RemoteNodes(settings.places, clock, real_random(), remote)
        )
        who = "one of the storage nodes"
        await nodes.ready_within(_NODES_SECONDS, len(settings.places), who)
        objects = None
        if settings.tier:
            objects = await stack.enter_async_context(
                open_store(settings.tier, clock, real_random())
            )
        await wait_until_alone(store, clock, _ALONE_SECONDS)
        copies = LedgerCopies(nodes.all(), clock)
        found = await survey(copies, objects, progress)
        plans = plan_topics(found, await known_lists(store), settings.on_gap)
        rebuilt: list[Rebuilt] = []
        if not settings.dry_run:
            await namespaces.create_first(store)
            ledgers = QuorumLedgers(nodes, store, clock, settings.quorum)
            rebuild = Rebuild(store, ledgers, copies, clock)
            await rebuild.never_again(found)
            wanted = [plan for plan in plans if plan.changed and plan.pieces]
            rebuilt += [await rebuild.carry_out(plan, progress) for plan in wanted]
        return RebuildOutcome(found, tuple(plans), tuple(rebuilt))
