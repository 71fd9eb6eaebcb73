"""Application Auto Scaling: sets the number of brokers by target tracking.

Reads the scalable targets and policies of the deployment, and the metric in CloudWatch. Like AWS,
it adds when three minutes in a row were above the target, and removes when fifteen were below nine
tenths of it, with the policy's cooldowns. A minute lasts as long as the cloud's setting says.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sulina.runtime.seam import Clock

_HIGH_MINUTES: Final = 3
LOW_MINUTES: Final = 15
_LOW: Final = 0.9
_ECS: Final = "ecs"


@dataclass(slots=True)
class TargetTracking:
    """One policy, and the last minutes of its metric. Pure: the caller reads and acts."""

    target: float
    minimum: int
    maximum: int
    out_minutes: float
    in_minutes: float
    history: deque[float] = field(default_factory=lambda: deque(maxlen=LOW_MINUTES))
    changed: float = -math.inf
    """The minute of the last change."""

    def decide(self, minute: float, value: float | None, current: int) -> int:
        """The wanted number after a minute whose mean was ``value``; None, no data, is ignored."""
        if value is None:
            return current
        self.history.append(value)
        recent, since = list(self.history)[-_HIGH_MINUTES:], minute - self.changed
        high = len(recent) == _HIGH_MINUTES and min(recent) > self.target
        low = len(self.history) == LOW_MINUTES and max(self.history) < _LOW * self.target
        wanted = current
        if high and since >= self.out_minutes:
            wanted = math.ceil(current * value / self.target)
        elif low and since >= self.in_minutes:
            wanted = max(math.ceil(current * value / self.target), current - 1)
        wanted = min(max(wanted, self.minimum), self.maximum)
        if wanted != current:
            self.changed = minute
            self.history.clear()  # the load of another number of brokers says nothing
        return wanted


class AutoScaling:
    """Runs all policies. ``tell`` is called with a sentence for each change."""

    def __init__(
        self, account: Any, minute_seconds: float, clock: Clock, tell: Callable[[str], None]
    ) -> None:
        self._account = account
        self._minute = minute_seconds
        self._clock = clock
        self._tell = tell

    async def run(self) -> None:
        """Evaluate every policy once per minute, until cancelled."""
        policies = await asyncio.to_thread(self._policies)
        began = self._clock.now()
        while True:
            await self._clock.sleep(self._minute)
            minute = (self._clock.now() - began) / self._minute
            for policy, tracking in policies:
                said = await asyncio.to_thread(self._evaluate, policy, tracking, minute)
                if said:
                    self._tell(said)

    def _policies(self) -> list[tuple[dict[str, Any], TargetTracking]]:
        scaling = self._account.client("application-autoscaling")
        targets = {
            each["ResourceId"]: each
            for each in scaling.describe_scalable_targets(ServiceNamespace=_ECS)["ScalableTargets"]
        }
        found = []
        for policy in scaling.describe_scaling_policies(ServiceNamespace=_ECS)["ScalingPolicies"]:
            target = targets[policy["ResourceId"]]
            config = policy["TargetTrackingScalingPolicyConfiguration"]
            tracking = TargetTracking(
                target=float(config["TargetValue"]),
                minimum=int(target["MinCapacity"]),
                maximum=int(target["MaxCapacity"]),
                out_minutes=int(config["ScaleOutCooldown"]) / 60,
                in_minutes=int(config["ScaleInCooldown"]) / 60,
            )
            found.append((policy, tracking))
        return found

    def _evaluate(self, policy: dict[str, Any], tracking: TargetTracking, minute: float) -> str:
        ecs = self._account.client("ecs")
        _, cluster, service = policy["ResourceId"].split("/")
        described = ecs.describe_services(cluster=cluster, services=[service])["services"][0]
        current = int(described["desiredCount"])
        value = self._metric(policy["TargetTrackingScalingPolicyConfiguration"])
        wanted = tracking.decide(minute, value, current)
        if wanted == current:
            return ""
        ecs.update_service(cluster=cluster, service=service, desiredCount=wanted)
        return (
            f"autoscaling: a load of {value:.2f} with a target of {tracking.target:g}, "
            f"{current} -> {wanted} brokers"
        )

    def _metric(self, config: dict[str, Any]) -> float | None:
        """The mean over the last minute; two minutes if the last call of the scaler was late."""
        spec = config["CustomizedMetricSpecification"]
        now = datetime.fromtimestamp(self._clock.wall_us() / 1e6, UTC)
        points = self._account.client("cloudwatch").get_metric_statistics(
            Namespace=spec["Namespace"],
            MetricName=spec["MetricName"],
            Dimensions=spec["Dimensions"],
            StartTime=now - timedelta(seconds=2 * self._minute),
            EndTime=now + timedelta(seconds=1),
            Period=60 * max(1, math.ceil(2 * self._minute / 60)),
            Statistics=[spec["Statistic"]],
        )["Datapoints"]
        values = [float(each[spec["Statistic"]]) for each in points]
        return sum(values) / len(values) if values else None
