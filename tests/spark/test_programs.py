"""Whole programs: one that is killed in the middle of a batch, one on the newest Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from emr_jobs.java import java_variables
from tests.spark.lake_folder import LakeFolder, payload_of
from tests.spark.program import BROKEN, LIMIT, PLAIN, TOPIC, start_stream, written
from tests.support.environment import environment

_ROOT = Path(__file__).parents[2]
_TRIES = 3
_TOO_BUSY = "Python worker failed to connect back"
"""Spark gives its Python processes 10 seconds to start, which a busy machine may not keep."""


def first_line(python: str, folder: Path, *arguments: str) -> str:
    """What a program says first; then it is killed, with its Java."""
    variables = {**java_variables(), "PYSPARK_PYTHON": python, "PYTHONPATH": str(_ROOT)}
    log = folder / "log"
    for _ in range(_TRIES):
        with log.open("w") as errors:
            program = subprocess.Popen(
                [python, "-m", "tests.spark.program", *arguments],
                cwd=_ROOT,
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert program.stdout is not None
        try:
            line = program.stdout.readline()
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            program.stdout.close()
        if line or _TOO_BUSY not in log.read_text():
            break
    assert line, log.read_text()[-5000:]
    return line


def programs_but_java(folder: Path) -> Path:
    """A folder with the system's programs, as a machine without Java has them."""
    folder.mkdir()
    for path in Path("/usr/bin").iterdir():
        if path.name != "java":
            (folder / path.name).symlink_to(path)
    return folder


def test_a_stream_killed_in_mid_batch_goes_on_with_neither_loss_nor_repeat(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that is killed runs where only the wheel has Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs_but_java(tmp_path / "bin")))
    lake = LakeFolder(tmp_path / "lake")
    for _ in range(4):
        lake.add(TOPIC, 30)
    said = first_line(sys.executable, tmp_path, "stream", str(tmp_path), "1")
    assert said.startswith("in batch 1 on Java 21.")
    assert written(tmp_path) == {0: list(range(LIMIT))}
    lake.add(TOPIC, 10)
    query = start_stream(spark, tmp_path)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert [n for offsets in written(tmp_path).values() for n in offsets] == list(range(130))


def test_the_newest_spark_reads_batches_and_streams(tmp_path: Path) -> None:
    lake = LakeFolder(tmp_path / "lake")
    for _ in range(2):
        lake.add(TOPIC, 50)
    lake.add(PLAIN, 70, plain=True)
    for partition in (0, 0, 0, 1):
        lake.add(f"{BROKEN}-part-{partition}", 10)
    first, _, *others = lake.objects("broken")
    for path in (first, *others):
        path.write_bytes(b"damaged")
    python = str(environment("spark") / "python")
    told: dict[str, Any] = json.loads(first_line(python, tmp_path, "smoke", str(tmp_path)))
    assert told["spark"].split(".") >= ["4", "3"]
    assert told["offsets"] == list(range(100))
    assert told["payload"] == payload_of(7).decode()
    assert told["attributes"] == {"source": "web", "n": "0"}
    assert told["plain"] == [[None, None, 70]]
    # It knows which objects it needs: to open a damaged one would be an error.
    assert told["pushed"] == 10
    # There, a limit holds for the trigger AvailableNow, too.
    assert told["batches"] == [[*range(40)], [*range(40, 80)], [*range(80, 100)]]
