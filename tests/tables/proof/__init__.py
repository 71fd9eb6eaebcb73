"""The proof of tables: nothing is lost, doubled or wrong while brokers and the catalog die.

``python -m tests.tables.proof --records 10000000`` is the whole one; a small one is a test.
"""
