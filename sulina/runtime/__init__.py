"""The seam between the core and the world: clock, randomness, disk and network.

``seam`` has the interfaces that the core is written against, ``real`` the implementations that
touch the machine. Nothing outside this package calls ``time``, ``random``, opens files for data
or dials sockets, so the same core runs in production and in a deterministic simulation.
"""
