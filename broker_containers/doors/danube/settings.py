"""Where the door for Danube's clients listens, how they find it, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PORT: Final = 6650


@dataclass(frozen=True, slots=True)
class DanubeSettings:
    """Everything a client can make large, many or long has a bound."""

    max_message_bytes: int = (4 << 20) - (4 << 10)
    """The largest message taken or delivered, with its attributes: stock clients receive 4 MiB."""
    receive_bytes: int = 256 << 20
    """The largest request that is read at all. Beyond it gRPC itself answers RESOURCE_EXHAUSTED,
    which stock clients repeat for ever, so it lies far above what is refused with a reason."""
    max_pending_bytes: int = 256 << 20
    """Messages of all producers that wait to become durable."""
    max_calls: int = 4096
    """Under way at once on one connection; the client keeps further ones back."""
    frame_records: int = 4096
    frame_bytes: int = 1 << 20
    """Messages that wait together share a frame up to this size."""
    gather_step_seconds: float = 0.002
    gather_seconds: float = 0.01
    """After an answer to several callers the next frame waits for theirs: for so long at most, and
    only while several more come within each step."""
    max_unacked: int = 256
    """Messages that a consumer has and has not acknowledged, before it gets more."""
    stream_bytes: int = 4 << 20
    """Frames that wait for a consumer's stream, before its subscription holds back."""
    reopen_seconds: float = 0.7
    """How long a stream that can't be is held before it is ended: stock clients open the next one
    at once."""
    forward_after_seconds: float = 6.0
    """A client that still asks at the wrong broker after so long has missed its health check: it
    is served from there."""
    silent_seconds: float = 60.0
    """Producers, and consumers without a stream, that are not heard of for so long are gone."""
    sweep_seconds: float = 1.0
    session_seconds: int = 600
    """For how long consumers are known by their ids after their broker was lost."""
    peer_seconds: float = 20.0
    """From a call that is passed on to another broker to its answer."""
    goodbye_seconds: float = 2.0
    """How long calls under way may take when the broker stops."""


@dataclass(frozen=True, slots=True)
class DanubeListen:
    """Where to listen, and what clients are told about it."""

    host: str = "127.0.0.1"
    port: int = PORT
    certificate: bytes | None = field(default=None, repr=False)
    """PEM, with its chain; without it there is no TLS."""
    key: bytes | None = field(default=None, repr=False)
    """PEM; may be left out if it is in the certificate's file."""
    advertise: str = ""
    """The URL at which clients find this broker; made from the next and the port if empty."""
    advertise_host: str = ""
    """The host of that URL; the one to listen on if empty."""
    proxy_url: str = ""
    """The one URL by which clients reach all brokers, if they can't reach each by its own."""
    settings: DanubeSettings = field(default_factory=DanubeSettings)

    @property
    def scheme(self) -> str:
        """Of the URLs that clients are told."""
        return "http" if self.certificate is None else "https"
