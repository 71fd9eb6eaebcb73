"""Danube's administrative gRPC services, for Danube's own tools, over the operations of every door.

``danube_admin.proto`` describes them. ``server`` listens and stops; every call passes through
``calls``; ``needs`` maps calls to the operations whose rights they need. ``brokers``, ``clusters``,
``namespaces``, ``topics``, ``subscriptions`` and ``security`` are the services. ``cluster_map`` is
the cluster as they see it, which may be a single broker.
"""
