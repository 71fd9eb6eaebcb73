"""Erasure by a condition: found by DuckDB here, erased by offset, what can't be judged counted."""

from __future__ import annotations

import json

import pytest

from sulina.cli.admin.erasure_search import Found, search
from sulina.copies.erasing import wait_erased
from sulina.errors import Refused
from sulina.metadata.keys.erasures import MOST_RANGES
from sulina.names import TopicName
from sulina.operations.ledgers import OffsetRange
from sulina.runtime.real_clock import RealClock
from tests.sql.conftest import Place

FIELDS = {"customer": {"type": "string"}, "key": {"type": "integer"}}
SCHEMA = json.dumps({"type": "object", "properties": FIELDS})


async def test_what_a_condition_finds_is_erased_and_what_it_cannot_judge_is_counted(
    place: Place, name: str
) -> None:
    topic, ledgers = f"/default/{name}", place.client.admin.ledgers
    orders = [json.dumps({"customer": "ab"[n % 2], "key": n}).encode() for n in range(20)]
    await place.publish(topic, *orders, b"no JSON", b"")
    await place.client.admin.schemas.register(name, type="json_schema", definition=SCHEMA)
    await place.client.admin.schemas.bind(topic, subject=name)
    await place.offload(topic)
    await place.publish(topic, *orders[:2])

    async def find(where: str, unjudged_too: bool = False) -> Found:
        return await place.session(
            lambda session: search(
                session, TopicName.parse(topic), where, unjudged_too=unjudged_too
            )
        )

    where = "customer = 'b' AND value.key < 5  -- and no more"
    found = await find(where)
    assert (found.messages, found.unjudged) == (3, 1)
    assert (await find(where, unjudged_too=True)).messages == 4
    [(partition, offsets)] = found.requests()
    assert (partition, offsets) == (0, tuple(OffsetRange(n, n) for n in (1, 3, 23)))
    asked = await ledgers.erase(topic, offsets=offsets)
    done = await wait_erased(place.client.admin, asked, RealClock())
    assert done.erased == 3
    assert (await find(where)).messages == 0
    assert (await find("value.key >= 0")).messages == 19
    for no_condition, reason in (
        ("no_such_column = 1", r'"no_such_column" not found.*; it can use .*offset.*customer'),
        ("customer = ", "syntax error"),
        ("value.key", "of type int64, not true or false"),
        ("true), (false", "several"),
    ):
        with pytest.raises(Refused, match=f"^--where is no condition: .*{reason}") as refused:
            await find(no_condition)
        assert "\n" not in str(refused.value)


def test_requests_have_as_many_ranges_as_they_may() -> None:
    found = Found()
    for number in range(MOST_RANGES + 1):
        found.add(1, 2 * number)
    found.add(1, 2 * MOST_RANGES + 1)
    first, second = found.requests()
    assert len(first[1]) == MOST_RANGES
    assert second == (1, (OffsetRange(2 * MOST_RANGES, 2 * MOST_RANGES + 1),))
