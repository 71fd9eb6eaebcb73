"""A real Prometheus, where it is installed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.support.etcd import free_ports


@asynccontextmanager
async def running_prometheus(config: Mapping[str, Any], folder: Path) -> AsyncIterator[str]:
    """Its URL; skips the test where the program is missing."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    file, [port] = folder / "prometheus.yml", free_ports(1)
    file.write_text(yaml.safe_dump(dict(config)))
    prometheus = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        prometheus.terminate()
        await prometheus.wait()


async def answers(session: aiohttp.ClientSession, url: str, query: str) -> bool:
    """Whether a query has a result; not before Prometheus is up and has scraped."""
    try:
        async with session.get(f"{url}/api/v1/query", params={"query": query}) as answer:
            return answer.status == 200 and bool((await answer.json())["data"]["result"])
    except aiohttp.ClientError:
        return False
