"""The parts of the TiKV client that need no cluster: the order of keys, the cache of regions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.objects.tikv import failures
from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv.keys import Layout, decoded, encoded
from sulina.objects.tikv.regions import Region, RegionCache


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_encoded_keys_have_the_order_of_keys_and_decode_to_them(one: bytes, other: bytes) -> None:
    assert decoded(encoded(one)) == one
    assert (encoded(one) < encoded(other)) == (one < other)


def test_keys_are_encoded_as_the_regions_bounds_are() -> None:
    assert encoded(b"") == bytes(8) + b"\xf7"
    assert encoded(b"abc") == b"abc\0\0\0\0\0\xfa"
    assert encoded(b"12345678") == b"12345678\xff" + bytes(8) + b"\xf7"


def test_prefixes_do_not_see_each_others_keys() -> None:
    start, end = Layout("a").everything()

    assert start <= Layout("a").object("b/o") < end
    assert not start <= Layout("a/b").object("o") < end
    assert not start <= Layout("").object("a") < end


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_the_cache_knows_of_each_key_the_region_that_was_added_last(
    bounds: list[tuple[int, int]],
) -> None:
    cache, newest = RegionCache(), dict[int, Region | None]()
    for number, (start, length) in enumerate(bounds):
        end = start + 1 + length
        region = Region(number, _key(start), b"" if end > 20 else _key(end), 1, number, 1, 1)
        gone = {found for at in range(22) if (found := newest.get(at)) and region.holds(_key(at))}
        newest = {at: None if found in gone else found for at, found in newest.items()}
        newest |= {at: region for at in range(22) if region.holds(_key(at))}
        cache.add(region)

    for at in range(22):
        assert cache.find(_key(at)) == newest.get(at)


def test_a_scan_of_a_region_ends_where_the_region_ends() -> None:
    region = Region(1, encoded(b"b"), encoded(b"d"), 1, 1, 1, 1)
    last = Region(2, encoded(b"d"), b"", 1, 1, 1, 1)

    assert (region.cut(b"c"), region.cut(b"z"), last.cut(b"z")) == (b"c", b"d", b"z")
    assert (region.next_key, last.next_key) == (b"d", None)


def test_every_error_of_a_region_is_known_by_name() -> None:
    known = failures.STALE | failures.LATER
    final = {"raft_entry_too_large", "disk_full", "flashback_in_progress", "flashback_not_prepared"}

    assert {field.name for field in pb.RegionError.DESCRIPTOR.fields} == known | final | {"message"}


def test_a_cluster_without_stores_is_told_with_the_remedy() -> None:
    answered = pb.PdError(type=2, message="cluster is not bootstrapped")  # by PD 8.5.5

    assert "no store of TiKV has joined" in str(failures.of_placement(answered))


def _key(number: int) -> bytes:
    return f"{number:03}".encode()
