"""A collector of spans in a process of its own: OpenTelemetry's protocol over gRPC.

``python -m tests.tracing.collector FILE`` prints its port, and writes a line of JSON for each span.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as rpc

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """What a collector knows of a span."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    links: Sequence[str]
    status: int
    seconds: float
    attributes: dict[str, str]


class _Collector(rpc.TraceServiceServicer):
    def __init__(self, file: Path) -> None:
        self._file = file

    def Export(  # noqa: N802
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        with self._file.open("a") as out:
            for resource in request.resource_spans:
                service = _attributes(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        out.write(json.dumps(_plain(service, span)) + "\n")
        return pb.ExportTraceServiceResponse()


def _attributes(found: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in found}


def _plain(service: str, span: Any) -> dict[str, Any]:
    return {
        "service": service,
        "name": span.name,
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "links": [each.trace_id.hex() for each in span.links],
        "status": int(span.status.code),
        "seconds": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        "attributes": _attributes(span.attributes),
    }


class Collector:
    """A running collector."""

    def __init__(self, port: int, file: Path) -> None:
        self.environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        """For programs that send spans to it."""
        self._file = file

    def spans(self) -> list[CollectedSpan]:
        if not self._file.exists():
            return []
        lines = self._file.read_text().splitlines()
        return [CollectedSpan(**json.loads(line)) for line in lines]

    def wait_for(self, *names: str) -> Self:
        """Wait until spans with all of these names have arrived."""
        end = time.monotonic() + SECONDS
        while missing := set(names) - {each.name for each in self.spans()}:
            assert time.monotonic() < end, f"{missing} are missing in {self.spans()}"
            time.sleep(0.05)
        return self

    def named(self, name: str) -> list[CollectedSpan]:
        return [each for each in self.spans() if each.name == name]


@contextmanager
def running_collector(folder: Path) -> Iterator[Collector]:
    file = folder / "spans"
    command = [sys.executable, "-m", "tests.tracing.collector", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Collector(int(process.stdout.readline()), file)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    server = grpc.server(ThreadPoolExecutor(2))
    add: Any = rpc.add_TraceServiceServicer_to_server
    add(_Collector(Path(sys.argv[1])), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
