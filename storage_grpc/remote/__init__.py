"""Storage nodes on other machines, over gRPC.

``nodes`` knows which there are and how they are, ``node`` is one of them, ``appends`` its pipelined
stream of entries, ``link`` the connection under both, and ``wire`` what both ends agree on.
"""

from __future__ import annotations

from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.nodes import RemoteNodes
from storage_grpc.remote.settings import RemoteSettings

__all__ = ["RemoteNode", "RemoteNodes", "RemoteSettings"]
