"""Compiles .proto text to descriptors, with protoc from the grpcio-tools wheel.

It runs in a process of its own, so that its messages can be captured and untrusted text cannot
harm the caller.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Final

from sulina.errors import Refused, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_SECONDS: Final = 15.0
_AT_ONCE: Final = 2
_TEXT: Final = "schema.proto"
_SET: Final = "schema.set"


class Protoc:
    """Runs protoc, a few processes at a time; further callers wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def compile(self, text: bytes) -> bytes:
        """The ``FileDescriptorSet`` of a .proto text, including its imports.

        It may import only Protobuf's own types (google/protobuf/...). Raises ``Refused`` with the
        compiler's messages, or if it is not installed; ``Unavailable`` if it takes too long.
        """
        if importlib.util.find_spec("grpc_tools") is None:
            raise Refused(
                "this broker cannot compile .proto text: install sulina[schemas] there, or send "
                "the output of protoc --include_imports --descriptor_set_out"
            )
        async with self._turn:
            with tempfile.TemporaryDirectory(prefix="sulina-protoc-") as folder:
                return await self._run(Path(folder), text)

    async def _run(self, folder: Path, text: bytes) -> bytes:
        (folder / _TEXT).write_bytes(text)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", "--include_imports"),
            *(f"--descriptor_set_out={_SET}", _TEXT),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, said = await within(self._clock, _SECONDS, process.communicate())
        except TimeoutError:
            raise Unavailable(
                f"the .proto text was not compiled within {_SECONDS:g} s: try again later"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            words = " ".join(said.decode(errors="replace").split())
            raise Refused(f"protoc rejected the .proto text: {words[:500]}")
        return (folder / _SET).read_bytes()
