"""What the children of ``test_helper_process`` serve, and a parent that waits for its child."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

from sulina.errors import NotFound
from sulina.runtime.helper_process import HelperProcess, Serve, serve_calls
from sulina.runtime.real_clock import RealClock


@asynccontextmanager
async def _opened(setup: Any) -> AsyncIterator[Serve]:
    async def serve(request: Any) -> Any:
        match request:
            case "echo", value:
                return setup, value
            case "pid", _:
                return os.getpid()
            case "refuse", why:
                raise NotFound(why)
            case "print", text:
                print(text)  # noqa: T201
                return "printed"
            case "exit", code:
                os._exit(code)
            case "kill", number:
                os.kill(os.getpid(), number)
            case "wait", begun:
                Path(begun).touch()
                await asyncio.Event().wait()
        return None

    yield serve


def main() -> NoReturn:
    """A child."""
    serve_calls(_opened)


def parent(begun: str) -> None:
    """Print the process id of a child, and wait for an answer that does not come."""

    async def run() -> None:
        process = HelperProcess(__name__, None, RealClock())
        print(await process.call(("pid", None)), flush=True)  # noqa: T201
        await process.call(("wait", begun))

    asyncio.run(run())
