"""Tables over HTTP and as metrics, from a broker that knows their catalog."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings, TablesSettings
from broker_containers.doors.listen import Listen
from tests.http.client import http_client

TOPIC = "/default/items"
TABLE = f"/api/v1/topics{TOPIC}/table"


@dataclass
class Item:
    name: str
    price: float


async def test_tables_are_shown_over_http_and_as_metrics(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    places = TablesSettings(f"sqlite:///{tmp_path}/catalog.db", str(lake))
    async with (
        run_embedded(
            tmp_path / "data",
            DoorSettings(Listen(port=0), Listen(port=0)),
            BrokerSettings(tables=places),
            tier=f"file://{lake}",
        ) as server,
        sulina.connect(server.addresses.url) as client,
        http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
    ):
        async with client.producer(TOPIC, schema=Item) as producer:
            for number in range(3):
                await (await producer.send(Item("bolt", number), key=b"k"))
        async with client.producer(TOPIC) as plain:
            await (await plain.send(b"not an item"))
        assert (await http("GET", TABLE)).problem(404, "not-found").startswith(TOPIC)
        await client.admin.ledgers.offload(TOPIC)
        async with asyncio.timeout(60):
            while not server.broker.tiering.counters.objects:
                await asyncio.sleep(0.01)

        done = await http.ok("POST", f"{TABLE}/backfill")
        assert (done["commits"], done["records"], done["complete"]) == (1, 4, True)
        [row] = await http.ok("GET", "/api/v1/tables")
        assert (row["topic"], row["records"], row["rejected"]) == (TOPIC, 4, 1)
        assert row["newest_us"] > 0 and row["behind_seconds"] == row["lacking_columns"] == 0
        shown = await http.ok("GET", f"{TABLE}?snapshots=5")
        assert {**row, **shown} == shown
        assert shown["partitions"] == [{"partition": 0, "first_offset": 0, "next_offset": 4}]
        assert {"name": "value.price", "type": "double"}.items() <= {
            **next(each for each in shown["columns"] if each["name"] == "value.price")
        }.items()
        [snapshot] = shown["history"]
        assert (snapshot["added_records"], snapshot["operation"]) == (4, "append")
        sample = await http.ok("GET", f"{TABLE}/sample?limit=2")
        assert [each["offset"] for each in sample] == [2, 3]
        assert json.loads(sample[0]["value"]) == {"name": "bolt", "price": 2.0}
        rejected = await http.ok("GET", f"{TABLE}/rejected")
        assert (rejected["count"], rejected["records"][0]["payload"]) == (1, "not an item")

        async with client.producer(TOPIC) as plain:
            await (await plain.send(b"not in the table"))
        await client.admin.ledgers.offload(TOPIC)
        await server.services.tables.round()
        text = (await http("GET", "/metrics")).text
        label = f'{{topic="{TOPIC}"}}'
        found = dict(line.rsplit(" ", 1) for line in text.splitlines())
        assert found[f"sulina_table_records{label}"] == "4"
        assert found[f"sulina_table_rejected_records{label}"] == "1"
        assert found[f"sulina_table_lacking_records{label}"] == "0"
        assert found[f"sulina_table_commits_total{label}"] == "1"
        assert found[f"sulina_table_conflicts_total{label}"] == "0"
        assert float(found[f"sulina_table_behind_seconds{label}"]) > 0
        assert float(found[f"sulina_table_newest_age_seconds{label}"]) > 0
        assert found["sulina_table_read_failures_total"] == "0"
