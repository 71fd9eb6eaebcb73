"""The newest revision that this process has seen, so that it never acts on an older one.

A linearizable answer cannot be older than one received before its request was sent. If it is, the
store lost changes: it was restored from a backup, or replaced by another. Its revisions then mean
something else, and compare-and-swap no longer protects anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulina.errors import Unavailable
from sulina.metadata.etcd.failures import MemberFailure
from sulina.metadata.etcd.settings import EtcdEndpoint


class SeenRevision:
    """The highest revision seen, and the id of the cluster that it belongs to."""

    __slots__ = ("_cluster", "revision")

    def __init__(self) -> None:
        self.revision = 0
        self._cluster = ""

    def saw(self, revision: int) -> None:
        """Record a revision that is about to be acted on."""
        self.revision = max(self.revision, revision)

    def admit(self, header: Mapping[str, Any], floor: int, endpoint: EtcdEndpoint) -> None:
        """Check an answer's header. Raises ``MemberFailure`` if the store went back.

        ``floor`` is the ``revision`` from before the request for a linearizable answer, else 0.
        """
        cluster = str(header.get("cluster_id", ""))
        if self._cluster and cluster and cluster != self._cluster:
            raise _went_back(f"etcd at {endpoint} belongs to another cluster than before")
        self._cluster = self._cluster or cluster
        if not floor:
            return
        revision = int(header.get("revision", 0))
        if revision < floor:
            raise _went_back(f"etcd at {endpoint} went back from revision {floor} to {revision}")

    def admit_linear(self, header: Mapping[str, Any], floor: int, endpoint: EtcdEndpoint) -> None:
        """``admit``, and record the revision."""
        self.admit(header, floor, endpoint)
        self.saw(int(header.get("revision", 0)))


def _went_back(reason: str) -> MemberFailure:
    # The change was made, but in a store that is not ours: the caller cannot know its outcome.
    verdict = Unavailable(
        f"{reason}: it was restored or replaced. Bring the newer one back, or restart this process "
        "to accept the older"
    )
    return MemberFailure(reason, may_have_happened=True, verdict=verdict)
