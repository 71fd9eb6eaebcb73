"""The broker's container: ``sulina broker run`` with its options from the environment.

``SULINA_BROKER_<OPTION>`` gives an option, ``SULINA_BROKER_CACHE_MB=64`` is ``--cache-mb 64``;
options that may be given several times are divided by commas, and instead of a PEM file there may
be its text, as services hand over secrets. Without them, a container is named after its host and
listens on the host's own address, which is then also where clients and other brokers are told to
find it. Arguments of the container are further options; they win.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "SULINA_BROKER_"
_PEM: Final = "-----BEGIN "


def command_line(environment: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """The arguments of ``sulina``. Raises ``Refused`` for a variable that means nothing."""
    from broker_containers.commands.broker_run import broker_run
    from sulina.errors import Refused
    from sulina.runtime.own_address import own_address, own_name
    from sulina.runtime.secret_file import secret_file

    options = {max(each.opts, key=len): each for each in broker_run.params}
    given = {
        "--" + name.removeprefix(PREFIX).lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }
    command = ["broker", "run", "--json"]
    if "--id" not in given:
        command += ["--id", own_name()]
    if "--host" not in given:
        command += ["--host", own_address()]
    for option, value in given.items():
        if option not in options:
            known = ", ".join(_variable(each) for each in options if each != "--json")
            raise Refused(f"{_variable(option)} is set and unknown: there are {known}")
        if value.lstrip().startswith(_PEM):
            value = str(secret_file(f"{option.removeprefix('--')}.pem", value))
        several = getattr(options[option], "multiple", False)
        for each in value.split(",") if several else [value]:
            command += [option, each.strip()]
    return [*command, *arguments]


def _variable(option: str) -> str:
    return PREFIX + option.removeprefix("--").upper().replace("-", "_")


def main() -> int:
    """Run the broker until SIGTERM; returns the exit code of the process."""
    # The first process of a container ignores signals without a handler, and loading takes a while.
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
