"""Stores bucket policies in moto's place, which applies denials without their conditions.

Our buckets deny what comes without TLS; moto would deny everything.
"""

from __future__ import annotations

import threading
from urllib.parse import parse_qs, urlsplit

from localstack.gateway.server import Answer, Call


class BucketPolicies:
    """Answers ``GET``, ``PUT`` and ``DELETE`` of ``/<bucket>?policy``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: dict[str, bytes] = {}

    def before(self, call: Call) -> Answer | None:
        """Answer requests about policies; those of deleted buckets are forgotten."""
        url = urlsplit(call.path)
        bucket = url.path.strip("/")
        if call.service != "s3" or not bucket or "/" in bucket:
            return None
        with self._lock:
            if call.method == "DELETE":
                self._policies.pop(bucket, None)
            if "policy" not in parse_qs(url.query, keep_blank_values=True):
                return None
            if call.method == "PUT":
                self._policies[bucket] = call.body
            if call.method != "GET":
                return Answer(204, {}, b"")
            policy = self._policies.get(bucket)
        if policy is None:
            missing = b"<Error><Code>NoSuchBucketPolicy</Code></Error>"
            return Answer(404, {"Content-Type": "application/xml"}, missing)
        return Answer(200, {"Content-Type": "application/json"}, policy)

    def after(self, call: Call, answer: Answer) -> Answer:
        """Nothing to add."""
        return answer
