"""Dashboards and alert rules ask for what a real cluster exports."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

import sulina
from monitoring.__main__ import files
from monitoring.pages import DASHBOARDS
from sulina.errors import NotFound, Refused
from sulina.operations.storage import StorageNodeState
from tests.documents.markdown import ROOT, anchors
from tests.monitoring.cluster import ROOT_TOKEN, TRACE, Watched, watched_cluster
from tests.monitoring.scraped import reference
from tests.support.prometheus import answers, running_prometheus

FOLDER: Final = ROOT / "monitoring"
RULES: Final[list[dict[str, Any]]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][
    0
]["rules"]
ALERTS: Final = [rule["expr"] for rule in RULES]
QUERIES: Final = [query for each in DASHBOARDS for query in each.queries()]
_SERIES: Final = re.compile(r"\b((?:sulina|danube|process)_[a-z0-9_]+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_cluster(tmp_path_factory.mktemp("watched")) as found:
        yield found


def test_every_series_and_label_that_is_asked_for_exists(watched: Watched) -> None:
    for query in (*QUERIES, *ALERTS):
        for series, matchers in _SERIES.findall(query):
            found = [each for each in (watched.broker, watched.node) if each.family(series)]
            assert found, f"{query}: nothing exports {series}"
            asked = set(re.findall(r"(\w+)=~?\"", matchers)) - {"instance", "job"}
            for each in found:
                family = each.family(series)
                assert family and asked <= set(each.labels(family)), f"{query}: {series}"


def test_a_storage_node_tells_its_disk_and_changes_its_log_level(watched: Watched) -> None:
    async def look() -> tuple[StorageNodeState | None, ...]:
        found = []
        async with sulina.connect(watched.url, token=ROOT_TOKEN) as client:
            for level in ("debug", ""):
                await client.admin.storage.log_level("storage-1", level=level)
                found.append((await client.admin.storage.show()).nodes[0].state)
            with pytest.raises(Refused, match="no log level 'loud'"):
                await client.admin.storage.log_level("storage-1", level="loud")
            with pytest.raises(NotFound, match="choose from storage-1"):
                await client.admin.storage.log_level("storage-2")
        return tuple(found)

    changed, restored = asyncio.run(look())
    assert changed is not None and restored is not None
    assert changed.disk_bytes > changed.disk_free_bytes > 0 and changed.writable
    assert changed.journal_bytes > 0 and changed.ledgers > 0
    assert (changed.log_level, restored.log_level) == ("debug", "warning")


def test_the_reference_lists_every_metric(watched: Watched) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    command = f"{sys.executable} -m tests.monitoring > docs/reference/metrics.md"
    assert reference(watched.broker, watched.node) == page, f"it is outdated; run: {command}"


def test_the_files_for_grafana_are_what_their_source_makes() -> None:
    found = {path: path.read_text() for path in (FOLDER / "dashboards").iterdir()}
    assert files() == found, "they are outdated; run: python -m monitoring"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_sentence_and_a_section_that_says_what_to_do(
    rule: dict[str, Any],
) -> None:
    assert rule["alert"].startswith("Sulina") and rule["annotations"]["summary"].endswith(".")
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor in anchors(ROOT / page)


def test_promtool_accepts_rules_and_configuration() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    for what in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            [program, "check", what[0], str(FOLDER / what[1])],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


async def test_prometheus_evaluates_every_query_and_rule_and_stores_exemplars(
    watched: Watched, tmp_path: Path
) -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    brokers, nodes = config["scrape_configs"]
    brokers["static_configs"][0]["targets"] = [f"127.0.0.1:{watched.broker_port}"]
    brokers["authorization"] = {"credentials_file": str(watched.token_file)}
    nodes["static_configs"][0]["targets"] = [f"127.0.0.1:{watched.node_port}"]
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / "alerts.yml")]
    async with (
        running_prometheus(config, tmp_path) as url,
        aiohttp.ClientSession() as session,
        asyncio.timeout(90),
    ):
        while not await answers(session, url, "sum(up) == 2"):
            await asyncio.sleep(0.5)
        for query in QUERIES:
            asked = re.sub(r"\$(instance|topic)", ".*", query)
            async with session.get(f"{url}/api/v1/query", params={"query": asked}) as answer:
                assert answer.status == 200, f"{query}: {await answer.text()}"
        async with session.get(f"{url}/api/v1/rules") as answer:
            [group] = (await answer.json())["data"]["groups"]
        assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}, group
        latency = {"query": "sulina_publish_latency_ms_bucket", "start": "0", "end": f"{1 << 33}"}
        async with session.get(f"{url}/api/v1/query_exemplars", params=latency) as answer:
            found = (await answer.json())["data"]
        labels = [one["labels"] for series in found for one in series["exemplars"]]
        assert {"trace_id": TRACE} in labels, found
