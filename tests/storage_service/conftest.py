"""Local and remote nodes for the tests of this folder.

All tests here share one event loop. gRPC's poller belongs to the process: what is left of a call,
delivered after its loop was closed, would disturb the calls of the next loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from storage_grpc.loss_record import LossRecord
from storage_grpc.node import LocalNode, Node
from sulina.runtime.memory_disk import MemoryDisk
from tests.storage_service.serving import open_journal, remote, serving
from tests.support.fixtures import share_loop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@pytest.fixture(params=["local", "remote"])
def where(request: pytest.FixtureRequest) -> str:
    """Where the node of a test is."""
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def node(where: str) -> AsyncIterator[Node]:
    """An empty node, in this process or behind gRPC."""
    store = await open_journal(MemoryDisk())
    if where == "local":
        yield LocalNode("storage-1@01234567", store, LossRecord(may_have_lost=False))
    else:
        async with serving(store, max_entry_bytes=1 << 20) as server, remote(server.port) as far:
            yield far
    await store.close()
