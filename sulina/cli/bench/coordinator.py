"""Runs the worker processes of ``sulina bench``, and combines their measurements."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import click

from sulina.cli.bench.histogram import LatencyHistogram
from sulina.cli.bench.waterfall import RecordTrace, Waterfall, waterfall
from sulina.cli.bench.worker import BenchJob
from sulina.cli.options import option
from sulina.cli.output import plural
from sulina.cli.params import COUNT, POSITIVE, compression_option, topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import connected
from sulina.cli.settings import CliSettings
from sulina.errors import Retriable, UnknownOutcome
from sulina.runtime.stages import Stamp

_SUBSCRIPTION: Final = "bench"
_PROCESSES: Final = click.IntRange(1, 64)
_LINE_LIMIT: Final = 1 << 20
_START_SECONDS: Final = 20.0
_SHARES: Final = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to measure, in the order in which the help shows it."""

    topic: str = option(
        None,
        "A topic that does not exist yet. [default: /default/bench-...]",
        type=topic_name,
        metavar="TOPIC",
    )
    size: int = option(100, "Message size in bytes.", type=click.IntRange(16, 8 << 20))
    count: int | None = option(None, "Total number of messages to publish.", type=COUNT)
    seconds: float | None = option(None, "How long to publish. [default: 5]", type=POSITIVE)
    rate: float | None = option(
        None, "Total messages per second. [default: as fast as possible]", type=POSITIVE
    )
    producers: int = option(1, "Number of producer processes.", type=_PROCESSES)
    consumers: int = option(1, "Number of consumer processes.", type=_PROCESSES)
    compression: str = compression_option()
    trace: bool = option(False, "Show where the time of single messages goes, stage by stage.")
    trace_svg: str | None = option(
        None,
        "Write the stages as a picture to this file; implies --trace.",
        type=click.Path(dir_okay=False, writable=True),
        metavar="FILE",
    )


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What was measured."""

    messages: int
    elapsed: float
    """Seconds from the first send to the last receive."""
    publish_rate: float
    rate: float
    megabytes_rate: float
    latency_ms: dict[str, float]
    trace: Waterfall | None = None
    """Where the time went; None unless it was asked for."""


@dataclass(slots=True)
class _WorkerProcess:
    """A worker process as the coordinator sees it."""

    job: BenchJob
    process: asyncio.subprocess.Process
    messages: int = 0
    done: dict[str, Any] | None = None
    traces: list[Any] = field(default_factory=list)
    moved: float = field(default_factory=time.monotonic)
    """When it last reported progress."""

    async def listen(self) -> dict[str, Any]:
        """Its next report. Raises ``Retriable`` with the error that it reported."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise UnknownOutcome(
                f"a {self.job.role} process ended unexpectedly: run the command again"
            )
        said: dict[str, Any] = json.loads(line)
        if said["event"] == "error":
            raise Retriable(f"a {self.job.role} process failed: {said['message']}")
        return said

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def close_input(self) -> None:
        """Tell it to end."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def follow(self) -> None:
        """Receive its reports until it is done."""
        while self.done is None:
            said = await self.listen()
            self.messages, self.moved = said["messages"], time.monotonic()
            if said["event"] == "traces":
                self.traces += said["traces"]
            elif said["event"] == "done":
                self.done = said

    async def end(self) -> None:
        """Kill the process if it still runs, and wait for it."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def run_benchmark(settings: CliSettings, plan: BenchPlan) -> BenchResult:
    """Run the workers on a new topic, which is deleted afterwards, also on interruption.

    Raises ``AlreadyExists`` if the topic exists, and the errors of workers.
    """
    async with connected(settings) as client:
        await client.admin.topics.create(plan.topic)
        try:
            async with AsyncExitStack() as stack:
                workers = [
                    await _spawn(job, stack)
                    for job in (*_producers(settings, plan), *_consumers(settings, plan))
                ]
                return await _measure(settings, plan, workers)
        finally:
            await client.admin.topics.delete(plan.topic)


def _job(settings: CliSettings, plan: BenchPlan, role: str, **changes: Any) -> BenchJob:
    fields: dict[str, Any] = {
        "role": role,
        "url": settings.url,
        "token": settings.token,
        "tls_ca": settings.tls_ca,
        "tls_cert": settings.tls_cert,
        "tls_key": settings.tls_key,
        "timeout": settings.timeout,
        "topic": plan.topic,
        "subscription": _SUBSCRIPTION,
        "type": "exclusive" if plan.consumers == 1 else "shared",
        "size": plan.size,
        "count": plan.count,
        "seconds": plan.seconds,
        "rate": plan.rate,
        "compression": plan.compression,
        "trace": plan.trace,
    }
    return BenchJob(**{**fields, **changes})


def _producers(settings: CliSettings, plan: BenchPlan) -> list[BenchJob]:
    number = plan.producers
    rate = None if plan.rate is None else plan.rate / number
    counts: Sequence[int | None] = [None] * number
    if plan.count is not None:
        each, rest = divmod(plan.count, number)
        counts = [each + (place < rest) for place in range(number)]
    return [_job(settings, plan, "producer", count=count, rate=rate) for count in counts]


def _consumers(settings: CliSettings, plan: BenchPlan) -> list[BenchJob]:
    return [_job(settings, plan, "consumer") for _ in range(plan.consumers)]


async def _spawn(job: BenchJob, stack: AsyncExitStack) -> _WorkerProcess:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sulina.cli.bench.worker",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=_LINE_LIMIT,
        # Ctrl-C reaches only the coordinator, which ends the workers in order.
        start_new_session=True,
    )
    worker = _WorkerProcess(job, process)
    stack.push_async_callback(worker.end)
    worker.tell(json.dumps(asdict(job)))
    return worker


async def _measure(
    settings: CliSettings, plan: BenchPlan, workers: list[_WorkerProcess]
) -> BenchResult:
    try:
        async with asyncio.timeout(_START_SECONDS + settings.timeout):
            await asyncio.gather(*(worker.listen() for worker in workers))
    except TimeoutError:
        raise UnknownOutcome(
            "the worker processes did not start in time: is the machine too busy? run it again"
        ) from None
    for worker in workers:
        worker.tell("go")
    following = [asyncio.create_task(worker.follow()) for worker in workers]
    try:
        await _watch(settings, plan, workers, following)
    finally:
        for task in following:
            task.cancel()
        await asyncio.wait(following)
    return _result(plan, workers)


async def _watch(
    settings: CliSettings,
    plan: BenchPlan,
    workers: list[_WorkerProcess],
    following: list[asyncio.Task[None]],
) -> None:
    """Wait until the consumers have what the producers sent. Raises when progress stops."""
    producers = [worker for worker in workers if worker.job.role == "producer"]
    consumers = [worker for worker in workers if worker.job.role == "consumer"]
    began = time.monotonic()
    with Progress(settings, "measuring", plan.count or plan.seconds) as progress:
        while not all(task.done() for task in following):
            await asyncio.wait(following, timeout=0.1, return_when=asyncio.FIRST_EXCEPTION)
            for task in following:
                if task.done():
                    task.result()
            received = sum(worker.messages for worker in consumers)
            sent = sum(worker.messages for worker in producers)
            elapsed = time.monotonic() - began
            progress.show(
                received if plan.count else elapsed,
                f"{sent:,} sent, {received:,} received",
            )
            if all(worker.done for worker in producers) and received >= sent:
                for worker in consumers:
                    worker.close_input()
            quiet = time.monotonic() - max(worker.moved for worker in workers)
            if quiet > settings.timeout + 1 / (plan.rate or 1):
                raise UnknownOutcome(
                    f"no progress for {quiet:.0f} s: received {plural(received, 'message')} of "
                    f"{sent:,}"
                )


def _result(plan: BenchPlan, workers: list[_WorkerProcess]) -> BenchResult:
    sent = [worker.done for worker in workers if worker.job.role == "producer"]
    got = [worker.done for worker in workers if worker.job.role == "consumer"]
    latencies = LatencyHistogram(
        (bucket, count) for done in got if done for bucket, count in done["latencies"]
    )
    began = min(done["began_ns"] for done in sent if done)
    acknowledged = (max(done["ended_ns"] for done in sent if done) - began) / 1e9
    elapsed = (max(done["ended_ns"] for done in got if done) - began) / 1e9
    messages = sum(done["messages"] for done in got if done)
    rate = messages / elapsed
    return BenchResult(
        messages=messages,
        elapsed=round(elapsed, 6),
        publish_rate=round(messages / acknowledged, 1),
        rate=round(rate, 1),
        megabytes_rate=round(rate * plan.size / 1e6, 3),
        latency_ms={
            name: round((latencies.percentile(share) or 0) / 1e6, 3)
            for name, share in _SHARES.items()
        },
        trace=_waterfall(workers) if plan.trace else None,
    )


def _waterfall(workers: list[_WorkerProcess]) -> Waterfall | None:
    replies = dict(
        reply for each in workers if each.job.role == "producer" for reply in each.traces
    )
    return waterfall(
        [
            RecordTrace.of(due, [Stamp(*each) for each in stamps], replies)
            for worker in workers
            if worker.job.role == "consumer"
            for due, stamps in worker.traces
        ]
    )
