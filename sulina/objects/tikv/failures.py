"""Which errors of TiKV and PD another attempt may fix, and which it may not, by name."""

from __future__ import annotations

from typing import Final

import grpc

from sulina.errors import Refused, StorageFull, TooLarge
from sulina.objects.outcomes import TemporaryFailure
from sulina.objects.tikv import messages_pb2 as pb


class LinkFailure(TemporaryFailure):
    """The server could not be reached, or did not answer: it may be another one by now."""


class RegionFailure(TemporaryFailure):
    """The request went to the wrong place, or came at the wrong time."""

    def __init__(self, text: str, *, stale: bool, pause: float = 0.0) -> None:
        super().__init__(text)
        self.stale = stale
        """What the cache says of this region is no longer true."""
        self.pause = pause
        """Seconds to wait at least, as the server asks."""


class Conflict(TemporaryFailure):
    """Another transaction changed a key, or rolled this one back: begin again."""


class Committed(Exception):
    """A transaction to be rolled back was committed before."""


STALE: Final = frozenset(
    {
        "not_leader",
        "region_not_found",
        "key_not_in_region",
        "epoch_not_match",
        "stale_command",
        "store_not_match",
        "region_not_initialized",
        "is_witness",
        "mismatch_peer_id",
        "bucket_version_not_match",
    }
)
"""The region moved, was split or merged: ask PD where it is."""

LATER: Final = frozenset(
    {
        "server_is_busy",
        "max_timestamp_not_synced",
        "read_index_not_ready",
        "proposal_in_merging_mode",
        "data_is_not_ready",
        "recovery_in_progress",
        "undetermined_result",
    }
)
"""The same request may succeed a little later. All of ours may be repeated."""

CONFLICTS: Final = frozenset(
    {
        "retryable",
        "abort",
        "conflict",
        "deadlock",
        "commit_ts_expired",
        "commit_ts_too_large",
        "txn_not_found",
        "primary_mismatch",
        "txn_lock_not_found",
    }
)
"""The transaction failed; a new one may succeed."""

_LINK: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_SHUT: Final = ("ocket closed", "ALERT", "TSI_DATA_CORRUPTED")
"""In the text of a connection that its server ended. The last is an alert after the handshake, by
which servers in Go, such as PD, reject a client's certificate."""
_LONGEST_PAUSE: Final = 5.0
_NOT_BOOTSTRAPPED: Final = 2
"""Of PD's types of errors."""


def of_call(error: grpc.aio.AioRpcError, address: str) -> Exception:
    """The error to raise for a call that failed."""
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in text:
        return _of_connection(text, address)
    if code in _LINK:
        return LinkFailure(f"{address} failed a call ({code.name}: {text})")
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Refused(
            f"{address} rejects this client's certificate ({text}): name one that it accepts with "
            "cert= and key= in the URL"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return _stranger(address)
    return Refused(f"{address} refused a call ({code.name}: {text})")


def _of_connection(text: str, address: str) -> Exception:
    """The error to raise if no connection was made. The library tells causes by their text only."""
    if "CERTIFICATE_VERIFY_FAILED" in text or "Hostname Verification" in text:
        return Refused(
            f"the certificate of {address} is not trusted, or is for another host: name the "
            "authority that issued it with ca= in the URL, and the server as its certificate does"
        )
    if "WRONG_VERSION_NUMBER" in text:
        return Refused(f"{address} does not use TLS: remove ca=, cert=, key= and tls= from the URL")
    if "Failed parsing HTTP/2" in text:
        return _stranger(address)
    if any(each in text for each in _SHUT):
        # It may be starting or ending; otherwise it ends the handshake, and need not say why.
        return LinkFailure(
            f"{address} closed the connection while it was made: if the cluster requires TLS, name "
            "its authority with ca= in the URL, and if it checks clients, a certificate that it "
            "accepts with cert= and key="
        )
    return LinkFailure(f"{address} cannot be reached ({text})")


def _stranger(address: str) -> Refused:
    return Refused(f"{address} is not a server of TiKV or PD: correct the addresses in the URL")


def of_region(error: pb.RegionError) -> Exception:
    """The error to raise for an error of a region."""
    names = [field.name for field, _ in error.ListFields() if field.name != "message"]
    name = names[0] if names else "unknown"
    text = f"TiKV answered {name} ({error.message})"
    if name in STALE:
        return RegionFailure(text, stale=True)
    if name in LATER or not names:
        pause = min(error.server_is_busy.backoff_ms / 1000, _LONGEST_PAUSE)
        return RegionFailure(text, stale=False, pause=pause)
    if name == "disk_full":
        return StorageFull(f"TiKV has no disk space left ({error.message}): add stores")
    if name == "raft_entry_too_large":
        return TooLarge(
            f"TiKV's entries are limited to less than a chunk ({error.message}): raise "
            "raftstore.raft-entry-max-size"
        )
    return Refused(f"{text}: wait until the administrator's operation has ended")


def of_key(error: pb.KeyError) -> Exception:
    """The error to raise for an error of a key other than a lock."""
    names = [field.name for field, _ in error.ListFields()]
    name = names[0] if names else "unknown"
    text = f"TiKV answered {name} ({error.retryable or error.abort})"
    return Conflict(text) if name in CONFLICTS else Refused(text)


def of_placement(error: pb.PdError) -> Exception:
    """The error to raise for an error of PD: a cluster without stores yet, a region not reported
    yet. All of them may pass."""
    if error.type == _NOT_BOOTSTRAPPED:
        return LinkFailure("no store of TiKV has joined the cluster of this PD yet: start one")
    return LinkFailure(f"PD answered {error.message or error.type}")
