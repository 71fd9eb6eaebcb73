"""What answers the requests of an HTTP/2 connection."""

from __future__ import annotations

from typing import Protocol

from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.streams import Stream


class Http2Handler(Protocol):
    """Called while bytes are received; must not block or raise."""

    def request(self, stream: Stream, head: Head, data: bytes) -> None:
        """A request begins. If ``stream.ended``, it is complete and ``data`` is all of its data."""
        ...

    def data(self, stream: Stream, data: bytes) -> None:
        """Data of a request; ``stream.ended`` says whether it was the last."""
        ...

    def reset(self, stream: Stream) -> None:
        """The client has given the request up, or broke the protocol: it can't be answered."""
        ...

    def drained(self, stream: Stream) -> None:
        """Nothing is queued for the client any more."""
        ...
