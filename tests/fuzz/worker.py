"""Fuzzes one target with atheris until a time limit: started by the command, in its own process.

``python -m tests.fuzz.worker MODULE TARGET FOLDER [libFuzzer's arguments]``. The product is
instrumented as it is imported, which takes a while: nothing here imports it earlier, and MODULE
imports what its targets need. An input that fails is reduced, written to
FOLDER and ends the process with the exit code ``FAILED``.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz.target import Target, altered

if TYPE_CHECKING:
    from tests.fuzz.target import Session

FAILED = 70
PRODUCT = ("sulina", "broker_containers", "storage_grpc")


class MemoryExceeded(Exception):
    """An input took more memory than its target allows."""


def check_memory(target: Target, run: Callable[[], None]) -> None:
    """Run; raise ``MemoryExceeded`` if the process grew by more than the target allows."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > target.memory_mib << 10:
        raise MemoryExceeded(
            f"the input took {grown >> 10} MiB, {target.name} allows {target.memory_mib}"
        )


class Runner:
    """Feeds inputs to a target; a failure is written to ``folder`` and ends the process."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self._session: Session | None = None
        self._history: list[bytes] = []
        self._executions = 0

    def __call__(self, data: bytes) -> None:
        self._executions += 1
        self._history.append(data)
        try:
            check_memory(self._target, self._feed)
        except BaseException as error:
            self._failed(error)

    def _feed(self) -> None:
        if self._session is None:
            self._session = self._target.open()
        self._session.feed(self._history[-1])
        if len(self._history) >= self._target.inputs_per_session:
            session, self._session = self._session, None
            session.close()
            self._history.clear()

    def _failed(self, error: BaseException) -> None:
        data = self._reduced()
        path = self._folder / f"failed-{hashlib.sha1(data).hexdigest()[:16]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        traceback.print_exception(error)
        print(f"executed {self._executions}", file=sys.stderr)  # noqa: T201
        print(f"failed {path}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(FAILED)

    def _reduced(self) -> bytes:
        """The failing input alone, or with the inputs before it that it needs."""
        needed, target = self._history, self._target
        if not self._fails(needed[-1]):
            step = len(needed) // 2
            while step:
                for at in range(0, len(needed) - 1, step):
                    fewer = needed[:at] + needed[min(at + step, len(needed) - 1) :]
                    if self._fails(target.separator.join(fewer)):
                        needed = fewer
                        break
                else:
                    step //= 2
            return target.separator.join(needed)
        return needed[-1]

    def _fails(self, data: bytes) -> bool:
        try:
            self._target.run(data)
        except BaseException:
            return True
        return False


def main() -> None:
    import atheris

    module, name, folder, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=list(PRODUCT)):
        targets = import_module(module).TARGETS
    target: Target = next(each for each in targets if each.name == name)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        chance = Random(seed)

        def by_libfuzzer(part: bytes) -> bytes:
            return bytes(atheris.Mutate(part, max(len(part) + 64, 16)))

        return altered(target, data, chance, by_libfuzzer)[:max_size]

    mutator = {"custom_mutator": mutate} if target.messages else {}
    runner = Runner(target, Path(folder))
    atheris.Setup([sys.argv[0], *arguments], runner, **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
