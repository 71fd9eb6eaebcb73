"""What a Spark job does that publishes, without Spark: its span, and that of a task."""

from __future__ import annotations

import argparse
import sys

from emr_jobs.jobs.running import DONE, Result, run
from emr_jobs.sink.options import parse_write_options
from emr_jobs.sink.publisher import publish
from emr_jobs.sink.rows import RecordChunk
from sulina.runtime.traces import trace_parent
from tests.tracing.program import SPARK

OWN_TRACE = "0" * 31 + "1"
_OWN = {"traceparent": f"00-{OWN_TRACE}-00f067aa0ba902b7-01"}


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    given = {"url": arguments.url, "topic": SPARK, "traceparent": trace_parent()}
    chunk = RecordChunk([b"new", b"forwarded"], None, [None, _OWN])
    done = publish(parse_write_options(given, overwrite=False), "task/0", iter([chunk]))
    return DONE, {"records": done.records}


if __name__ == "__main__":
    raise SystemExit(run(argparse.Namespace(result="", url=sys.argv[1]), work))
