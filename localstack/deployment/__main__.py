"""Creates the resources of a stack in an emulated AWS.

    python -m localstack.deployment request.json

The request is a JSON object: ``stack``, ``settings`` (added to those of its file), ``url`` of the
emulated AWS, ``elsewhere``, the URLs of services that are not there, and ``credentials``. Prints
the number of resources as they are created, and at the end the program's outputs, each as a line of
JSON. An error is one sentence on standard error, with exit code 1.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from localstack.deployment.maker import EmulatedMaker
from localstack.deployment.program import run_program
from localstack.deployment.stack_files import stack_values
from localstack.emulators.credentials import Credentials

_STEP = 25


class _ReportingMaker(EmulatedMaker):
    """Prints how many resources exist."""

    count = 0

    def make(self, kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        made = super().make(kind, name, given)
        self.count += 1
        if not self.count % _STEP:
            _print({"resources": self.count})
        return made


def main(path: Path) -> int:
    """Create everything; returns the exit code."""
    # Garbage collection over the objects of Pulumi's libraries takes longer than the program.
    gc.disable()
    request = json.loads(path.read_text())
    region = stack_values(request["stack"])["aws:region"]
    credentials = Credentials(*request["credentials"])
    maker = _ReportingMaker(request["url"], region, request["elsewhere"], credentials)
    try:
        made = run_program(request["stack"], request["settings"], maker)
        maker.finish()
    except Exception as error:
        # Pulumi wraps errors of callbacks in others: the first one is the cause.
        sys.stderr.write(f"{_cause(error)}\n")
        return 1
    _print({"resources": maker.count, "outputs": made.outputs})
    return 0


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, (pulumi.RunError, RuntimeError)) or error.__cause__ is None:
        return error
    return _cause(error.__cause__)


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
