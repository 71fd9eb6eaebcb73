"""What Danube serves on this port and Sulina does not: told with a sentence, not just refused."""

from __future__ import annotations

from typing import Any, Final

import grpc

from broker_containers.doors.grpc_shared.callers import Context

_JOIN: Final = (
    "brokers of Sulina join a cluster when they start and leave it when they stop, there is no "
    "Raft group to change: start one with `sulina broker run`, or drain one with UnloadBroker"
)
_REASONS: Final = {
    "/danube_admin.ClusterAdmin/AddNode": _JOIN,
    "/danube_admin.ClusterAdmin/PromoteNode": _JOIN,
    "/danube_admin.ClusterAdmin/RemoveNode": _JOIN,
}


class Absent(grpc.GenericRpcHandler):
    """Add it after everything that is served."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Says why not; None for what Danube does not have either."""
        reason = _REASONS.get(handler_call_details.method)
        if reason is None:
            return None

        async def tell(_: bytes, context: Context) -> bytes:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, reason)

        return grpc.unary_unary_rpc_method_handler(tell)
