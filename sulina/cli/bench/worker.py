"""One process of ``sulina bench``: a producer or a consumer.

The coordinator writes a job to its standard input as a line of JSON, then a line to start, and
closes the input to end the worker. The worker reports in JSON lines: ready, progress, done, error.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from sulina.cli.bench.histogram import LatencyHistogram
from sulina.cli.failures import sentence
from sulina.cli.pipes import lines_of
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.client import sampling
from sulina.client.sampling import FrameSampler
from sulina.model import Start
from sulina.runtime.stages import Stamp

if TYPE_CHECKING:
    from sulina import Consumer, Producer

STAMP: Final = struct.Struct("<4sq")
MAGIC: Final = b"slna"
"""Starts payloads that carry the monotonic time at which they were sent, or due."""

_BATCH_BYTES: Final = 64 << 10
_BATCH_RECORDS: Final = 1000
_REPORT_SECONDS: Final = 0.1
_TRACES_PER_SECOND: Final = 500
_TRACES_PER_LINE: Final = 500
_MOST_TRACES: Final = 20_000


@dataclass(frozen=True, slots=True)
class BenchJob:
    """The task of one worker."""

    role: str
    url: str
    token: str
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    timeout: float
    topic: str
    subscription: str
    type: str
    size: int
    count: int | None
    seconds: float | None
    rate: float | None
    compression: str
    trace: bool

    @property
    def settings(self) -> CliSettings:
        """How to reach the broker."""
        return CliSettings(
            self.url, self.token, self.tls_ca, self.tls_cert, self.tls_key, timeout=self.timeout
        )


def main() -> None:
    """Do the job; report every error to the coordinator as a sentence."""
    try:
        run(_work())
    except Exception as error:
        _send_report("error", message=sentence(error))
        sys.exit(1)


async def _work() -> None:
    async with aclosing(_input()) as lines:
        job = BenchJob(**json.loads(await anext(lines)))
        sampler = sampling.start(_TRACES_PER_SECOND) if job.trace else None
        async with connected(job.settings) as client:
            if job.role == "producer":
                async with client.producer(job.topic, compression=job.compression) as producer:
                    await _start(lines)
                    await _until_closed(lines, _Sender(job, producer, sampler))
            else:
                async with client.consumer(
                    job.topic, job.subscription, type=job.type, start=Start.earliest()
                ) as consumer:
                    await _start(lines)
                    await _until_closed(lines, _Receiver(consumer, sampler))


class _Load(Protocol):
    """What a worker does: it runs, counts its messages, and reports the result."""

    messages: int

    async def run(self) -> None: ...

    def report(self) -> None: ...


async def _input() -> AsyncGenerator[bytes, None]:
    async for lines in lines_of(0, lambda _: None):
        for line in lines:
            yield line


async def _start(lines: AsyncIterator[bytes]) -> None:
    _send_report("ready")
    await anext(lines)


async def _until_closed(lines: AsyncIterator[bytes], worker: _Load) -> None:
    """Run until done, or until the coordinator closes the input; then report the result."""
    work = asyncio.create_task(worker.run())
    closed = asyncio.ensure_future(anext(lines, None))
    reported = 0
    try:
        while not (work.done() or closed.done()):
            await asyncio.wait(
                (work, closed), timeout=_REPORT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if worker.messages != reported:
                reported = worker.messages
                _send_report("progress", messages=reported)
    finally:
        for task in (work, closed):
            task.cancel()
        await asyncio.wait((work, closed))
    if not work.cancelled():
        work.result()
    worker.report()


class _Sender:
    """Sends at full speed or at a rate."""

    def __init__(self, job: BenchJob, producer: Producer, sampler: FrameSampler | None) -> None:
        self._job = job
        self._sampler = sampler
        self._producer = producer
        # Random, so that compression saves nothing; the first byte differs from the magic's.
        self._pool = [
            b"\xff" + os.urandom(job.size - 1)
            for _ in range(min(max(_BATCH_BYTES // job.size, 1), _BATCH_RECORDS))
        ]
        self._filler = os.urandom(job.size - STAMP.size)
        self._began = self._ended = 0
        self.messages = 0

    async def run(self) -> None:
        self._began = time.monotonic_ns()
        if self._job.rate is None:
            await self._full_speed(self._began)
        else:
            await self._paced(self._began, self._job.rate)
        await self._producer.flush()
        self._ended = time.monotonic_ns()

    def report(self) -> None:
        if self._sampler is not None:
            _send_traces(list(self._sampler.replies), self.messages)
        _send_report("done", messages=self.messages, began_ns=self._began, ended_ns=self._ended)

    async def _full_speed(self, began: int) -> None:
        job = self._job
        deadline = None if job.seconds is None else began + int(job.seconds * 1e9)
        while True:
            now = time.monotonic_ns()
            left = len(self._pool) if job.count is None else job.count - self.messages
            if left <= 0 or (deadline is not None and now >= deadline):
                return
            batch = self._pool[:left]
            # One stamp per batch: stamping each message would dominate the measurement.
            batch[0] = self._stamped(now)
            await self._send(batch)

    async def _paced(self, began: int, rate: float) -> None:
        job = self._job
        total = job.count if job.count is not None else int(rate * (job.seconds or 0))
        woke = began
        while self.messages < total:
            now = time.monotonic_ns()
            due = min(int((now - began) / 1e9 * rate) + 1, total)
            if due <= self.messages:
                next_due = began + int(self.messages * 1e9 / rate)
                await asyncio.sleep((next_due - now) / 1e9)
                woke = time.monotonic_ns()
                continue
            due = min(due, self.messages + _BATCH_RECORDS)
            # Time spent waiting for the broker counts as latency; time that our own timer
            # overslept does not.
            batch = [
                self._stamped(max(began + int(number * 1e9 / rate), woke))
                for number in range(self.messages, due)
            ]
            await self._send(batch)

    async def _send(self, batch: list[bytes]) -> None:
        await self._producer.send_many(batch)
        self.messages += len(batch)

    def _stamped(self, when: int) -> bytes:
        return STAMP.pack(MAGIC, when) + self._filler


class _Receiver:
    """Receives, acknowledges and measures latencies."""

    def __init__(self, consumer: Consumer, sampler: FrameSampler | None) -> None:
        self._consumer = consumer
        self._sampler = sampler
        self._traces: deque[tuple[int, list[Stamp]]] = deque(maxlen=_MOST_TRACES)
        self._latencies = LatencyHistogram()
        self._last = 0
        self.messages = 0

    async def run(self) -> None:
        async for batch in self._consumer.batches():
            self._last = now = time.monotonic_ns()
            payloads = batch.payloads
            stamped = [each for each in payloads if each.startswith(MAGIC)]
            for payload in stamped:
                self._latencies.add(max(now - STAMP.unpack_from(payload)[1], 0))
            if self._sampler is not None and stamped:
                base = batch.frame.header.base_offset
                times = self._sampler.taken(batch.topic, base, now)
                if times is not None:
                    self._traces.append((STAMP.unpack_from(stamped[0])[1], times))
            await self._consumer.ack(batch)
            self.messages += len(payloads)

    def report(self) -> None:
        _send_traces(list(self._traces), self.messages)
        _send_report(
            "done",
            messages=self.messages,
            ended_ns=self._last,
            latencies=self._latencies.buckets(),
        )


def _send_traces(traces: list[Any], messages: int) -> None:
    """Report traces in lines of limited length."""
    for first in range(0, len(traces), _TRACES_PER_LINE):
        part = traces[first : first + _TRACES_PER_LINE]
        _send_report("traces", messages=messages, traces=part)


def _send_report(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    main()
