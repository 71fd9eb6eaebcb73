"""The storage node as a gRPC service; ``storage.proto`` describes it.

``server`` starts and stops the service, ``append_session`` serves one client's stream of appends,
``calls``, ``batched_calls`` and ``tier_calls`` the other methods, and ``process`` runs a whole
node: disk, journal and server, until a signal.
"""
