"""Runs the upsert job on Spark with Iceberg's runtime, and tells the table after each run.

``python -m tests.tables.upsert_program JAR LAKE METADATA``: from the objects, then again with
nothing new, then from the topic's Iceberg table after a rewrite of the files by Spark.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from emr_jobs.java import prepare_java
from emr_jobs.jobs import topic_statistics, upsert
from tests.spark.lake_folder import LakeFolder

TOPIC = "/default/orders"
TABLE = "local.db.latest"


def main() -> None:
    jar, folder, metadata = sys.argv[1:]
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    catalog = "spark.sql.catalog.local"
    settings: dict[str, Any] = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(Path(folder).parent / "warehouse"),
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    lake = LakeFolder(Path(folder), ends={TOPIC: 40}, ledgers=500)
    source = ["--path", folder, "--topic", TOPIC]
    table = ["--table", TABLE]

    def rows() -> list[list[Any]]:
        found = spark.table(TABLE).orderBy("key").collect()
        return [[bytes(row.key).decode(), row.offset, bytes(row.payload).decode()] for row in found]

    told: list[Any] = []
    codes = [upsert.main([*source, *table])]
    told.append(rows())
    codes.append(upsert.main([*source, *table]))
    dead = {"sulina.tombstone": "1"}
    lake.add(TOPIC, 3, payloads=[b"", b"new", b"new"], attributes=[dead, None, None])
    codes.append(upsert.main([*source, *table]))
    told.append(rows())
    snapshots = spark.table(f"{TABLE}.snapshots").count()
    codes.append(upsert.main(["--from-table", metadata, "--table", "local.db.other"]))
    told.append(spark.table("local.db.other").count())
    codes.append(topic_statistics.main(["--from-table", metadata]))
    codes.append(upsert.main(["--from-table", metadata, *source, *table]))
    last = {"codes": codes, "rows": told, "snapshots": snapshots}
    sys.stdout.write("\n" + json.dumps(last) + "\n")


if __name__ == "__main__":
    main()
