"""Danube's administrative gRPC services, for Danube's own tools, over the operations of every door.

``danube_admin.proto`` describes them. ``server`` listens and stops. ``brokers``, ``clusters``,
``namespaces``, ``topics``, ``subscriptions`` and ``security`` are the services. ``cluster_map`` is
the cluster as they see it, which may be a single broker. What every call passes through, and the
rights it needs, are in ``doors.grpc_shared``.
"""
