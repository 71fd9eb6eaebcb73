"""Which partition a record goes to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.client.routing import fnv1a, group_by_partition, partition_of


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
