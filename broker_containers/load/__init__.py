"""The load manager's decisions: reports, rankings, placement, rebalancing, failover.

Pure: no I/O, no clock, no randomness. The leader uses ``manager``, brokers write ``report``;
``decision`` has the results and their reasons. docs/balance.md explains how decisions are made.
"""

from __future__ import annotations
