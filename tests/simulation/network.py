"""The simulated network: delays, order within a connection, breaks, partitions, slow links.

A connection keeps the order of messages sent with ``ordered``, in each direction; all others may
overtake each other. When a connection breaks, unanswered requests have an unknown outcome; messages
in transit may still arrive up to some moment, and none after it. A blocked direction drops
messages; the connection breaks some time later, when keep-alives detect that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from sulina.errors import SulinaError, Unavailable, UnknownOutcome
from tests.simulation.loop import SimLoop, SimMachine

_T = TypeVar("_T")
_APART = 1e-7
"""Seconds between two messages that keep their order."""
Work = Callable[[Any], "Awaitable[_T]"]
"""What a request runs at the server, with its service."""


class SimEndpoint:
    """A name to connect to, with its machine and service while it is up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.machine: SimMachine | None = None
        self.service: Any = None

    def up(self, machine: SimMachine, service: object) -> None:
        self.machine, self.service = machine, service

    def down(self) -> None:
        self.machine = self.service = None


class SimNetwork:
    """All links. ``latency`` is the usual one-way delay in seconds."""

    def __init__(self, loop: SimLoop, chance: Random, latency: float) -> None:
        self.loop = loop
        self.chance = chance
        self.latency = latency
        self.blocked: set[tuple[str, str]] = set()
        """Directions in which nothing arrives: (from, to), by machine name."""
        self.slow: dict[str, float] = {}
        """Additional delay of messages to or from a machine, in seconds, on average."""
        self.far: dict[tuple[str, str], float] = {}
        """Factor of the latency, per direction."""
        self.unordered_answers = chance.random() < 0.5
        """Whether a storage node's answers to appends overtake each other."""
        self.connections: dict[SimConnection, None] = {}
        self.keep_alive = (0.3, 2.0)

    def delay(self, source: str, target: str) -> float:
        chance = self.chance.random
        far = self.far.get((source, target))
        if far is None:
            # Each direction has its own distance.
            far = self.far[source, target] = self.chance.choice((1.0, 1.0, 1.0, 4.0, 15.0))
        delay = self.latency * far * (0.2 + 1.6 * chance())
        if chance() < 0.02:
            delay += self.latency * 20 * chance()
        if self.slow:
            extra = self.slow.get(source, 0.0) + self.slow.get(target, 0.0)
            delay += extra * 2 * chance()
        return delay

    def connect(self, client: SimMachine, server: SimEndpoint) -> SimConnection:
        connection = SimConnection(self, client, server)
        self.connections[connection] = None
        return connection

    def machine_died(self, machine: SimMachine) -> None:
        """Break the connections of a dead machine; the other ends detect it a bit later."""
        for connection in list(self.connections):
            if connection.client is machine:
                connection.close()
            elif connection.machine is machine:
                unseen = (machine.name, connection.client.name) in self.blocked or (
                    connection.client.name,
                    machine.name,
                ) in self.blocked
                connection.fall_silent(
                    self.chance.uniform(*self.keep_alive) if unseen else self.latency
                )


class SimConnection:
    """One connection from a client to a server, until it breaks or is closed."""

    def __init__(self, network: SimNetwork, client: SimMachine, server: SimEndpoint) -> None:
        self.client = client
        self.server = server
        self.machine = server.machine
        self._service = server.service
        self.open = True
        self.on_server_side_end: list[Callable[[], None]] = []
        """Called at the server when it detects the end of the connection."""
        self.on_client_side_end: list[Callable[[], None]] = []
        self._network = network
        self._loop = network.loop
        self._dead_after = float("inf")
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._last_up = 0.0
        self._last_down = 0.0
        self._breaking = False
        if self.machine is None:
            self.fall_silent(network.latency * 2)

    # ---- requests ----

    def request(
        self, work: Work[_T], *, ordered: bool = False, ordered_answer: bool = True
    ) -> asyncio.Future[_T]:
        """Run ``work`` at the server; the future has its result or error."""
        answer: asyncio.Future[_T] = self._loop.create_future()
        if not self.open:
            answer.set_exception(Unavailable(f"{self.server.name} can't be reached"))
            return answer
        self._waiting[answer] = None
        if self.machine is not None:
            at = self._loop.time() + self._network.delay(self.client.name, self.server.name)
            if ordered:
                at = self._last_up = max(at, self._last_up + _APART)
            self._loop.call_at(
                at,
                self._arrive,
                work,
                answer,
                ordered and ordered_answer,
                context=self.machine.context,
            )
        return answer

    def _arrive(self, work: Work[_T], answer: asyncio.Future[_T], ordered: bool) -> None:
        if not self._passes(self.client.name, self.server.name):
            return
        doing = work(self._service)
        if isinstance(doing, asyncio.Future):
            done = doing
        else:
            assert isinstance(doing, Coroutine)
            done = self._loop.create_task(doing)
        done.add_done_callback(lambda result: self._reply(answer, result, ordered))

    def _reply(self, answer: asyncio.Future[_T], result: asyncio.Future[_T], ordered: bool) -> None:
        at = self._loop.time() + self._network.delay(self.server.name, self.client.name)
        if ordered:
            at = self._last_down = max(at, self._last_down + _APART)
        error: BaseException | None
        error = UnknownOutcome("cancelled") if result.cancelled() else result.exception()
        value = None if error is not None else result.result()
        if not isinstance(error, SulinaError | None):
            self._loop.call_exception_handler({"message": "a server failed", "exception": error})
            return
        self._loop.call_at(at, self._answered, answer, error, value, context=self.client.context)

    def _answered(self, answer: asyncio.Future[_T], error: SulinaError | None, value: Any) -> None:
        if not self._passes(self.server.name, self.client.name):
            return
        self._waiting.pop(answer, None)
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # retrieved, in case the caller was cancelled
        else:
            answer.set_result(value)

    # ---- pushes ----

    def push(self, tell: Callable[..., None], *args: object) -> None:
        """Called by the server: run ``tell`` at the client, in order."""
        at = self._loop.time() + self._network.delay(self.server.name, self.client.name)
        at = self._last_down = max(at, self._last_down + _APART)
        self._loop.call_at(at, self._pushed, tell, args, context=self.client.context)

    def _pushed(self, tell: Callable[..., None], args: tuple[object, ...]) -> None:
        if self._passes(self.server.name, self.client.name):
            tell(*args)

    # ---- ending ----

    def _passes(self, source: str, target: str) -> bool:
        if self._loop.time() > self._dead_after:
            return False
        if (source, target) in self._network.blocked:
            self.fall_silent(self._network.chance.uniform(*self._network.keep_alive))
            return False
        return True

    def fall_silent(self, seconds: float) -> None:
        """Drop all further messages; the ends detect it after ``seconds``."""
        self._dead_after = min(self._dead_after, self._loop.time())
        if not self._breaking:
            self._breaking = True
            self._loop.call_later(seconds, self._notice, context=self.client.context)

    def _notice(self) -> None:
        if self.open:
            self.close()

    def close(self) -> None:
        """Break the connection, by the client or by a fault."""
        if not self.open:
            return
        self.open = False
        network = self._network
        network.connections.pop(self, None)
        longest = network.chance.choice((network.latency * 3, network.latency * 3, 1.0))
        horizon = self._loop.time() + network.chance.random() * longest
        self._dead_after = min(self._dead_after, horizon)
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(UnknownOutcome(f"{self.server.name}: the connection broke"))
                answer.exception()
        self._waiting.clear()
        if self.machine is not None:
            for told in self.on_server_side_end:
                self._loop.call_later(
                    network.chance.uniform(0.001, 0.5), told, context=self.machine.context
                )
        for told in self.on_client_side_end:
            self._loop.call_soon(told, context=self.client.context)
