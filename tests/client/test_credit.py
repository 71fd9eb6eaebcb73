"""The credit that bounds what a broker sends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.client.queue import Credit


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
