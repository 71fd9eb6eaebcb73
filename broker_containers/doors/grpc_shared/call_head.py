"""What the headers of a gRPC call say."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import grpc

from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.hpack import Header
from broker_containers.security.bearer import bearer_token
from broker_containers.security.certificate import ClientCertificate

_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_NOT_METADATA: Final = ("grpc-", "content-type", "te")
PRINCIPAL: Final = "x-sulina-principal"
"""Whose certificate another broker has checked, percent-encoded, and until when it is valid."""
UNTIL: Final = "x-sulina-until-us"


class CallHead:
    """The method, metadata and limits of a call. Kept as long as the client repeats the headers."""

    __slots__ = (
        "host",
        "http_status",
        "metadata",
        "path",
        "problem",
        "timeout",
        "token",
        "vouched",
    )

    def __init__(self, head: Head) -> None:
        self.path = head.path
        """``/package.Service/Method``."""
        self.metadata: tuple[Header, ...] = tuple(
            header for header in head.headers if not header[0].startswith(_NOT_METADATA)
        )
        named = dict(reversed(head.headers))
        self.token = bearer_token(named.get("authorization", ""))
        """Empty without one."""
        self.host = head.authority.rpartition(":")[0]
        """The name under which the client reached this broker."""
        self.vouched: ClientCertificate | None = None
        """Counts only with the brokers' own token."""
        until = named.get(UNTIL, "")
        if PRINCIPAL in named and until.isdecimal() and len(until) < 20:
            self.vouched = ClientCertificate(unquote(named[PRINCIPAL]), int(until))
        self.timeout: float | None = None
        """Seconds that the client waits; None for as long as it takes."""
        self.problem: tuple[grpc.StatusCode, str] | None = None
        """Why the call can't be served."""
        self.http_status = 0
        """The answer to a request that is not a gRPC call."""
        if head.method != "POST":
            self.http_status = 405
        elif not named.get("content-type", "").startswith("application/grpc"):
            self.http_status = 415
        elif named.get("grpc-encoding", "identity") != "identity":
            self.problem = (
                grpc.StatusCode.UNIMPLEMENTED,
                f"messages compressed with {named['grpc-encoding']!r} are not accepted: send them "
                "uncompressed",
            )
        if "grpc-timeout" in named:
            found = _TIMEOUT.fullmatch(named["grpc-timeout"])
            if found is None:
                self.problem = grpc.StatusCode.INVALID_ARGUMENT, "grpc-timeout is malformed"
            else:
                self.timeout = int(found[1]) * _SECONDS[found[2]]
