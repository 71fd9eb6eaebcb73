"""Small parts of the client: retries, credit, routing, and what ``import sulina`` exports."""

from __future__ import annotations

import inspect
import random
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sulina
from sulina.client.queue import Credit
from sulina.client.retry import may_retry, retry
from sulina.client.routing import fnv1a, group_by_partition, partition_of
from sulina.errors import Fenced, NotFound, Overloaded, Refused, Unavailable, UnknownOutcome
from sulina.runtime.retry_delay import FIRST_DELAY, LONGEST_DELAY, RetryDelay
from tests.client.bench import Bench


def test_pauses_grow_and_stay_within_bounds() -> None:
    backoff = RetryDelay(random.Random(1))
    delays = [backoff.next() for _ in range(20)]
    assert FIRST_DELAY / 2 <= delays[0] <= FIRST_DELAY
    assert all(delay <= LONGEST_DELAY for delay in delays)
    assert all(delay >= LONGEST_DELAY / 2 for delay in delays[10:])
    backoff.reset()
    assert backoff.next() <= FIRST_DELAY


def test_what_is_refused_is_not_tried_again() -> None:
    assert may_retry(Unavailable("x"))
    assert may_retry(Overloaded("x"))
    assert may_retry(Fenced("x"))
    assert may_retry(UnknownOutcome("x"))
    assert not may_retry(Refused("x"))
    assert not may_retry(NotFound("x"))


async def test_the_first_success_counts(bench: Bench) -> None:
    calls = 0

    async def attempt() -> str:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise Overloaded("busy")
        return "done"

    assert await bench.eventually(retry(bench.runtime, 30, attempt)) == "done"
    assert calls == 4


async def test_a_refusal_is_raised_at_once(bench: Bench) -> None:
    async def attempt() -> None:
        raise NotFound("no such topic")

    with pytest.raises(NotFound):
        await retry(bench.runtime, 30, attempt)


async def test_when_time_is_up_the_last_error_is_raised(bench: Bench) -> None:
    async def attempt() -> None:
        raise Overloaded("still busy")

    began = bench.clock.now()
    with pytest.raises(Overloaded, match="still busy"):
        await bench.eventually(retry(bench.runtime, 30, attempt))
    assert bench.clock.now() - began == pytest.approx(30, abs=1)


async def test_an_attempt_that_hangs_is_cancelled(bench: Bench) -> None:
    async def attempt() -> None:
        await bench.clock.sleep(1e6)

    with pytest.raises(Unavailable):
        await bench.eventually(retry(bench.runtime, 5, attempt))


@given(
    st.integers(1, 100),
    st.integers(1, 1000),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 600)), max_size=60),
)
def test_a_broker_is_never_dry_when_everything_was_taken(
    records: int, bytes_: int, frames: list[tuple[int, int]]
) -> None:
    credit = Credit(records, bytes_)
    has_records, has_bytes = credit.begin()
    for size, weight in frames:
        assert has_records > 0
        assert has_bytes > 0
        has_records, has_bytes = has_records - size, has_bytes - weight
        granted = credit.use(size, weight)
        if granted is not None:
            has_records, has_bytes = has_records + granted[0], has_bytes + granted[1]
        assert has_records <= records
        assert has_bytes <= bytes_


def test_credit_is_given_back_in_lumps() -> None:
    credit = Credit(1000, 1 << 20)
    credit.begin()
    grants = [credit.use(1, 10) for _ in range(1000)]
    assert [grant for grant in grants if grant] == [(500, 5000), (500, 5000)]


def test_the_hash_is_fnv_1a_of_64_bits() -> None:
    # From the published test vectors of the function.
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a(b"foobar") == 0x85944171F73967E8


@given(st.binary(), st.integers(1, 4096))
def test_a_key_always_goes_to_the_same_existing_partition(key: bytes, partitions: int) -> None:
    number = partition_of(key, partitions)
    assert 0 <= number < partitions
    assert number == partition_of(key, partitions)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1), st.integers(1, 8))
def test_grouping_keeps_every_record_once_and_in_order(
    keys: list[bytes | None], partitions: int
) -> None:
    groups = group_by_partition(keys, partitions)
    assert sorted(index for members in groups.values() for index in members) == [*range(len(keys))]
    for number, members in groups.items():
        assert members == sorted(members)
        for index in members:
            key = keys[index]
            assert number == (None if key is None else partition_of(key, partitions))


ROOT = Path(sulina.__file__).parent


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(sulina.__all__) == {
        *(
            "AlreadyExists",
            "Backoff",
            "Batch",
            "Change",
            "Client",
            "Closed",
            "Consumer",
            "CorruptFrame",
        ),
        *("Delivery", "FailurePolicy", "Fenced", "Message", "MessageId", "NotFound"),
        *("Overloaded", "Poison", "Producer", "ProtocolError", "ReadResult", "Refused"),
        *("Retriable", "Start", "StorageFull", "SubscriptionType", "SulinaError", "Table"),
        *("Ticket", "TooLarge", "TopicInfo", "TypedConsumer", "TypedMessage", "TypedProducer"),
        *("Unavailable", "UnknownOutcome", "__version__", "connect"),
        *("SignInNeeded", "stored_login"),
    }
    assert all(hasattr(sulina, name) for name in sulina.__all__)


def test_everything_public_says_what_it_is_for() -> None:
    for name in sulina.__all__:
        thing = getattr(sulina, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name} has no docstring"


def test_every_public_method_is_documented_and_typed() -> None:
    for kind in (sulina.Client, sulina.Producer, sulina.Consumer, sulina.Ticket, sulina.Message):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"
                assert "return" in member.__annotations__, f"{kind.__name__}.{name} is not typed"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "py.typed").exists()


def test_the_package_takes_its_version_from_the_code() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "sulina.version.__version__"
    }


def test_every_error_is_of_the_family() -> None:
    for name in sulina.__all__:
        thing = getattr(sulina, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert issubclass(thing, sulina.SulinaError)
