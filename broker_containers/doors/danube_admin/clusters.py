"""ClusterAdmin: what Danube reports of its Raft group, reported of the brokers.

Sulina's brokers form no Raft group; metadata is in etcd. Each running broker is reported as a
voter, the term is that of the leader's election, and what was applied last is the revision of the
metadata that the answering broker has seen.
"""

from __future__ import annotations

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.numbers import number_of
from broker_containers.doors.grpc_shared.calls import AdminService
from sulina.operations.client import AdminClient


class ClusterAdmin(AdminService):
    """The service."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    async def cluster_status(self, _: pb.Empty) -> Message:
        found = await self._admin.cluster.describe()
        return pb.ClusterStatusResponse(
            leader_id=0 if found.leader is None else number_of(found.leader),
            current_term=found.term,
            last_applied=found.revision,
            voters=[number_of(row.broker) for row in found.brokers],
            self_node_id=number_of(found.answered_by),
        )
