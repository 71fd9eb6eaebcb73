"""The storage service's names, and how connections of it are set up at both ends."""

from __future__ import annotations

from typing import Final

from storage_grpc import storage_pb2
from storage_grpc.remote.settings import RemoteSettings

SERVICE: Final = storage_pb2.DESCRIPTOR.services_by_name["Storage"].full_name
PROTOCOL: Final = 1
INCARNATION_KEY: Final = "sulina-incarnation"
"""The metadata in which a call says which node it means."""
LIFE_KEY: Final = "sulina-life"
"""The metadata in which appends say in which life of the node they are to be taken."""

Options = list[tuple[str, int]]

_SLACK: Final = 16 << 20
"""gRPC's own limit lies so far above ours, so that ours is the one that is met and explained."""

_BOTH: Final[Options] = [
    # Entries are large: large frames, and enough buffered to keep the wire busy meanwhile.
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.write_buffer_size", 4 << 20),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.max_send_message_length", -1),
]


def method(name: str) -> str:
    """The path of a method."""
    return f"/{SERVICE}/{name}"


def server_options(max_entry_bytes: int) -> Options:
    """For a server that takes entries of that size."""
    return [
        *_BOTH,
        ("grpc.max_receive_message_length", max_entry_bytes + _SLACK),
        ("grpc.max_concurrent_streams", 4096),
        # Two processes must not share a port without knowing.
        ("grpc.so_reuseport", 0),
        # Clients may ping as often as they need to notice that this node is gone.
        ("grpc.http2.min_ping_interval_without_data_ms", 100),
        ("grpc.http2.max_ping_strikes", 0),
        # And this is how their end is noticed.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
    ]


def channel_options(settings: RemoteSettings) -> Options:
    """For a client."""
    ping, connect, first, last = (
        int(1000 * seconds)
        for seconds in (
            settings.ping_seconds,
            settings.connect_timeout,
            settings.first_backoff,
            settings.last_backoff,
        )
    )
    return [
        *_BOTH,
        # What a read returns is bounded by what was asked for.
        ("grpc.max_receive_message_length", -1),
        ("grpc.keepalive_time_ms", ping),
        ("grpc.keepalive_timeout_ms", ping),
        # Of pings that measure the bandwidth: while one is unanswered no other is sent, and its
        # own time-out would be a minute.
        ("grpc.http2.ping_timeout_ms", ping),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.min_reconnect_backoff_ms", connect),  # the time for an attempt, despite its name
        ("grpc.max_reconnect_backoff_ms", last),
        # A connection of its own for each node; no repeated calls behind our back; no detours.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]
