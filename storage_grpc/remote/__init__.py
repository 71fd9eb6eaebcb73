"""Storage nodes on other machines, over gRPC.

``nodes`` lists the nodes and their health, ``node_monitor`` checks one address, ``node`` is a node
with its calls, ``appends`` its pipelined stream of entries, ``link`` the connection, and ``wire``
the encoding that both ends share.
"""

from __future__ import annotations

from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.nodes import RemoteNodes
from storage_grpc.remote.settings import RemoteSettings

__all__ = ["RemoteNode", "RemoteNodes", "RemoteSettings"]
