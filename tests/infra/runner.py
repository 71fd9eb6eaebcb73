"""Runs the real program, without Pulumi's engine, in a separate process.

    python -m tests.infra.runner plans.json folder

Pulumi's mocks replace the engine. A plan names a stack and additional settings; with ``aws``, each
resource is created there with boto3. For each plan, the folder gets a file with all resources in
the order of their creation, the outputs, and what boto3 sees afterwards, or the program's error. It
is a separate process because Pulumi keeps its state in globals, and one process for all plans
because its libraries take seconds to load.
"""

from __future__ import annotations

import asyncio
import gc
import json
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pulumi
from pulumi.runtime.config import set_all_config
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.settings import get_root_resource
from pulumi.runtime.stack import Stack, run_pulumi_func

from infra.component import takes_tags
from tests.infra.local_resources import made_here
from tests.infra.recorder import RecordingMaker
from tests.infra.stack_files import ROOT, stack_values

PROJECT = "sulina"


class Maker(Protocol):
    """Creates resources."""

    def call(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a provider function."""
        ...

    def make(self, kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Create a resource; returns its id and output properties."""
        ...

    def look(self) -> dict[str, Any]:
        """Inspect the account after all resources are created."""
        ...


class Recording(Mocks):
    """Creates every resource with a maker, and records it."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self.resources: list[dict[str, Any]] = []

    def call(self, args: MockCallArgs) -> Any:
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
        self.resources.append(
            {
                "kind": args.typ,
                "name": args.name,
                "inputs": given,
                "outputs": outputs,
                "id": made_id,
                "taggable": kind_takes_tags(args.typ),
            }
        )
        return made_id, {**given, **outputs}


def run(stack: str, settings: Mapping[str, str], maker: Maker) -> dict[str, Any]:
    """Run one plan; returns its resources and outputs, or its error."""
    recording = Recording(maker)
    outputs: dict[str, Any] = {}
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    set_mocks(recording, project=PROJECT, stack=stack, preview=False)
    more = {f"{PROJECT}:{name}": value for name, value in settings.items()}
    set_all_config(stack_values(stack) | more)

    async def collect() -> None:
        exported = _exports()
        exported.clear()  # remove those of the previous plan
        # Like Pulumi, which runs the folder as a program.
        runpy.run_path(str(ROOT / "infra"), run_name="__main__")
        for name, value in exported.items():
            outputs[name] = await pulumi.Output.from_input(value).future()

    try:
        loop.run_until_complete(run_pulumi_func(collect))
    except pulumi.RunError as error:
        return {"error": str(error)}
    finally:
        loop.close()
    return {"resources": recording.resources, "outputs": outputs, "seen": maker.look()}


def _exports() -> dict[str, Any]:
    root = get_root_resource()
    assert isinstance(root, Stack)
    return root.outputs


def kind_takes_tags(kind: str) -> bool:
    """Whether resources of a Pulumi type can have tags."""
    import pulumi_aws as aws

    package, module, name = kind.split(":")
    if package != "aws":
        return False
    folder = module.partition("/")[0]
    return takes_tags(getattr(getattr(aws, {"lambda": "lambda_"}.get(folder, folder)), name))


def main(plans: Path, folder: Path) -> None:
    """Run all plans, one after the other."""
    # Garbage collection over the objects of Pulumi's libraries takes longer than the plans.
    gc.disable()
    for plan in json.loads(plans.read_text()):
        maker: Maker = RecordingMaker()
        if plan["aws"]:
            from tests.infra.emulated.maker import EmulatedMaker

            maker = EmulatedMaker(plan["aws"], stack_values(plan["stack"])["aws:region"])
        found = run(plan["stack"], plan["settings"], maker)
        (folder / f"{plan['name']}.json").write_text(json.dumps(found, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
