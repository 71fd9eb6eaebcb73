"""Ledgers on several storage nodes: write quorum, ack quorum, ensemble changes, recovery.

The rules are BookKeeper's. A writer confirms an entry when the ack quorum has it and every entry
before it is confirmed. A new owner fences so many nodes that no ack quorum can succeed any more,
then finds the end of the ledger from their answers. A missing answer never counts as "no entry".
"""
