"""A Spark program of its own, for tests that kill it or run it on another version of Spark.

``python -m tests.spark.program stream FOLDER [BATCH]`` streams ``FOLDER/lake`` into a file for each
batch, and in batch number BATCH says so and waits for its end. ``... smoke FOLDER`` reads the same
in every way and tells what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import emr_jobs

TOPIC = "/default/orders"
PLAIN = "/default/plain"
BROKEN = "/default/broken"
LIMIT = 40
_FOR_EVER = 3600.0


def new_session(folder: Path) -> SparkSession:
    """Small, quiet, and on loopback alone."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    emr_jobs.register(session)
    return session


def start_stream(spark: SparkSession, folder: Path, wait_in: int = -1, **trigger: Any) -> Any:
    """A query that writes the offsets of each batch to ``out/<batch>.json``."""
    out = folder / "out"
    out.mkdir(exist_ok=True)

    def write(batch: DataFrame, number: int) -> None:
        offsets = [row.offset for row in batch.select("offset").collect()]
        if number == wait_in:
            print(f"in batch {number} on Java {_java(spark)}", flush=True)  # noqa: T201 - a test waits
            time.sleep(_FOR_EVER)
        (out / f"{number}.json").write_text(json.dumps(offsets))

    rows = spark.readStream.format("sulina").options(
        path=str(folder / "lake"), topic=TOPIC, maxRecordsPerTrigger=str(LIMIT)
    )
    writer = rows.load().writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


def written(folder: Path) -> dict[int, list[int]]:
    """The offsets of each batch."""
    files = sorted((folder / "out").glob("*.json"))
    return {int(path.stem): json.loads(path.read_text()) for path in files}


def smoke(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Read in every way."""
    options = {"path": str(folder / "lake"), "topic": TOPIC}
    frame = spark.read.format("sulina").options(**options).load()
    rows = frame.orderBy("offset").collect()
    plain = spark.read.format("sulina").options(**options | {"topic": PLAIN}).load()
    some = options | {"topic": BROKEN, "gapSeconds": "0"}
    broken = spark.read.format("sulina").options(**some).load()
    query = start_stream(spark, folder, availableNow=True)
    query.awaitTermination()
    return {
        "spark": spark.version,
        "offsets": [row.offset for row in rows],
        "payload": bytes(rows[7].payload).decode(),
        "attributes": rows[0].attributes,
        "plain": [list(row) for row in plain.groupBy("key", "attributes.n").count().collect()],
        "pushed": broken.where("partition = 0 AND offset >= 10 AND offset < 20").count(),
        "batches": list(written(folder).values()),
    }


def _java(spark: SparkSession) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return str(jvm.java.lang.System.getProperty("java.version"))


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    spark = new_session(folder)
    if what == "smoke":
        print(json.dumps(smoke(spark, folder)), flush=True)  # noqa: T201 - its result
    else:
        start_stream(spark, folder, int(sys.argv[3])).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
