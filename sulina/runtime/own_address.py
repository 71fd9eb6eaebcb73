"""How others on the network find this machine, for a process that is told nothing else."""

from __future__ import annotations

import socket

from sulina.errors import Refused


def own_name() -> str:
    """The machine's name; in a container, that of the container."""
    return socket.gethostname()


def own_address() -> str:
    """The address that the machine's own name stands for. Raises ``Refused`` if there is none."""
    name = own_name()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise Refused(
            f"the name of this machine, {name}, has no address ({error.strerror or error}): say "
            "which address to use"
        ) from None
