"""The cold tier: closed ledgers as objects.

``tier`` is the interface for brokers. ``offload`` writes and verifies the object of a ledger,
``objects`` reads it, ``local`` does both over an object store, and ``remote`` has storage nodes do
it. docs/tiering.md describes the life of a ledger.
"""
