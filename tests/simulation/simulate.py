"""One run: a safety phase with faults, a healing phase in which all must converge, an audit."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, field
from unittest.mock import patch

from sulina.errors import SulinaError
from sulina.metadata.keys import ledger_pages
from tests.simulation.clock import SimClock
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_faults import ClusterFaults
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.faults import Faults
from tests.simulation.loop import SimLoop, Stuck
from tests.simulation.switches import Switches, patched
from tests.simulation.tier_world import TierFaults, TierWorld
from tests.simulation.trace import Trace, Violation
from tests.simulation.watchdog import Spinning, watchdog

_HEAL_SECONDS = 90.0
_STEP = 0.05
_CPU_SECONDS = 120.0
"""Far more than any seed takes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a seed."""

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
) -> Outcome:
    """Run one seed to its end. Needs no event loop, and makes no sound.

    With ``services``, the cluster's services decide who owns what; without, the faults do. With
    ``tier``, ledgers become objects.
    """
    switches = switches or Switches()
    logging.disable(logging.CRITICAL)
    collecting = gc.isenabled()
    gc.disable()  # a third of the time, and nothing of a run is worth collecting before its end
    loop = SimLoop()
    trace = Trace(loop, keep)
    with patched(switches):
        cluster, faults = _made(seed, loop, trace, switches, services=services, tier=tier)
        violation = None
        try:
            with watchdog(_CPU_SECONDS):
                loop.run_until_complete(_run(cluster, faults))
        except (Violation, Stuck, Spinning) as error:
            violation = str(error)
        digest, events = trace.digest, loop.events
        lines = list(trace.lines)
        loop.finish()
    logging.disable(logging.NOTSET)
    if collecting:
        gc.enable()
    return Outcome(seed, digest, events, cluster.checker.records_confirmed, violation, lines)


def _made(
    seed: int, loop: SimLoop, trace: Trace, switches: Switches, *, services: bool, tier: bool
) -> tuple[Cluster, Faults]:
    if tier:
        # So that lists of a few ledgers have pages; undone with the other patches.
        patch.object(ledger_pages, "PAGE", 3).start()
        tiered = TierWorld(seed, loop, trace, switches)
        return tiered, TierFaults(seed, tiered)
    if services:
        world = ClusterWorld(seed, loop, trace, switches)
        return world, ClusterFaults(seed, world)
    cluster = Cluster(seed, loop, trace, switches)
    return cluster, Faults(seed, cluster)


async def _run(cluster: Cluster, faults: Faults) -> None:
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
            cluster.checker.fail(f"it does not settle: {cluster.unsettled()}")
    try:
        await cluster.audit()
    except SulinaError as error:
        cluster.checker.fail(f"the audit failed: {error}")
    await _step(cluster, clock)


async def _step(cluster: Cluster, clock: SimClock) -> None:
    await clock.sleep(_STEP)
    for error in cluster.loop.errors:
        cluster.checker.fail(f"an error that nobody handled: {error}")
    cluster.look()
    cluster.checker.check()
