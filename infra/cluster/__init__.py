"""What runs messaging: brokers, storage nodes, etcd, their images and the load balancer."""

from __future__ import annotations
