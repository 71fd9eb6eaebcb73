"""One request and its response, on a connection."""

from __future__ import annotations

from collections import deque

from broker_containers.doors.http2.frames import DEFAULT_WINDOW


class Stream:
    """The state of one stream. ``user`` belongs to whoever answers the request."""

    __slots__ = (
        "ended", "expected", "id", "queue", "queued", "room", "tail", "user", "window"
    )  # fmt: skip

    def __init__(self, number: int, window: int, room: int = DEFAULT_WINDOW) -> None:
        self.id = number
        self.window = window
        """Bytes of data that the client accepts."""
        self.room = room
        """Bytes of data that the client may send."""
        self.ended = False
        """The client has sent everything."""
        self.expected: int | None = None
        """Bytes of data that are still to come, if the client has announced them."""
        self.queue: deque[bytes] | None = None
        """Data that waits for the client's permission."""
        self.queued = 0
        self.tail: bytes | None = None
        """The headers that end the response, once they are known and data is queued."""
        self.user: object = None
