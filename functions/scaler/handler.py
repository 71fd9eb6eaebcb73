"""The function ``scaler``: publishes the brokers' load to CloudWatch, for autoscaling.

A broker's load is the highest utilization among CPU, network in and network out. The load manager's
own value is a weighted mean: suited to comparing brokers, but low for a broker that has used up its
CPU. Memory is left out because adding a broker would not reduce it.

The cluster's load is the mean over its active brokers. If they cannot be queried, the function
fails and publishes nothing: the number of brokers then stays as it is, and an alarm goes off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from functions.shared.cluster import ClusterClient, cluster
from functions.shared.metrics import publish
from sulina.errors import NotFound, Unavailable

LOAD: Final = "BrokerLoad"
_NETWORK: Final = 125_000_000
"""The assumed bandwidth, in bytes per second each way, if a broker reports no limit.

The load manager assumes the same.
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The values that autoscaling and alarms use."""

    load: float
    brokers: int
    unassigned: int
    """Topics without an owner."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Query the brokers and publish their load; returns the values.

    Raises ``Unavailable`` if there is nothing to publish.
    """
    found = cluster_load(cluster())
    values = {LOAD: found.load, "Brokers": found.brokers, "TopicsUnassigned": found.unassigned}
    publish(values)
    _log.info("published %s", values)
    return values


def cluster_load(brokers: ClusterClient) -> ClusterLoad:
    """Query the brokers. Raises ``Unavailable`` if no active broker has reported its load yet."""
    described = brokers.get("/api/v1/cluster")
    loads = []
    for broker in described["brokers"]:
        if broker["mode"] != "active":
            continue
        try:
            report = brokers.get(f"/api/v1/brokers/{quote(broker['broker'], safe='')}")["load"]
        except NotFound:
            continue  # it has just stopped
        if report is not None:
            loads.append(highest_utilization(report["resources"]))
    if not loads:
        raise Unavailable("no active broker has reported its load yet: try again in a minute")
    load = round(sum(loads) / len(loads), 4)
    return ClusterLoad(load, len(described["brokers"]), int(described["unassigned"]))


def highest_utilization(resources: Mapping[str, Any]) -> float:
    """The highest utilization among CPU, network in and network out; 1 is the limit."""
    cpu, received, sent = (resources[each] for each in ("cpu", "network_in", "network_out"))
    return max(_utilization(cpu, 0), _utilization(received, _NETWORK), _utilization(sent, _NETWORK))


def _utilization(usage: Mapping[str, Any], default_limit: int) -> float:
    limit = usage.get("limit") or default_limit
    return float(usage["used"]) / float(limit) if limit else 0.0
