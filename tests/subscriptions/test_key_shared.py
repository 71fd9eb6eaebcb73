"""KeyShared: one key, one consumer, in order, whoever joins, leaves or fails."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.key_shared import SLOTS
from broker_containers.subscriptions.selectors import share_out
from sulina.model import SubscriptionType
from sulina.wire.encode import key_slot
from tests.subscriptions.harness import Bench, Given

key_shared = SubscriptionType.KEY_SHARED
KEYS = [f"key-{number}" for number in range(64)]


def by_consumer(deliveries: list[Given]) -> dict[str, set[int]]:
    taken: dict[str, set[int]] = defaultdict(set)
    for each in deliveries:
        taken[each.to].update(each.offsets)
    return taken


def two() -> tuple[Bench, str, str]:
    """Consumers a and b, and a key of each."""
    bench = Bench(key_shared)
    bench.join("a")
    bench.join("b")
    base = bench.load_keys(*KEYS)
    taken = by_consumer(bench.all())
    bench.window.settle_range(base, base + len(KEYS) - 1)
    return bench, KEYS[min(taken["a"])], KEYS[min(taken["b"])]


def of(bench: Bench, name: str) -> int:
    return next(m.number for m in bench.dispatcher.members.values() if m.name == name)


def test_a_key_goes_to_the_same_consumer_every_time() -> None:
    bench = Bench(key_shared)
    for name in "abc":
        bench.join(name)
    owner: dict[str, str] = {}
    for _ in range(3):
        base = bench.load_keys(*KEYS)
        for each in bench.all():
            for offset in each.offsets:
                assert owner.setdefault(KEYS[offset - base], each.to) == each.to
    assert set(owner.values()) == set("abc")


def test_a_frame_without_keys_goes_to_one_consumer_by_its_producer() -> None:
    bench = Bench(key_shared)
    bench.join("a")
    bench.join("b")
    for slot in (3, 200, 3, 200):
        bench.dispatcher.load(bench.window.read_offset, 5, 100, slot, None)
    given_ = bench.all()
    assert sorted(len(each.offsets) for each in given_) == [5] * 4
    owners = {each.offsets[0]: each.to for each in given_}
    assert owners[0] == owners[10] and owners[5] == owners[15]


@given(st.lists(st.booleans(), max_size=20), st.randoms(use_true_random=False))
def test_slots_are_shared_out_evenly_and_few_of_them_move(
    steps: list[bool], random: object
) -> None:
    members: list[int] = [1]
    owners: list[int | None] = [*share_out([None] * SLOTS, members)]
    next_number = 2
    for joins in steps:
        if joins or len(members) == 1:
            members.append(next_number)
            next_number += 1
        else:
            members.remove(random.choice(members))  # type: ignore[attr-defined]
        before = owners
        owners = [*share_out(before, members)]
        sizes = Counter(owners)
        assert set(sizes) == set(members)
        assert max(sizes.values()) - min(sizes.values()) <= 1
        had = sorted((before.count(number) for number in members), reverse=True)
        low, extra = divmod(SLOTS, len(members))
        stay = sum(min(count, low + (rank < extra)) for rank, count in enumerate(had))
        assert sum(a == b for a, b in zip(before, owners, strict=True)) == stay


def test_a_slot_that_moves_is_held_until_its_records_in_flight_are_done() -> None:
    bench = Bench(key_shared)
    a = bench.join("a")
    bench.load_keys(*KEYS)
    assert by_consumer(bench.all()) == {"a": set(range(64))}
    bench.join("b")
    base = bench.load_keys(*KEYS)
    taken = by_consumer(bench.all())
    assert "b" not in taken, "all keys are in flight at the consumer that had them before"
    moved = set(range(64)) - {offset - base for offset in taken["a"]}
    assert 16 <= len(moved) <= 48
    for offset in sorted(moved):
        bench.ack(a, offset)
    assert by_consumer(bench.all()) == {"b": {base + offset for offset in moved}}


def test_what_a_consumer_had_comes_in_order_to_who_has_its_slots_then() -> None:
    bench, key_a, _ = two()
    for _ in range(3):
        bench.load_keys(key_a)
    first = [each.offsets[0] for each in bench.all()]
    bench.dispatcher.leave(of(bench, "a"))
    again = bench.all()
    assert [each.offsets[0] for each in again] == first
    assert {each.to for each in again} == {"b"}


def test_a_record_that_waits_to_come_again_holds_its_key_and_no_other() -> None:
    bench, key_a, key_b = two()
    a, b = of(bench, "a"), of(bench, "b")
    base = bench.load_keys(key_a, key_b)
    bench.all()
    bench.dispatcher.nack(a, base, base, None, 0, "could not", bench.now)
    later = bench.load_keys(key_a, key_b, key_a)
    assert bench.all() == [Given("b", [later + 1])]
    bench.wait(2)
    assert bench.all() == [Given("a", [base], attempt=2), Given("a", [later, later + 2])]
    bench.dispatcher.ack(b, later + 1, later + 1, None, bench.now)


def test_records_of_a_key_that_failed_one_after_the_other_come_again_in_order() -> None:
    bench, key_a, _ = two()
    a = of(bench, "a")
    base = bench.load_keys(key_a, key_a, key_a)
    bench.all()
    bench.dispatcher.nack(a, base + 1, base + 1, None, 1_000, "could not", bench.now)
    bench.dispatcher.nack(a, base, base, None, 9_000, "could not", bench.now)
    bench.dispatcher.ack(a, base + 2, base + 2, None, bench.now)
    bench.wait(3)
    assert bench.all() == [], "the second waits for the first"
    bench.wait(7)
    assert [each.offsets for each in bench.all()] == [[base, base + 1]]


def test_a_record_that_timed_out_comes_again_though_later_frames_were_looked_at() -> None:
    bench, key_a, key_b = two()
    base = bench.load_keys(key_a)
    bench.all()
    for _ in range(3):
        bench.load_keys(key_b)
        bench.all()
    bench.window.settle_range(base + 1, base + 3)
    bench.wait(10)
    assert bench.all() == [Given("a", [base], attempt=2)]


def test_a_consumer_that_takes_nothing_holds_up_its_own_keys_only() -> None:
    bench, key_a, key_b = two()
    bench.dispatcher.members[of(bench, "a")].writable = False
    for _ in range(100):
        bench.load_keys(key_a, key_b)
    taken = by_consumer(bench.all())
    assert set(taken) == {"b"} and len(taken["b"]) == 100
    bench.dispatcher.members[of(bench, "a")].writable = True
    given_ = bench.all()
    assert {each.to for each in given_} == {"a"} and len(given_) == 100
    assert [each.offsets for each in given_] == sorted(each.offsets for each in given_)


# ---- key filters ----


def test_a_consumer_with_filters_gets_only_keys_that_match() -> None:
    bench = Bench(key_shared)
    bench.join("orders", filters=("order-*",))
    bench.join("rest", filters=("invoice-?", "[!o]*"))
    base = bench.load_keys("order-1", "invoice-1", "invoice-77", "payment", "order-2", "old")
    taken = by_consumer(bench.all())
    assert {offset - base for offset in taken["orders"]} == {0, 4}
    assert {offset - base for offset in taken["rest"]} == {1, 2, 3}


def test_a_key_that_nobody_accepts_waits_for_one_who_does() -> None:
    bench = Bench(key_shared)
    bench.join("a", filters=("a*",))
    bench.load_keys("b-1", "a-1", "b-2")
    assert bench.all() == [Given("a", [1])]
    bench.join("b", filters=("b*",))
    assert bench.all() == [Given("b", [0, 2])]


def test_one_without_filters_takes_what_others_do_not_accept() -> None:
    bench = Bench(key_shared)
    bench.join("picky", filters=("a-*",))
    bench.join("any")
    bench.load_keys(*(f"b-{number}" for number in range(50)))
    assert {each.to for each in bench.all()} == {"any"}
    bench.load_keys(*(f"a-{number}" for number in range(50)))
    assert {each.to for each in bench.all()} == {"picky", "any"}


def test_a_key_stays_in_order_when_a_consumer_that_accepts_it_joins() -> None:
    bench = Bench(key_shared)
    a = bench.join("a", filters=("k*",))
    keys = [f"k{number}" for number in range(40)]
    bench.load_keys(*keys)
    bench.all()
    bench.join("b", filters=("k*",))
    base = bench.load_keys(*keys)
    taken = by_consumer(bench.all())
    assert "b" not in taken and taken["a"]
    bench.ack_range(a, 0, base - 1)
    assert by_consumer(bench.all())["b"]


def test_keys_that_read_the_same_but_are_not_keep_their_own_consumers() -> None:
    # Keys that are no UTF-8 text read alike, but have slots of their own.
    bench = Bench(key_shared)
    bench.join("a", filters=("*",))
    bench.join("b", filters=("*",))
    first = key_slot(b"\xff")
    second = next(
        slot
        for slot in (key_slot(bytes([byte])) for byte in range(0x80, 0xFF))
        if bench.dispatcher._selector._owners[slot]  # type: ignore[attr-defined]
        != bench.dispatcher._selector._owners[first]  # type: ignore[attr-defined]
    )
    owners: dict[int, str] = {}
    for slots in (bytes([first, second]), bytes([second, first])):
        base = bench.window.read_offset
        bench.dispatcher.load(base, 2, 100, slots, ["\N{REPLACEMENT CHARACTER}"] * 2)
        for each in bench.all():
            for offset in each.offsets:
                assert owners.setdefault(slots[offset - base], each.to) == each.to
    assert len(set(owners.values())) == 2


@pytest.mark.parametrize("filters", [(), ("*",)])
def test_keys_are_loaded_only_when_filters_need_them(filters: tuple[str, ...]) -> None:
    bench = Bench(key_shared)
    member = bench.join("a", filters=filters)
    assert bench.dispatcher.needs_keys is bool(filters)
    bench.leave(member)
    assert not bench.dispatcher.needs_keys
