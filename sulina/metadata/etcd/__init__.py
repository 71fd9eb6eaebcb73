"""The metadata store on etcd, for clusters; ``EtcdStore`` is the door.

``settings`` says where etcd is, ``gateway`` makes calls that fail over and never hang, ``watch``
follows changes across everything that can happen to a connection, ``codec`` has etcd's JSON,
``library`` what we use of etcd3-py, and ``server`` runs etcd itself as child processes.
"""

from __future__ import annotations

from sulina.metadata.etcd.settings import EtcdSettings as EtcdSettings
from sulina.metadata.etcd.store import EtcdStore as EtcdStore
