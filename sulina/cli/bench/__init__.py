"""``sulina bench``: the command, the processes it starts, and how it counts latency."""
