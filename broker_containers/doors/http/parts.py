"""The parts that a broker can't serve without, as the readiness check asks them."""

from __future__ import annotations

from broker_containers.doors.http.health import Check
from storage_grpc.journal import JournalStore
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import Overloaded, Unavailable
from sulina.metadata.store import MetadataStore

_ANY_KEY = "/cluster/leader"


def metadata(store: MetadataStore) -> Check:
    """The metadata store answers a read."""

    async def check() -> str:
        await store.get(_ANY_KEY)
        return "it answers"

    return check


def journal(entries: JournalStore) -> Check:
    """The journal of this process takes appends."""

    async def check() -> str:
        try:
            entries.check_room()
        except Overloaded:
            return "it is busy: publishers wait"
        return "it takes appends"

    return check


def storage_nodes(nodes: Nodes, settings: QuorumSettings) -> Check:
    """So many storage nodes are healthy that a ledger can be made."""

    async def check() -> str:
        healthy = len(nodes.choose(settings.write_quorum))
        if healthy < settings.ack_quorum:
            raise Unavailable(
                f"{healthy} storage nodes are healthy and {settings.ack_quorum} are needed: "
                "start more, or wait for them"
            )
        return f"{healthy} storage nodes are healthy, {settings.ack_quorum} are needed"

    return check
