"""The brokers' load reports become a CloudWatch metric."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.discovery.handler import handler as discovery
from functions.scaler.handler import cluster_load, handler, highest_utilization
from functions.shared.cluster import ClusterClient, cluster
from functions.shared.http_event import HttpAnswer, HttpRequest
from sulina.errors import Unavailable
from tests.functions.conftest import FunctionAccount
from tests.functions.lambdas import Lambdas
from tests.http.test_cluster import two_brokers


def usage(used: float, limit: float = 0) -> dict[str, float]:
    return {"used": used, "limit": limit}


def test_a_brokers_load_is_its_highest_utilization() -> None:
    resources = {
        "cpu": usage(0.5, 2),
        "memory": usage(99, 100),
        "network_in": usage(50_000_000),
        "network_out": usage(100, 1_000),
    }
    assert highest_utilization(resources) == 0.4
    assert highest_utilization({**resources, "cpu": usage(2, 2)}) == 1.0
    assert highest_utilization({**resources, "network_out": usage(900, 1_000)}) == 0.9
    assert highest_utilization({name: usage(0) for name in resources}) == 0.0


def answers(**paths: Any) -> ClusterClient:
    """A cluster of brokers with these loads; None is a broker that has not reported yet."""

    def send(request: HttpRequest) -> HttpAnswer:
        name = request.path.rpartition("/")[2]
        if name == "cluster":
            rows = [{"broker": each, "mode": "active"} for each in paths]
            rows.append({"broker": "drained", "mode": "draining"})
            return HttpAnswer(200, {}, json.dumps({"brokers": rows, "unassigned": 3}).encode())
        if paths[name] == "gone":
            return HttpAnswer(404, {}, b'{"type": "/docs#not-found", "detail": "gone"}')
        load = None
        if paths[name] is not None:
            idle = {"network_in": usage(0), "network_out": usage(0)}
            load = {"resources": {"cpu": usage(paths[name], 1), **idle}}
        return HttpAnswer(200, {}, json.dumps({"load": load}).encode())

    return ClusterClient(send)


def test_the_clusters_load_is_the_mean_of_its_active_brokers() -> None:
    found = cluster_load(answers(a=0.2, b=0.8, c=None, d="gone"))
    assert (found.load, found.brokers, found.unassigned) == (0.5, 5, 3)


def test_nothing_is_published_before_a_broker_has_reported() -> None:
    with pytest.raises(Unavailable, match="no active broker has reported its load"):
        cluster_load(answers(a=None))


def test_the_call_fails_if_the_brokers_cannot_be_queried(
    account: FunctionAccount, lambdas: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_DISCOVERY", "discovery")
    with pytest.raises(Unavailable, match="calling the function discovery failed"):
        handler({}, None)
    lambdas.functions["discovery"] = lambda event, context: 1 / 0
    with pytest.raises(Unavailable, match="discovery failed"):
        handler({}, None)


async def test_the_load_of_real_brokers_reaches_cloudwatch_through_the_function_discovery(
    account: FunctionAccount, lambdas: Lambdas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SULINA_DISCOVERY", "discovery")
    monkeypatch.setenv("SULINA_METRICS", "Sulina")
    lambdas.functions["discovery"] = discovery
    async with two_brokers(tmp_path) as two:
        urls = ",".join(http.url for http in two.doors.values())
        monkeypatch.setenv("SULINA_BROKERS", urls)
        async with asyncio.timeout(60):
            while True:
                try:
                    told = await asyncio.to_thread(handler, {}, None)
                    break
                except Unavailable:  # the first report takes a moment
                    await asyncio.sleep(0.2)
        described = await asyncio.to_thread(cluster().get, "/api/v1/cluster")
    assert told["Brokers"] == len(described["brokers"]) == 2
    now = datetime.now(UTC)
    found = account.client("cloudwatch").get_metric_statistics(
        Namespace="Sulina",
        MetricName="BrokerLoad",
        Dimensions=[{"Name": "Cluster", "Value": account.bucket}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
        Period=60,
        Statistics=["Average"],
    )["Datapoints"]
    assert [each["Average"] for each in found] == [told["BrokerLoad"]]
