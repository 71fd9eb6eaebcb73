"""What all jobs share: arguments, the Spark session, the JSON result, exit codes.

Exit codes: 0 success, 1 an audit found faults, 2 invalid arguments or no such topic or bucket, 3
the job failed. The result is one JSON object on standard output, and in the file ``--result``;
messages go to standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from emr_jobs.java import prepare_java
from sulina import errors
from sulina.errors import Refused, SulinaError
from sulina.runtime.traces import caused_by, flush_spans, span, start_tracing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE: Final = 0
FAULTS_FOUND: Final = 1
REFUSED: Final = 2
FAILED: Final = 3

_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
}
"""Settings of Spark in local mode: few tasks, little output, no ports open to other machines."""

_TIMES: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Times are UTC, also in what jobs write. Spark's default there, INT96, has neither statistics nor
a time zone, and few other readers know it."""

_SPARK_VARIABLES: Final = {"PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_HOME"}
"""If one is set, spark-submit or Spark's own configuration decides how Spark runs."""

Result = dict[str, Any]


def parser(job: str, what: str, examples: str, *, tables: bool = False) -> argparse.ArgumentParser:
    """A parser with the arguments that all jobs have, including those that select records.

    With ``tables``, the records may also be those of an Iceberg table.
    """
    found = argparse.ArgumentParser(
        prog=f"python -m emr_jobs.jobs.{job}",
        description=what,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("--result", default="", help="also write the JSON result to this file")
    add("--master", default="", help="Spark master, such as local[2]; not with spark-submit")
    if tables:
        add(
            "--from-table",
            default="",
            help="the Iceberg table of a topic, catalog.database.table or the location of its "
            "metadata, in place of --path and --topic",
        )
    add("--path", required=not tables, default="", help="the lake: a folder, or s3://bucket/prefix")
    add(
        "--topic",
        required=not tables,
        default="",
        help="a topic, a comma-separated list, or a pattern such as /default/*",
    )
    add(
        "--allow-empty",
        action="store_true",
        help="topics without any object are not an error (a missing bucket or folder always is)",
    )
    add("--endpoint", default="", help="URL of an S3-compatible store other than AWS")
    add("--start-time", default="", help="first publish time: 2026-05-01T00:00:00Z")
    add("--end-time", default="", help="end of the publish times, exclusive")
    add("--start-offset", default="", help="first offset")
    add("--end-offset", default="", help="end of the offsets, exclusive")
    return found


def add_clock_skew(to: argparse.ArgumentParser) -> None:
    """Add the option, for jobs that let the data source choose the objects."""
    to.add_argument(
        "--clock-skew-seconds",
        default="",
        help="maximum deviation of publish times from offset order; finds times in few requests",
    )


def add_scheme(to: argparse.ArgumentParser) -> None:
    """Add the option, for jobs that use Spark's own file systems."""
    to.add_argument(
        "--scheme",
        default="",
        help="URL scheme that Spark uses for the store: s3a outside EMR (default: that of --path)",
    )


def source_options(arguments: argparse.Namespace, **more: Any) -> dict[str, str]:
    """The arguments as options of the data source."""
    given = {
        "path": arguments.path,
        "topic": arguments.topic,
        "endpoint": arguments.endpoint,
        "allowEmpty": "true" if arguments.allow_empty else "",
        "startTime": arguments.start_time,
        "endTime": arguments.end_time,
        "clockSkewSeconds": getattr(arguments, "clock_skew_seconds", ""),
        "startOffset": arguments.start_offset,
        "endOffset": arguments.end_offset,
        **more,
    }
    return {name: str(value) for name, value in given.items() if value not in ("", None)}


def run(
    arguments: argparse.Namespace, work: Callable[[argparse.Namespace], tuple[int, Result]]
) -> int:
    """Do ``work`` and print its result; errors become a message and an exit code.

    It is a span, if OpenTelemetry's variables name a collector: in the trace that ``TRACEPARENT``
    names, or in one of its own.
    """

    def traced() -> int:
        name = Path(work.__code__.co_filename).stem
        start_tracing("sulina-job", name, clients=False)
        caller = os.environ.get("TRACEPARENT", "")
        try:
            with caused_by(caller), span(f"job {name}", False):
                return _print(arguments, *work(arguments))
        finally:
            flush_spans()

    return guard(traced)


def guard(work: Callable[[], int]) -> int:
    """The exit code of ``work``, or of its error, which is printed as one sentence."""
    try:
        return work()
    except Refused as error:
        return _fail(REFUSED, error)
    except (SulinaError, OSError) as error:
        return _fail(FAILED, error)
    except Exception as error:
        # Spark's errors contain pages of Java stack traces; the cause is in the first lines.
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        ours = _ours(str(error))
        if ours is not None:
            return _fail(REFUSED if isinstance(ours, Refused) else FAILED, ours)
        return _fail(FAILED, _cause(str(error)))


def session(arguments: argparse.Namespace, name: str) -> SparkSession:
    """The running Spark session, or a new one, with the data source registered."""
    from pyspark.sql import SparkSession

    import emr_jobs

    prepare_java()
    _quieten()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"sulina-{name}")
    configured = arguments.master or _SPARK_VARIABLES & {*os.environ}
    if arguments.master.startswith("local") or not configured:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOCAL["spark.driver.host"])  # avoids a warning
        for setting, value in _LOCAL.items():
            builder = builder.config(setting, value)
    if arguments.master:
        builder = builder.master(arguments.master)
    for setting, value in _TIMES.items():
        builder = builder.config(setting, value)
    found = builder.getOrCreate()
    emr_jobs.register(found)
    return found


def command(main: Callable[[Sequence[str]], int]) -> None:
    """Run a job's ``main`` with the command line, and exit with its code."""
    raise SystemExit(main(sys.argv[1:]))


def _print(arguments: argparse.Namespace, code: int, result: Result) -> int:
    text = json.dumps(result, indent=2, default=str) + "\n"
    if arguments.result:
        Path(arguments.result).write_text(text)
    sys.stdout.write(text)
    return code


def _fail(code: int, error: object) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code


def _quieten() -> None:
    """Spark's errors reach the caller; PySpark also logs them, with tens of kilobytes of JSON."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _ours(text: str) -> SulinaError | None:
    """The error of ours that a Spark task or planner ended with, if it was one."""
    for line in text.splitlines():
        found = re.match(r"sulina\.errors\.(\w+): (.*)", line.strip())
        kind = getattr(errors, found[1], None) if found else None
        if found and isinstance(kind, type) and issubclass(kind, SulinaError):
            return (Refused if issubclass(kind, Refused) else SulinaError)(found[2])
    return None


def _cause(text: str) -> str:
    # The first line of a Java error names the Python call, the second the cause.
    for line in text.splitlines():
        if line.strip() and not line.startswith("An error occurred while calling "):
            return line.removeprefix(": ")
    return "Spark failed without a message: see its log"
