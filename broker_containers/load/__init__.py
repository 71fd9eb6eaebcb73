"""The load manager's decisions: reports, rankings, placement, rebalancing, failover.

Pure: no I/O, no clock, no randomness. ``manager`` has the object that a leader uses, ``report``
what brokers write, ``settings`` what can be set, ``decision`` the answers and their reasons,
``reconcile`` the order of steps. docs/balance.md tells how decisions are made.
"""

from __future__ import annotations
