"""Creates DNS records again that were deleted, which moto refuses.

moto compares a request with all earlier ones, and takes a record for existing if it was created
once in the same words and any later name of the zone has a record now.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from xml.etree import ElementTree

from localstack.gateway.server import Answer, Call

_CREATE, _UPSERT = b"<Action>CREATE</Action>", b"<Action>UPSERT</Action>"
Record = tuple[str, str, str]
"""The path of its zone, its name and its type."""


class DnsRecords:
    """Knows which records exist, and lets moto write the others without comparing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: set[Record] = set()

    def before(self, call: Call) -> Answer | Call | None:
        """Let moto write new records; refuse to create one that is there, as AWS does."""
        if not _changes_records(call):
            return None
        with self._lock:
            for action, record in _changes(call):
                if action == "CREATE" and record in self._there:
                    return _exists(record)
        return replace(call, body=call.body.replace(_CREATE, _UPSERT))

    def after(self, call: Call, answer: Answer) -> Answer:
        """Remember what was written and deleted."""
        if _changes_records(call) and answer.status == 200:
            with self._lock:
                for action, record in _changes(call):
                    if action == "DELETE":
                        self._there.discard(record)
                    else:
                        self._there.add(record)
        return answer


def _changes_records(call: Call) -> bool:
    named = call.path.rstrip("/").endswith("/rrset")
    return call.service == "route53" and call.method == "POST" and named


def _exists(record: Record) -> Answer:
    _, name, kind = record
    said = f"Tried to create [name='{name}', type='{kind}'] but it already exists"
    error = f"<Error><Code>InvalidChangeBatch</Code><Message>[{said}]</Message></Error>"
    body = f"<ErrorResponse>{error}</ErrorResponse>".encode()
    return Answer(400, {"Content-Type": "text/xml"}, body)


def _changes(call: Call) -> list[tuple[str, Record]]:
    """The actions of a request with their records."""
    return [
        (
            change.findtext("{*}Action", ""),
            (
                call.path.rstrip("/"),
                change.findtext("{*}ResourceRecordSet/{*}Name", "").rstrip("."),
                change.findtext("{*}ResourceRecordSet/{*}Type", ""),
            ),
        )
        for change in ElementTree.fromstring(call.body).iter()
        if change.tag.rpartition("}")[2] == "Change"
    ]
