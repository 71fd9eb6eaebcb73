"""A simulator of balancing: the broker's own decision code on virtual brokers, topics and hours.

``workload`` makes the load, ``world`` the brokers and what they report, ``run`` virtual hours with
the real ``LoadManager``, ``start`` measures single plans on random starts. Everything
follows from a seed; nothing here waits for real time.
"""

from __future__ import annotations
