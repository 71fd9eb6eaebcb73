"""EMR Serverless: runs Spark jobs on this machine, one at a time, in the order of their start.

A run executes its entry point from S3 with its arguments. Spark has no file system for ``s3://``
here, so a table that a job writes is a folder, which is copied to its place in S3 when the job has
succeeded. The job's output is in one log file per run, and in S3 where the request asks for it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import sys
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from localstack.cloud.definitions import inherited
from localstack.environments import ROOT
from sulina.errors import NotFound, Unavailable
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.seam import Clock

_WRITTEN: Final = ("--output", "--table")
"""The arguments that name a table which a job writes."""
_KEPT: Final = 100
_MAX_WAITING: Final = 20
_POLL_SECONDS: Final = 0.2
_SPARK_MISSING: Final = "pyspark is not installed here: `make up CLOUD=1` installs it"
ACTIVE: Final = ("QUEUED", "RUNNING")


@dataclass(slots=True, eq=False)
class JobRun:
    """One run of a job."""

    request: Mapping[str, Any]
    created: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    state: str = "QUEUED"
    details: str = ""

    @property
    def name(self) -> str:
        return str(self.request.get("name", ""))

    def described(self) -> dict[str, Any]:
        """As EMR's API describes it."""
        return {
            "id": self.id,
            "jobRunId": self.id,
            "name": self.name,
            "state": self.state,
            "stateDetails": self.details,
            "createdAt": self.created,
            "updatedAt": self.created,
            "applicationId": self.request["applicationId"],
            "arn": f"arn:aws:emr-serverless:::/applications/x/jobruns/{self.id}",
            "createdBy": "localstack",
            "executionRole": self.request["executionRoleArn"],
            "releaseLabel": "local",
            "jobDriver": self.request.get("jobDriver", {}),
        }


class JobRunner:
    """The runs of all applications; ``tell`` is called with a sentence when one ends."""

    def __init__(
        self,
        account: Any,
        variables: Mapping[str, str],
        folder: Path,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.runs: deque[JobRun] = deque(maxlen=_KEPT)
        """The newest runs, oldest first."""
        self._account = account
        self._variables = variables
        self._folder = folder
        self._clock = clock
        self._tell = tell
        self._new = asyncio.Event()

    def start(self, application: str, request: Mapping[str, Any]) -> JobRun:
        """Queue a run; requests with the same client token start one run.

        Raises ``Unavailable`` if too many wait.
        """
        token = request.get("clientToken")
        for run in self.runs:
            if token and run.request.get("clientToken") == token:
                return run
        if sum(run.state in ACTIVE for run in self.runs) >= _MAX_WAITING:
            raise Unavailable(f"{_MAX_WAITING} runs wait already")
        run = JobRun({**request, "applicationId": application}, self._clock.wall_us() / 1e6)
        self.runs.append(run)
        self._new.set()
        return run

    def find(self, run_id: str) -> JobRun:
        """A run by its id. Raises ``NotFound``."""
        for run in self.runs:
            if run.id == run_id:
                return run
        raise NotFound(f"there is no job run {run_id}")

    def cancel(self, run_id: str) -> None:
        """Cancel a run that waits or runs. Raises ``NotFound``."""
        run = self.find(run_id)
        if run.state in ACTIVE:
            run.state = "CANCELLED"

    async def run(self) -> None:
        """Execute runs until cancelled."""
        while True:
            self._new.clear()
            for run in [each for each in self.runs if each.state == "QUEUED"]:
                run.state = "RUNNING"
                await self._execute(run)
                self._tell(f"Spark job {run.name}: {run.state.lower()}{_also(run.details)}")
            await self._new.wait()

    async def _execute(self, run: JobRun) -> None:
        if importlib.util.find_spec("pyspark") is None:
            run.state, run.details = "FAILED", _SPARK_MISSING
            return
        driver = run.request["jobDriver"]["sparkSubmit"]
        folder = self._folder / run.id
        folder.mkdir()
        arguments, tables = self._here(driver.get("entryPointArguments", ()))
        entry = folder / "job.py"
        entry.write_bytes(await asyncio.to_thread(self._read, driver["entryPoint"]))
        log = self._folder / f"{run.name}-{run.id}.log"
        variables = {**inherited(), **self._variables, "PYTHONPATH": str(ROOT)}
        command = (sys.executable, str(entry), *arguments)
        child = ChildProcess(command, log, folder=folder, environment=variables)
        minutes = int(run.request.get("executionTimeoutMinutes", 0)) or 12 * 60
        end = self._clock.now() + 60 * minutes
        child.start()
        try:
            while child.running and run.state == "RUNNING":
                if self._clock.now() > end:
                    run.state, run.details = "FAILED", f"it took longer than {minutes} minutes"
                await self._clock.sleep(_POLL_SECONDS)
        finally:
            child.kill()
            shutil.rmtree(folder, ignore_errors=True)
        if run.state != "RUNNING":
            return
        if child.exit_code:
            run.state, run.details = "FAILED", f"{_last_line(log)} (its log is {log})"
            return
        for table, url in tables.items():
            await asyncio.to_thread(self._copy, table, url)
        run.state = "SUCCESS"

    def _here(self, arguments: Any) -> tuple[list[str], dict[Path, str]]:
        """The arguments with folders in place of tables in S3; the tables' URLs by folder."""
        found, tables = list(arguments), {}
        for place, (name, value) in enumerate(pairwise(arguments), 1):
            if name in _WRITTEN and value.startswith("s3://"):
                table = self._folder / "tables" / re.sub(r"[^\w=.-]+", "_", value[5:])
                tables[table] = value
                found[place] = str(table)
        return found, tables

    def _read(self, url: str) -> bytes:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        body: bytes = self._account.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def _copy(self, table: Path, url: str) -> None:
        """Make the objects at ``url`` those of the table."""
        s3 = self._account.client("s3")
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        files = {
            f"{prefix}/{path.relative_to(table).as_posix()}": path
            for path in table.rglob("*")
            if path.is_file() and path.suffix != ".crc"
        }
        for key, path in files.items():
            s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        for page in s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix}/"
        ):
            for each in page.get("Contents", ()):
                if each["Key"] not in files:
                    s3.delete_object(Bucket=bucket, Key=each["Key"])


def _also(details: str) -> str:
    return f", {details}" if details else ""


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
