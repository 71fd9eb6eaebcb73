"""The command line that proofs share: how many records, where, and what remains after a failure."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, TypeVar

from localstack.emulators.s3 import make_bucket
from localstack.emulators.seaweedfs import running_seaweedfs
from localstack.emulators.server import EmulatorServer
from sulina.errors import SulinaError

_BUCKET: Final = "lake"
_MIN_RECORDS: Final = 1000


class Outcome(Protocol):
    """What a proof found."""

    faults: list[str]
    """Sentences; none if it succeeded."""


Proved = TypeVar("Proved", bound=Outcome)


def proof_arguments(program: str, doc: str | None, records: int) -> argparse.ArgumentParser:
    """The options of every proof, with its usual number of records."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=doc)
    parser.add_argument(
        "--records", type=int, default=records, help=f"number of records (default: {records})"
    )
    parser.add_argument("--embedded", action="store_true", help="one process instead of a cluster")
    parser.add_argument("--data", type=Path, help="a new folder for data and logs, to be kept")
    return parser


def parse_proof(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options given; exits with 2 if they are wrong."""
    given = parser.parse_args()
    if given.records < _MIN_RECORDS:
        parser.error(f"--records must be at least {_MIN_RECORDS}")
    if given.data is not None and given.data.exists():
        parser.error(f"{given.data} already exists: --data must be a new folder")
    return given


def run_proof(
    given: argparse.Namespace, run: Callable[[Path], Proved], show: Callable[[Proved], None]
) -> int:
    """Run a proof in its folder and show the result. Returns the exit code.

    The folder is removed after a success, unless ``--data`` named it.
    """
    folder = given.data or Path(tempfile.mkdtemp(prefix="sulina-proof-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        proof = run(folder.absolute())
    except (SulinaError, RuntimeError, ExceptionGroup) as error:
        sys.stderr.write(f"error: {_cause(error)}; data and logs: {folder}\n")
        return 1
    show(proof)
    if proof.faults:
        sys.stderr.write(f"data and logs: {folder}\n")
        return 1
    if given.data is None:
        shutil.rmtree(folder)
    return 0


def new_lake(stack: ExitStack, folder: Path) -> tuple[str, EmulatorServer]:
    """A lake in an S3 server of its own, which the environment names for all processes."""
    server = stack.enter_context(running_seaweedfs(folder / "seaweedfs"))
    make_bucket(server.url, server.credentials, _BUCKET)
    os.environ.update(server.variables)
    return f"s3://{_BUCKET}/proof", server


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
