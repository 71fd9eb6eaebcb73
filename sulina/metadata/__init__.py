"""The metadata store: small records that brokers and storage nodes share.

``store`` is the interface; ``embedded`` implements it on a folder, ``etcd`` on an etcd cluster.
``cas`` has compare-and-swap helpers, ``prefix_cache`` keeps keys in memory, ``batching`` combines
calls, and ``keys`` has one file per family of keys.
"""

from __future__ import annotations
