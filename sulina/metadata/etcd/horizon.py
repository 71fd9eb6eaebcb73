"""How far this process has seen the store get. Nothing older is ever acted on.

A linearizable answer can't be older than one that was there before its request was sent. One that
is comes from a store which lost changes: restored from a backup, or another one altogether. Its
revisions mean something else, so compare-and-swap would no longer protect anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulina.errors import Unavailable
from sulina.metadata.etcd.failures import Failure
from sulina.metadata.etcd.settings import Endpoint


class Horizon:
    """The highest revision seen, and of which cluster."""

    __slots__ = ("_cluster", "revision")

    def __init__(self) -> None:
        self.revision = 0
        self._cluster = ""

    def saw(self, revision: int) -> None:
        """Something of this revision is about to be acted on."""
        self.revision = max(self.revision, revision)

    def admit(self, header: Mapping[str, Any], floor: int, endpoint: Endpoint) -> None:
        """Take an answer's header; ``floor`` is 0, or for a linearizable answer the ``revision``
        from before its request. Raises ``Failure`` if the store went back."""
        cluster = str(header.get("cluster_id", ""))
        if self._cluster and cluster and cluster != self._cluster:
            raise _went_back(f"etcd at {endpoint} belongs to another cluster than before")
        self._cluster = self._cluster or cluster
        if not floor:
            return
        revision = int(header.get("revision", 0))
        if revision < floor:
            raise _went_back(f"etcd at {endpoint} went back from revision {floor} to {revision}")

    def admit_linear(self, header: Mapping[str, Any], floor: int, endpoint: Endpoint) -> None:
        """``admit``, and remember the revision."""
        self.admit(header, floor, endpoint)
        self.saw(int(header.get("revision", 0)))


def _went_back(reason: str) -> Failure:
    # It did happen, but in a store that is not ours: to the caller that is unknown.
    verdict = Unavailable(
        f"{reason}: it was restored or replaced. Bring the newer one back, or restart this process "
        "to accept the older"
    )
    return Failure(reason, may_have_happened=True, verdict=verdict)
