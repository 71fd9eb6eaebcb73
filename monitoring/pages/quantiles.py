"""Quantiles of a histogram, one series each."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Query

_QUANTILES: Final = (0.5, 0.99, 0.999)


def quantiles(buckets: str, *, exemplars: bool = False) -> list[Query]:
    """For a query of the rates of its buckets."""
    return [
        Query(f"histogram_quantile({share}, {buckets})", f"p{share * 100:g}", exemplars)
        for share in _QUANTILES
    ]
