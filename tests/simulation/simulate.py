"""One run: a phase with faults, a phase without in which all must converge, an audit."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, field
from unittest.mock import patch

from broker_containers.subscriptions import frame_loader
from broker_containers.topic_log import cleanup
from broker_containers.topics import merging
from sulina.errors import SulinaError
from sulina.metadata.keys import ledger_pages
from tests.simulation.clock import SimClock
from tests.simulation.cluster import SimCluster
from tests.simulation.cluster_faults import ClusterFaults
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.faults import Faults
from tests.simulation.life_world import LifeFaults, LifeWorld
from tests.simulation.loop import SimLoop, Stuck
from tests.simulation.switches import Switches, patched
from tests.simulation.tables_world import TablesWorld
from tests.simulation.tier_world import TierFaults, TierWorld
from tests.simulation.trace import Trace, Violation
from tests.simulation.watchdog import Spinning, watchdog

_HEAL_SECONDS = 90.0
_STEP = 0.05
_LONGEST_UPLOAD_SECONDS = 12.0
"""After that, an object that was noted for deletion is not written any more."""
_CPU_SECONDS = 120.0
"""Much more than any seed takes."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of one seed."""

    seed: int
    digest: str
    events: int
    records: int
    violation: str | None = None
    lines: list[str] = field(default_factory=list, repr=False)
    """The trace, or its end."""


def simulate(
    seed: int,
    switches: Switches | None = None,
    *,
    keep: int | None = 200,
    services: bool = False,
    tier: bool = False,
    tables: bool = False,
    life: bool = False,
) -> RunOutcome:
    """Run one seed to its end. Needs no event loop and logs nothing.

    With ``services`` the cluster's services assign topics to brokers; without, the faults do. With
    ``tier`` ledgers are offloaded. With ``tables`` there is no cluster, but a lake with a table.
    With ``life`` ledgers are offloaded, days pass in a second, and topics have policies.
    """
    switches = switches or Switches()
    logging.disable(logging.CRITICAL)
    collecting = gc.isenabled()
    gc.disable()  # it would take a third of the time, and a run is short
    loop = SimLoop()
    trace = Trace(loop, keep)
    with patched(switches):
        world: SimCluster | TablesWorld
        if tables:
            world = TablesWorld(seed, loop, trace, switches)
            run = world.run()
        else:
            mode = "services" if services else "tier" if tier else "life" if life else ""
            world, faults = _cluster(seed, loop, trace, switches, mode)
            run = _run(world, faults)
        violation = None
        try:
            with watchdog(_CPU_SECONDS):
                loop.run_until_complete(run)
        except (Violation, Stuck, Spinning) as error:
            violation = str(error)
        digest, events = trace.digest, loop.events
        lines = list(trace.lines)
        loop.finish()
    logging.disable(logging.NOTSET)
    if collecting:
        gc.enable()
    return RunOutcome(seed, digest, events, world.checker.records_confirmed, violation, lines)


def _cluster(
    seed: int, loop: SimLoop, trace: Trace, switches: Switches, mode: str
) -> tuple[SimCluster, Faults]:
    if mode in ("tier", "life"):
        # Small pages, so that short lists of ledgers have several; undone with the other patches.
        patch.object(ledger_pages, "PAGE", 3).start()
        patch.object(merging, "_FEWEST", 2).start()
        patch.object(cleanup, "_SECONDS", 0.5).start()
    if mode == "life":
        lived = LifeWorld(seed, loop, trace, switches)
        # Times that are compared with the calendar, and how soon it is looked at.
        longest = (_LONGEST_UPLOAD_SECONDS * loop.calendar,)
        patch.object(cleanup.ObjectCleanup.round, "__defaults__", longest).start()
        patch.object(frame_loader, "_LOOK_AT_WALL", 0.1).start()
        return lived, LifeFaults(seed, lived)
    if mode == "tier":
        tiered = TierWorld(seed, loop, trace, switches)
        return tiered, TierFaults(seed, tiered)
    if mode == "services":
        world = ClusterWorld(seed, loop, trace, switches)
        return world, ClusterFaults(seed, world)
    cluster = SimCluster(seed, loop, trace, switches)
    return cluster, Faults(seed, cluster)


async def _run(cluster: SimCluster, faults: Faults) -> None:
    clock = SimClock(cluster.loop)
    await cluster.start()
    faults.begin()
    end = clock.now() + cluster.shape.seconds
    while clock.now() < end:
        await _step(cluster, clock)
    await faults.heal()
    cluster.trace.note("healing")
    end = clock.now() + _HEAL_SECONDS
    while not cluster.settled:
        await _step(cluster, clock)
        if clock.now() > end:
            cluster.checker.fail(f"the cluster does not settle: {cluster.unsettled()}")
    try:
        await cluster.audit()
    except SulinaError as error:
        cluster.checker.fail(f"the audit failed: {error}")
    await _step(cluster, clock)


async def _step(cluster: SimCluster, clock: SimClock) -> None:
    await clock.sleep(_STEP)
    for error in cluster.loop.errors:
        cluster.checker.fail(f"unhandled error: {error}")
    cluster.look()
    cluster.checker.check()
