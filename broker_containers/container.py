"""The entry point of the broker's container: ``sulina broker run`` with options from variables.

``SULINA_BROKER_<OPTION>`` sets an option: ``SULINA_BROKER_CACHE_MB=64`` means ``--cache-mb 64``.
Commas separate the values of options that may be repeated. Instead of the path of a PEM file a
value may be its text, as secret stores provide it. By default a broker has the name of its host,
and listens on and advertises the host's own address. ``SULINA_BROKER_ZONES`` lists networks and
their availability zones, ``10.0.0.0/20=eu-central-1a,...``: the broker is in the zone of its
address. Arguments of the container are further options and take precedence.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "SULINA_BROKER_"
_PEM: Final = "-----BEGIN "
_ZONES: Final = "--zones"
"""Not an option itself: it determines ``--zone``."""


def command_line(environment: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """The arguments for ``sulina``. Raises ``Refused`` for an unknown variable."""
    from broker_containers.commands.broker_run import broker_run
    from sulina.errors import Refused
    from sulina.runtime.machine import own_address, own_name, secret_file

    options = {max(each.opts, key=len): each for each in broker_run.params}
    given = {
        "--" + name.removeprefix(PREFIX).lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }
    command = ["broker", "run", "--json"]
    if "--id" not in given:
        command += ["--id", own_name()]
    host = given["--host"] if "--host" in given else own_address()
    if "--host" not in given:
        command += ["--host", host]
    zones = given.pop(_ZONES, "")
    if zones and "--zone" not in given and (zone := _zone(host, zones)):
        command += ["--zone", zone]
    for option, value in given.items():
        if option not in options:
            known = ", ".join(_variable(each) for each in options if each != "--json")
            raise Refused(f"unknown variable {_variable(option)}: choose from {known}")
        if value.lstrip().startswith(_PEM):
            value = str(secret_file(f"{option.removeprefix('--')}.pem", value))
        several = getattr(options[option], "multiple", False)
        for each in value.split(",") if several else [value]:
            command += [option, each.strip()]
    return [*command, *arguments]


def _zone(address: str, zones: str) -> str:
    """The zone of the network that an address is in; empty if it is in none of them.

    Raises ``Refused`` if the list is malformed.
    """
    from sulina.errors import Refused

    try:
        for each in zones.split(","):
            network, _, zone = each.strip().partition("=")
            if ipaddress.ip_address(address) in ipaddress.ip_network(network):
                return zone
    except ValueError as error:
        raise Refused(
            f"invalid value of {_variable(_ZONES)} for the address {address} ({error}): write "
            "networks and zones such as 10.0.0.0/20=eu-central-1a,10.0.16.0/20=eu-central-1b"
        ) from None
    return ""


def _variable(option: str) -> str:
    return PREFIX + option.removeprefix("--").upper().replace("-", "_")


def main() -> int:
    """Run the broker until SIGTERM; returns the exit code of the process."""
    # A container's first process ignores signals without a handler, and imports take a while.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from sulina.cli.app import run
    from sulina.errors import SulinaError

    try:
        arguments = command_line(os.environ, sys.argv[1:])
    except SulinaError as error:
        sys.stderr.write(f"broker: {error}\n")
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
