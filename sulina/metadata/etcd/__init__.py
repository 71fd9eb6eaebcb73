"""The metadata store for clusters, on etcd. ``EtcdStore`` is the entry point.

``settings`` holds the addresses and timeouts, ``gateway`` makes calls that fail over between
members and never hang, ``watch`` follows changes across broken connections, ``codec`` translates
to etcd's JSON, ``http_client`` wraps etcd3-py, and ``server`` runs etcd as child processes.
"""

from __future__ import annotations

from sulina.metadata.etcd.settings import EtcdSettings as EtcdSettings
from sulina.metadata.etcd.store import EtcdStore as EtcdStore
