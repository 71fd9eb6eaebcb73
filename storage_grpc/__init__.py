"""The storage node, which stores entries of many ledgers durably, and the ledger client.

``entries`` is the interface of its backends: ``memory_store``, and ``journal`` on a disk.
``ledgers`` is the interface for brokers; README.md lists the rest.
"""
