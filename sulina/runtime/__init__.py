"""The seam between the core and the machine: clock, randomness, disk and network.

``seam`` has the interfaces that the core uses; the ``real_*`` modules implement them on a machine,
``memory_disk`` in memory. Nothing outside this package uses ``time``, ``random``, data files,
sockets or asyncio's timeouts, so the same core runs in production and in simulation.
"""
