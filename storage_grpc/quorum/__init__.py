"""Ledgers on several storage nodes: write quorum, ack quorum, ensemble changes, recovery.

The rules are BookKeeper's. A writer confirms an entry when the ack quorum has it and every entry
before it is confirmed; a new owner fences enough nodes that no ack quorum can still succeed, then
finds the end of the ledger from what the nodes answer, and never takes silence for absence.
"""
