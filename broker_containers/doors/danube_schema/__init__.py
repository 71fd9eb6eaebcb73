"""Danube's schema registry over gRPC, on the port of Danube's clients: the registry in its words.

``danube_schema.proto`` describes it; ``service`` is the service, for any server of gRPC.
"""
