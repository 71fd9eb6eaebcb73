"""Runs Lambda functions: their code from this source tree, their configuration from Lambda's API.

Each function has one process, started at its first call and kept for the next ones, so its calls
run one after the other. A call that takes longer than the function's timeout ends the process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from localstack.cloud.addresses import AddressBook
from localstack.cloud.definitions import inherited
from localstack.environments import ROOT
from sulina.errors import NotFound, Unavailable
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

RUNTIME: Final = "runtime"
"""The path of Lambda's runtime API, followed by the name of the function."""
_START_SECONDS: Final = 60.0
"""How long a process may take until it asks for its first event."""
_MAX_WAITING: Final = 100
_RETRY_MINUTES: Final = (1, 2)
"""The pauses before Lambda repeats an asynchronous call."""
_SHORTEST_PAUSE: Final = 5.0
"""Brokers report their load this often, however long a minute is."""


class FunctionError(Exception):
    """The function failed: what it returned as its error, as JSON."""


@dataclass(slots=True, eq=False)
class Call:
    """One call; ``seconds`` is its timeout, which begins when the function takes it."""

    event: bytes
    seconds: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    deadline_ms: int = 0
    done: asyncio.Future[bytes] = field(default_factory=asyncio.Future)


@dataclass(slots=True, eq=False)
class _Host:
    """A function's process and its calls."""

    child: ChildProcess
    seconds: float
    waiting: asyncio.Queue[Call] = field(default_factory=lambda: asyncio.Queue(_MAX_WAITING))
    taken: dict[str, Call] = field(default_factory=dict)


class FunctionRunner:
    """All functions of the account."""

    def __init__(
        self,
        account: Any,
        book: AddressBook,
        variables: Mapping[str, str],
        folder: Path,
        minute_seconds: float,
        clock: Clock,
    ) -> None:
        """``variables`` are those of AWS's libraries; ``folder`` gets one log per function."""
        folder.mkdir(parents=True, exist_ok=True)
        self.address = ""
        """Where the runtime API is, ``host:port``; set before the first call."""
        self._account = account
        self._book = book
        self._variables = variables
        self._folder = folder
        self._minute = minute_seconds
        self._clock = clock
        self._hosts: dict[str, _Host] = {}
        self._later: set[asyncio.Task[None]] = set()

    async def call(self, name: str, event: bytes) -> bytes:
        """The function's result, as JSON.

        Raises ``FunctionError`` if it fails or takes too long, ``NotFound`` if there is no such
        function, and ``Unavailable`` if too many calls wait.
        """
        host = self._hosts.get(name)
        if host is None:
            config = await asyncio.to_thread(self._config, name)
            host = self._hosts.setdefault(name, self._host(name, config))
        host.child.start()
        call = Call(event, host.seconds)
        try:
            host.waiting.put_nowait(call)
        except asyncio.QueueFull:
            raise Unavailable(f"{_MAX_WAITING} calls of {name} wait already") from None
        # Calls before it have their own timeouts.
        seconds = _START_SECONDS + (host.waiting.qsize() + len(host.taken)) * host.seconds
        try:
            return await within(self._clock, seconds, call.done)
        except TimeoutError:
            host.child.kill()
            host.taken.pop(call.id, None)
            message = f"the function took longer than {host.seconds:g} s"
            raise FunctionError(json.dumps({"errorMessage": message})) from None

    async def call_later(self, name: str, event: bytes) -> None:
        """Call it as services do: wait for its end, repeat a failed call, then give up.

        A call that failed for good goes to the function's queue of failed calls.
        """
        task = asyncio.create_task(self._with_retries(name, event))
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        await asyncio.shield(task)

    def call_in_background(self, name: str, event: bytes) -> None:
        """As ``call_later``, without waiting. Raises ``Unavailable`` if too many are under way."""
        if len(self._later) >= _MAX_WAITING:
            raise Unavailable(f"{_MAX_WAITING} calls wait already")
        task = asyncio.create_task(self._with_retries(name, event))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _with_retries(self, name: str, event: bytes) -> None:
        for pause in (*_RETRY_MINUTES, None):
            try:
                await self.call(name, event)
                return
            except (FunctionError, NotFound, Unavailable) as error:
                if pause is None:
                    await asyncio.to_thread(self._failed, name, event, str(error))
                    return
            await self._clock.sleep(max(pause * self._minute, _SHORTEST_PAUSE))

    async def next_call(self, name: str) -> Call:
        """For the function's process: the next call. Waits until there is one."""
        host = self._hosts[name]
        call = await host.waiting.get()
        call.deadline_ms = self._clock.wall_us() // 1_000 + int(call.seconds * 1_000)
        host.taken[call.id] = call
        return call

    def finish(self, name: str, call_id: str, body: bytes, *, failed: bool) -> None:
        """For the function's process: the result or the error of a call."""
        call = self._hosts[name].taken.pop(call_id, None)
        if call is not None and not call.done.done():
            if failed:
                call.done.set_exception(FunctionError(body.decode()))
            else:
                call.done.set_result(body)

    async def stop(self) -> None:
        """End all processes."""
        for task in list(self._later):
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)
        for host in self._hosts.values():
            host.child.kill()

    def _config(self, name: str) -> dict[str, Any]:
        client = self._account.client("lambda")
        try:
            found: dict[str, Any] = client.get_function_configuration(FunctionName=name)
        except client.exceptions.ResourceNotFoundException:
            raise NotFound(f"there is no function {name}") from None
        return found

    def _host(self, name: str, config: Mapping[str, Any]) -> _Host:
        given = config["Environment"]["Variables"]
        variables = {
            **inherited(),
            **self._variables,
            **{each: self._book.here(value) for each, value in given.items()},
            "_HANDLER": config["Handler"],
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_RUNTIME_API": f"{self.address}/{RUNTIME}/{name}",
        }
        command = (sys.executable, "-m", "localstack.cloud.function_host")
        log = self._folder / f"{name}.log"
        child = ChildProcess(command, log, folder=ROOT, environment=variables)
        return _Host(child, float(config["Timeout"]))

    def _failed(self, name: str, event: bytes, why: str) -> None:
        found = self._account.client("lambda").get_function_event_invoke_config(FunctionName=name)
        queue = found["DestinationConfig"]["OnFailure"]["Destination"].rpartition(":")[2]
        sqs = self._account.client("sqs")
        message = {"requestPayload": json.loads(event), "function": name, "error": why}
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(message))
