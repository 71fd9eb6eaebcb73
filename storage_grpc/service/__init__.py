"""The storage node as a gRPC service; ``storage.proto`` describes it.

``server`` is the service with its life, ``append_session`` one client's stream of appends,
``calls`` all the other methods, ``settings`` what can be set, and ``process`` a whole node as a
process: disk, journal and server, until a signal.
"""
