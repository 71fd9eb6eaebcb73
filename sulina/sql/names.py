"""The topics that a query names. Pure.

A topic is a table in the schema of its namespace: ``orders`` and ``default.orders`` are
``/default/orders``, ``billing.invoices`` is ``/billing/invoices``. ``"/default/orders"`` works too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import duckdb

from sulina.errors import Refused
from sulina.names import TopicName

DEFAULT: Final = "default"
_PARTS: Final = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')


def readable(query: str) -> str:
    """The query with ``default.`` in quotes, as the namespace is a keyword of SQL.

    A keyword before a full stop is never valid, so nothing else changes.
    """
    text = query.encode()  # positions of tokens are those of bytes
    for start, kind in reversed(duckdb.tokenize(query)):
        end = start + len(DEFAULT)
        if (
            kind == duckdb.token_type.keyword
            and text[start:end].lower() == DEFAULT.encode()
            and text[end : end + 1] == b"."
        ):
            text = text[:start] + b'"default"' + text[end:]
    return text.decode()


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a qualified name as DuckDB writes it: ``billing."my-invoices"``."""
    return tuple(
        quoted.replace('""', '"') if quoted or not plain else plain
        for quoted, plain in _PARTS.findall(name)
    )


def topic_of(parts: tuple[str, ...]) -> TopicName | None:
    """The topic that a table's name stands for; None if it cannot be one."""
    match parts:
        case (name,):
            text = name if name.startswith("/") else f"/{DEFAULT}/{name}"
        case (namespace, name):
            text = f"/{namespace}/{name}"
        case _:
            return None
    try:
        return TopicName.parse(text)
    except Refused:
        return None


def quoted(parts: Iterable[str]) -> str:
    """A qualified name in SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
