"""NamespaceAdmin and ClusterAdmin."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.cluster_map import ClusterMap, number_of
from broker_containers.doors.grpc_shared.calls import AdminService
from broker_containers.doors.grpc_shared.names import namespace_name
from sulina.operations.client import AdminClient

_NO_LIMITS: Final = {"max_publish_rate": 0, "max_subscription_dispatch_rate": 0}
"""Limits that Danube's tools read and Sulina does not have."""


class NamespaceAdmin(AdminService):
    """The service."""

    def __init__(self, admin: AdminClient, places: ClusterMap) -> None:
        self._admin = admin
        self._places = places

    async def create_namespace(self, request: pb.NamespaceRequest) -> Message:
        await self._admin.namespaces.create(namespace_name(request.name))
        return pb.NamespaceResponse(success=True)

    async def delete_namespace(self, request: pb.NamespaceRequest) -> Message:
        await self._admin.namespaces.delete(namespace_name(request.name))
        return pb.NamespaceResponse(success=True)

    async def get_namespace_topics(self, request: pb.NamespaceRequest) -> Message:
        name = namespace_name(request.name)
        await self._admin.namespaces.policy(name)  # raises if it does not exist
        return pb.TopicListResponse(topics=[one.topic for one in await self._places.topics([name])])

    async def get_namespace_policies(self, request: pb.NamespaceRequest) -> Message:
        name = namespace_name(request.name)
        limits = asdict(await self._admin.namespaces.policy(name))
        return pb.PolicyResponse(policies=json.dumps({**_NO_LIMITS, **limits}))


class ClusterAdmin(AdminService):
    """What Danube reports of its Raft group, reported of the brokers.

    Sulina's brokers form no Raft group; metadata is in etcd. Each running broker is reported as a
    voter, the term is that of the leader's election, and what was applied last is the revision of
    the metadata that the answering broker has seen.
    """

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
