"""Starts broker processes quickly, so that a test can kill hundreds of them.

Run as a module, with the log file as its argument. It imports everything once; then each line on
its standard input, ``{"folder": ..., "port": ...}``, makes it fork a process that runs a whole
one-process cluster there. Answers on standard output: ``{"pid": ..., "state": "born"}`` at once,
then ``"ready"``, with the ``"port"``, when it takes connections, or ``"failed"``. One at a time:
a new one is started only when the one before is dead. The end of the input ends the last one too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.listen import Listen
from broker_containers.topic_log.ledger_settings import LedgerSettings
from storage_grpc.journal.settings import JournalSettings
from sulina.cli.running import loop_factory

_SMALL = JournalSettings(file_bytes=8 << 20, reserve_bytes=1 << 20)
"""Files of a size that a test goes through several of them."""
_EAGER = BrokerSettings(cursor_flush_seconds=0.02, ledger=LedgerSettings(roll_bytes=256 << 10))
"""Even a short life stores some cursors and goes through some ledgers."""


async def _serve(folder: Path, port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with run_embedded(folder, DoorSettings(Listen(port=port)), _EAGER, _SMALL) as server:
        _say(os.getpid(), "ready", port=server.addresses.port)
        await stop.wait()


def _say(pid: int, state: str, **more: Any) -> None:
    line = json.dumps({"pid": pid, "state": state, **more}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def _child(order: dict[str, Any]) -> None:
    code = 1
    try:
        logging.getLogger().setLevel(logging.INFO)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(Path(order["folder"]), order["port"]))
        code = 0
    except BaseException:
        logging.exception("the broker failed")
        _say(os.getpid(), "failed")
    finally:
        os._exit(code)


def main() -> None:
    logging.basicConfig(filename=sys.argv[1], format="%(process)d %(levelname)s %(message)s")
    gc.freeze()  # so that the processes need not copy what is here already
    child = 0
    for line in sys.stdin:
        if child:
            os.waitpid(child, 0)
        child = os.fork()
        if not child:
            sys.stdin.close()
            _child(json.loads(line))
        _say(child, "born")
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
