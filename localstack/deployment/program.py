"""Runs the real Pulumi program without its engine: Pulumi's mocks stand in for it.

A process can run several programs, one after the other. Pulumi keeps its state in globals and its
libraries take seconds to load, so callers use a separate process.
"""

from __future__ import annotations

import asyncio
import logging
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pulumi
from pulumi.runtime.config import set_all_config
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.settings import get_root_resource
from pulumi.runtime.stack import Stack, run_pulumi_func

from localstack.deployment.local_resources import made_here
from localstack.deployment.stack_files import ROOT, stack_values

PROJECT = "sulina"


class Maker(Protocol):
    """Creates resources."""

    def call(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a provider function."""
        ...

    def make(self, kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Create a resource; returns its id and output properties."""
        ...


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that was created."""

    kind: str
    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a run of the program made, resources in the order of their creation."""

    resources: tuple[Resource, ...]
    outputs: dict[str, Any]
    said: tuple[str, ...]
    """The messages that the program logged."""
    asked: tuple[str, ...]
    """The provider's functions that the program called."""


class _Recording(Mocks):
    """Creates every resource with a maker, and records it."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self.resources: list[Resource] = []
        self.asked: list[str] = []

    def call(self, args: MockCallArgs) -> Any:
        self.asked.append(args.token)
        return self._maker.call(args.token, args.args)

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        given = {name: value for name, value in args.inputs.items() if value is not None}
        made_id = ""
        outputs: dict[str, Any] = {}
        if not args.typ.startswith("sulina:"):
            try:
                here = made_here(args.typ, args.name, given)
                made_id, outputs = here or self._maker.make(args.typ, args.name, given)
            except Exception as error:
                raise RuntimeError(f"creating {args.typ} {args.name} failed: {error}") from error
        self.resources.append(Resource(args.typ, args.name, given, outputs, made_id))
        return made_id, {**given, **outputs}


def run_program(
    stack: str,
    settings: Mapping[str, str],
    maker: Maker,
    *,
    file: str = "",
    monitor: Callable[[Mocks], MockMonitor] = MockMonitor,
) -> Deployed:
    """Run the program for a stack; ``settings`` are added to those of its file.

    ``file`` is the stack whose file is read, if it is not that of ``stack``; ``monitor`` receives
    what the program sends to the engine.

    Raises ``pulumi.RunError`` with the program's sentence if it refuses, and ``RuntimeError`` if a
    resource cannot be created.
    """
    recording = _Recording(maker)
    outputs: dict[str, Any] = {}
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    said: list[str] = []
    set_mocks(
        recording,
        project=PROJECT,
        stack=stack,
        preview=False,
        logger=_keeping(said),
        monitor=monitor(recording),
    )
    more = {f"{PROJECT}:{name}": value for name, value in settings.items()}
    set_all_config(stack_values(file or stack) | more)

    async def collect() -> None:
        exported = _exports()
        exported.clear()  # remove those of the previous run
        # Like Pulumi, which runs the folder as a program.
        runpy.run_path(str(ROOT / "infra"), run_name="__main__")
        for name, value in exported.items():
            outputs[name] = await pulumi.Output.from_input(value).future()

    try:
        loop.run_until_complete(run_pulumi_func(collect))
    finally:
        loop.close()
    return Deployed(tuple(recording.resources), outputs, tuple(said), tuple(recording.asked))


def _keeping(said: list[str]) -> logging.Logger:
    """A logger that appends messages to a list."""
    logger = logging.Logger("program", logging.INFO)
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    return logger


def _exports() -> dict[str, Any]:
    root = get_root_resource()
    assert isinstance(root, Stack)
    return root.outputs
