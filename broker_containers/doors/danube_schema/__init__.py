"""The schema registry in Danube's gRPC protocol, served on the ports of both Danube doors.

``danube_schema.proto`` describes it; ``service`` adds it to a gRPC server.
"""
