"""The function ``scaler``: tells CloudWatch how full the brokers are; autoscaling goes by it.

A broker is as full as the fullest of what its topics use: CPU, network in, network out. The load
manager's own figure is a weighted mean, which compares brokers well, and would call one that has
used up its CPU half empty. Memory is left out: another broker would not make it less.

The figure of the cluster is the mean of its active brokers. While they can't be asked there is no
figure, and nothing is scaled: that is the caller's alarm, and the function fails.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from functions.parts.aws import client
from functions.parts.cluster import Cluster, cluster
from functions.parts.environment import given, needed, number
from sulina.errors import NotFound, Unavailable

LOAD: Final = "BrokerLoad"
DIMENSION: Final = "Cluster"
_NETWORK: Final = 125_000_000
"""Bytes a second each way that count as full where the machine tells no limit, as for balance."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Figures:
    """The cluster as autoscaling and alarms see it."""

    load: float
    brokers: int
    unassigned: int
    """Topics that wait for an owner."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Ask the brokers, tell CloudWatch. Raises ``Unavailable`` if there is nothing to tell."""
    found = figures(cluster(), number("SULINA_NETWORK_FULL", _NETWORK))
    told = {LOAD: found.load, "Brokers": found.brokers, "TopicsUnassigned": found.unassigned}
    dimensions = [{"Name": DIMENSION, "Value": needed("SULINA_CLUSTER")}]
    client("cloudwatch").put_metric_data(
        Namespace=given("SULINA_METRICS", "Sulina"),
        MetricData=[
            {"MetricName": name, "Value": value, "Unit": "None", "Dimensions": dimensions}
            for name, value in told.items()
        ],
    )
    _log.info("told %s", told)
    return told


def figures(asked: Cluster, network_full: int) -> Figures:
    """What the brokers report. Raises ``Unavailable`` if no active broker has reported yet."""
    described = asked.get("/api/v1/cluster")
    shares = []
    for broker in described["brokers"]:
        if broker["mode"] != "active":
            continue
        try:
            load = asked.get(f"/api/v1/brokers/{quote(broker['broker'], safe='')}")["load"]
        except NotFound:
            continue  # it went just now
        if load is not None:
            shares.append(fullest(load["resources"], network_full))
    if not shares:
        raise Unavailable("no active broker has told its load yet: try again in a minute")
    load = sum(shares) / len(shares)
    return Figures(round(load, 4), len(described["brokers"]), int(described["unassigned"]))


def fullest(resources: Mapping[str, Any], network_full: int) -> float:
    """The share, 1 is full, of what is used most by its own measure."""
    cpu, received, sent = (resources[each] for each in ("cpu", "network_in", "network_out"))
    return max(
        _share(cpu, 0),
        _share(received, network_full),
        _share(sent, network_full),
    )


def _share(usage: Mapping[str, Any], full: int) -> float:
    limit = usage.get("limit") or full
    return float(usage["used"]) / float(limit) if limit else 0.0
