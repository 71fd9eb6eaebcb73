"""The headers that a request begins with, checked."""

from __future__ import annotations

from typing import Final

from broker_containers.doors.http2.hpack import Header

_PSEUDO: Final = (":method", ":scheme", ":path", ":authority")
_FORBIDDEN: Final = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)


class Head:
    """What a header block of a client says. The same object stands for every repetition of it."""

    __slots__ = (
        "authority",
        "content_length",
        "fault",
        "headers",
        "memo",
        "method",
        "path",
        "trailer_fault",
    )

    def __init__(self, headers: tuple[Header, ...]) -> None:
        self.method = ""
        self.path = ""
        self.authority = ""
        """The host and port that the client called."""
        self.headers: tuple[Header, ...] = ()
        """Without those whose name begins with a colon."""
        self.content_length: int | None = None
        self.fault = ""
        """Why it can't begin a request; empty if it can."""
        self.trailer_fault = ""
        """The same for the end of one."""
        self.memo: object = None
        """What the user of this module concluded from it."""
        try:
            self._read(headers)
        except ValueError as error:
            self.fault = self.trailer_fault = str(error)

    def _read(self, headers: tuple[Header, ...]) -> None:
        found: dict[str, str] = {}
        ordinary: list[Header] = []
        for name, value in headers:
            if name.startswith(":"):
                if name not in _PSEUDO or name in found or ordinary:
                    raise ValueError(f"the header {name!r} is not allowed here")
                found[name] = value
                continue
            if not name or name.lower() != name or name in _FORBIDDEN:
                raise ValueError(f"the header {name!r} is not allowed")
            if name == "te" and value != "trailers":
                raise ValueError("the header te must be 'trailers'")
            if name == "content-length":
                if not (value.isascii() and value.isdigit()) or len(value) > 18:
                    raise ValueError("the header content-length must be a number")
                self.content_length = int(value)
            ordinary.append((name, value))
        self.headers = tuple(ordinary)
        if found:
            self.trailer_fault = "the end of a request has a header that begins with a colon"
        self.method, self.path = found.get(":method", ""), found.get(":path", "")
        self.authority = found.get(":authority", "")
        if not self.method or not self.path or not found.get(":scheme"):
            self.fault = "the request lacks :method, :scheme or :path"
