"""Which topics a query names."""

from __future__ import annotations

import pytest

from sulina.sql.names import parts_of, quoted, readable, topic_of


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("orders", "/default/orders"),
        ("billing.invoices", "/billing/invoices"),
        ('"default".orders', "/default/orders"),
        ('"/default/orders-part-3"', "/default/orders-part-3"),
        ('billing."my-invoices"', "/billing/my-invoices"),
        ('"file.csv"', "None"),
        ("a.b.c", "None"),
    ],
)
def test_a_table_is_a_topic_of_its_schemas_namespace(name: str, topic: str) -> None:
    assert str(topic_of(parts_of(name))) == topic


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT * FROM default.orders", 'SELECT * FROM "default".orders'),
        (
            "SELECT 'ü', 'default.x' FROM Default.a, b",
            "SELECT 'ü', 'default.x' FROM \"default\".a, b",
        ),
        ('SELECT "default.x" -- default.y', 'SELECT "default.x" -- default.y'),
        ("  ", "  "),
        ("", ""),
    ],
)
def test_the_default_namespace_needs_no_quotes(query: str, text: str) -> None:
    assert readable(query) == text


def test_names_are_quoted_for_sql() -> None:
    assert quoted(("a-b", 'c"d')) == '"a-b"."c""d"'
    assert parts_of('"a-b"."c""d"') == ("a-b", 'c"d')
