"""Whole programs: one that is killed in the middle of a batch, one on the newest Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from emr_jobs.java import find_java
from tests.spark.lake_folder import LakeFolder, payload_of
from tests.spark.program import LIMIT, TOPIC, start_stream, written
from tests.support.environment import environment

_ROOT = Path(__file__).parents[2]


def test_a_stream_killed_in_mid_batch_goes_on_with_neither_loss_nor_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeFolder(tmp_path / "lake")
    for _ in range(4):
        lake.add(TOPIC, 30)
    killed = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.program", "stream", str(tmp_path), "1"],
        cwd=_ROOT,
        env=_variables(sys.executable),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert killed.stdout is not None
    try:
        assert "in batch 1" in killed.stdout.readline()
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # the driver and its Java
        killed.wait()
        killed.stdout.close()
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
    python = environment("spark") / "python"
    done = subprocess.run(
        [str(python), "-m", "tests.spark.program", "smoke", str(tmp_path)],
        cwd=_ROOT,
        env=_variables(str(python)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["spark"].split(".") >= ["4", "3"]
    assert told["offsets"] == list(range(100))
    assert told["payload"] == payload_of(7).decode()
    assert told["attributes"] == {"source": "web", "n": "0"}
    # There, a limit holds for the trigger AvailableNow, too.
    assert told["batches"] == [[*range(40)], [*range(40, 80)], [*range(80, 100)]]


def _variables(python: str) -> dict[str, str]:
    own = {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": python, "PYTHONPATH": str(_ROOT)}
    return {**os.environ, **own}
