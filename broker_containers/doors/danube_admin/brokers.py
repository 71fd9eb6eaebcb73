"""BrokerAdmin: brokers, leader and balance; ``unload`` has UnloadBroker."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.cluster_map import ClusterMap, number_of, status_of_broker
from broker_containers.doors.danube_admin.settings import AdminSettings
from broker_containers.doors.danube_admin.unload import Unloading
from broker_containers.doors.grpc_shared.calls import AdminService
from sulina.errors import SulinaError
from sulina.operations.client import AdminClient
from sulina.operations.cluster import BalancePlan, BrokerRow, PlannedMove
from sulina.runtime.seam import Clock

_NOBODY: Final = "not_found"
"""Danube's word for a cluster without a leader."""
STRATEGIES: Final = {"simple": "Fair", "composite": "Balanced", "weighted": "WeightedLoad"}
"""Danube's names of the equivalent rankings."""


class BrokerAdmin(AdminService):
    """The service."""

    def __init__(
        self, admin: AdminClient, places: ClusterMap, clock: Clock, settings: AdminSettings
    ) -> None:
        self._admin = admin
        self._places = places
        self._unloading = Unloading(admin, places, clock, settings)
        self.unload_broker = self._unloading.run

    def seconds(self, request: Message) -> float | None:
        """An UnloadBroker request says how long to wait."""
        if isinstance(request, pb.UnloadBrokerRequest):
            return self._unloading.longest(request)
        return None

    async def list_brokers(self, _: pb.Empty) -> Message:
        found = await self._places.brokers()
        led = any(one.leader for one in found)
        return pb.BrokerListResponse(brokers=[_info(one, led=led) for one in found])

    async def get_leader_broker(self, _: pb.Empty) -> Message:
        found = await self._places.brokers()
        return pb.BrokerResponse(leader=next((one.broker for one in found if one.leader), _NOBODY))

    async def list_namespaces(self, _: pb.Empty) -> Message:
        return pb.NamespaceListResponse(namespaces=await self._admin.namespaces.list())

    async def activate_broker(self, request: pb.ActivateBrokerRequest) -> Message:
        place = await self._places.broker(request.broker_id)
        if self._places.clustered:  # a single broker is always active
            await self._admin.brokers.activate(place.broker, reason=request.reason)
        return pb.ActivateBrokerResponse(success=True)

    # ---- balance ----

    async def get_cluster_balance(self, _: pb.ClusterBalanceRequest) -> Message:
        if not self._places.clustered:
            return await self._balance_alone()
        found = await self._admin.balance.show()
        balance, rows = found.balance, found.brokers
        high, low = found.high * balance.mean, found.low * balance.mean
        return pb.ClusterBalanceResponse(
            coefficient_of_variation=balance.cv,
            mean_load=balance.mean,
            max_load=balance.highest,
            min_load=balance.lowest,
            std_deviation=balance.cv * fmean([row.load for row in rows] or [0.0]),
            broker_count=len(rows),
            brokers=[
                pb.BrokerLoadInfo(
                    broker_id=number_of(row.broker),
                    load=row.load,
                    topic_count=row.topics,
                    is_overloaded=row.load > high,
                    is_underloaded=row.load < low,
                )
                for row in rows
            ],
            assignment_strategy=STRATEGIES[found.ranking],
        )

    async def _balance_alone(self) -> Message:
        """The load of a single broker is its number of topics: there is nothing to compare with."""
        [me] = await self._places.brokers()
        count = len(await self._places.owners())
        return pb.ClusterBalanceResponse(
            mean_load=count,
            max_load=count,
            min_load=count,
            broker_count=1,
            brokers=[
                pb.BrokerLoadInfo(broker_id=number_of(me.broker), load=count, topic_count=count)
            ],
            assignment_strategy=STRATEGIES["simple"],
        )

    async def trigger_rebalance(self, request: pb.RebalanceRequest) -> Message:
        if not self._places.clustered:
            return pb.RebalanceResponse(
                success=True,
                error_message="this is a single broker: no other could take its topics",
            )
        chosen = request.HasField("max_moves")
        plan = await self._admin.balance.rebalance(dry_run=request.dry_run or chosen)
        moves = plan.moves[: request.max_moves] if chosen else plan.moves
        answer = pb.RebalanceResponse(
            success=True,
            proposed_moves=[_proposed(move) for move in moves],
            error_message="" if moves else _why_not(plan),
        )
        if request.dry_run or plan.dry_run:
            return answer
        if chosen:
            await self._make(moves, answer)
        else:
            answer.moves_executed = len(moves)
        return answer

    async def _make(self, moves: Sequence[PlannedMove], answer: pb.RebalanceResponse) -> None:
        """Start some moves of a plan, until one fails."""
        for move in moves:
            try:
                await self._admin.topics.move(move.topic, broker=move.target)
            except SulinaError as error:
                answer.success = False
                answer.error_message = f"{move.topic} could not be moved: {error}"
                return
            answer.moves_executed += 1


def _info(row: BrokerRow, *, led: bool) -> pb.BrokerInfo:
    follower = "Cluster_Follower" if led else "None"
    return pb.BrokerInfo(
        broker_id=row.broker,
        broker_addr=row.grpc or row.url,
        broker_role="Cluster_Leader" if row.leader else follower,
        admin_addr=row.admin,
        metrics_addr=row.http,
        broker_status=status_of_broker(row),
    )


def _proposed(move: PlannedMove) -> pb.ProposedMove:
    return pb.ProposedMove(
        topic_name=move.topic,
        from_broker=number_of(move.source),
        to_broker=number_of(move.target),
        estimated_load=move.cost,
        reason=move.why,
    )


def _why_not(plan: BalancePlan) -> str:
    counted = ", ".join(f"{reason} {count}" for reason, count in plan.reasons.items() if count)
    return f"nothing is moved: {counted}"
