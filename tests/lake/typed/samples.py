"""A schema and a payload of each format, for tests that need any."""

from __future__ import annotations

from benchmarks.lake_orders import formats, make_orders

_FORMATS = formats()
JSON, AVRO, PROTO = (each.version for each, _ in _FORMATS)
PAYLOADS = [each.encode(make_orders(1, words)[0]) for each, words in _FORMATS]
"""In the same order."""
