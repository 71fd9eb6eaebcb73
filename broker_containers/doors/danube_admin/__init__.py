"""Danube's administrative gRPC services, for Danube's own tools: the same methods as every door.

``danube_admin.proto`` describes them. ``server`` listens and stops, ``calls`` is what every call
passes through, ``brokers``, ``clusters``, ``namespaces``, ``topics``, ``subscriptions`` and
``security`` are the services over ``Admin``, ``places`` is the cluster as they see it, be it of one
broker alone, and ``absent`` tells what is not served.
"""
