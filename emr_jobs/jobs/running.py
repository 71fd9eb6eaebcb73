"""What the jobs have in common: arguments, a Spark session, one JSON result, exit codes.

0: done. 1: the job found what it is to report (an audit with faults). 2: wrong arguments.
3: it could not be done. The result goes to standard output as one JSON object, and to ``--result``
if that is given; what people read goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from emr_jobs.java import prepare_java
from sulina.errors import Refused, SulinaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE: Final = 0
FOUND: Final = 1
REFUSED: Final = 2
FAILED: Final = 3

_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
}
"""For Spark in this process: few tasks, little talk, and nobody else gets to its ports."""

_ELSEWHERE: Final = {"PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_HOME"}
"""Variables where somebody else says how Spark shall run: spark-submit, or its settings."""

Result = dict[str, Any]


def parser(module: str, what: str, examples: str) -> argparse.ArgumentParser:
    """A parser with the arguments of every job."""
    found = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=what,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--result", default="", help="also write the JSON result there: a file")
    found.add_argument(
        "--master", default="", help="where Spark runs, as local[2]; spark-submit says it otherwise"
    )
    return found


def add_source(to: argparse.ArgumentParser) -> None:
    """The arguments that say which records a job is about."""
    to.add_argument("--path", required=True, help="the lake: a folder, or s3://bucket/prefix")
    to.add_argument(
        "--topic",
        required=True,
        help="a topic, several divided by commas, or a pattern: /default/*",
    )
    to.add_argument("--endpoint", default="", help="of an S3 other than that of AWS")
    to.add_argument("--start-time", default="", help="from this time on: 2026-05-01T00:00:00Z")
    to.add_argument("--end-time", default="", help="to before this time")
    to.add_argument("--start-offset", default="", help="from this offset on")
    to.add_argument("--end-offset", default="", help="to before this offset")


def add_clock_skew(to: argparse.ArgumentParser) -> None:
    """For jobs that leave the choice of objects to the data source."""
    to.add_argument(
        "--clock-skew-seconds",
        default="",
        help="publish times rise with the offsets but for so much: times are found by few requests",
    )


def source_options(arguments: argparse.Namespace, **more: Any) -> dict[str, str]:
    """The same as options of the data source."""
    given = {
        "path": arguments.path,
        "topic": arguments.topic,
        "endpoint": arguments.endpoint,
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
    """Do ``work`` and tell its result; errors become a sentence and an exit code."""
    return guard(lambda: _tell(arguments, *work(arguments)))


def guard(work: Callable[[], int]) -> int:
    """The exit code of ``work``, or of its error, which becomes a sentence."""
    try:
        return work()
    except Refused as error:
        return _told(REFUSED, error)
    except (SulinaError, OSError) as error:
        return _told(FAILED, error)
    except Exception as error:
        # Spark's errors have pages of Java in them; the cause is in the first lines.
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        return _told(FAILED, _cause(str(error)))


def session(arguments: argparse.Namespace, name: str) -> SparkSession:
    """Spark, with the data source registered: the running session, or a new one."""
    from pyspark.sql import SparkSession

    import emr_jobs

    prepare_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"sulina-{name}")
    if arguments.master.startswith("local") or not (arguments.master or _ELSEWHERE & {*os.environ}):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOCAL["spark.driver.host"])  # else it warns
        for setting, value in _LOCAL.items():
            builder = builder.config(setting, value)
    if arguments.master:
        builder = builder.master(arguments.master)
    found = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    emr_jobs.register(found)
    return found


def command(main: Callable[[Sequence[str]], int]) -> None:
    """Run a job as the program that it is."""
    raise SystemExit(main(sys.argv[1:]))


def _tell(arguments: argparse.Namespace, code: int, result: Result) -> int:
    text = json.dumps(result, indent=2, default=str) + "\n"
    if arguments.result:
        Path(arguments.result).write_text(text)
    sys.stdout.write(text)
    return code


def _told(code: int, error: object) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code


def _cause(text: str) -> str:
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("sulina.errors."):
            return words.partition(": ")[2]
    # Of an error in Java the first line names Python's call, the second what happened.
    for line in text.splitlines():
        if line.strip() and not line.startswith("An error occurred while calling "):
            return line.removeprefix(": ")
    return "Spark failed and did not say why"
