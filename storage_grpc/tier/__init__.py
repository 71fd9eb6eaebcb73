"""The cold tier: closed ledgers as objects.

``tier`` is what a broker asks of it, near or far. ``offload`` makes an object of a ledger and
verifies it, ``objects`` reads it again, ``local`` does both in one process over an object store,
and ``remote`` lets storage nodes do it. docs/tiering.md tells the whole way of a ledger.
"""
