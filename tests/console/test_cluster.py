"""The console of a real cluster with traffic, while its brokers are drained and killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import sulina
from sulina.errors import SulinaError
from sulina.runtime.tasks import stop_tasks
from tests.console.browser import Browser
from tests.support.local_cluster import ClusterUp

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
_SIZE = ("--brokers", "2", "--storage", "1", "--etcd", "1")
_TOPICS = [f"/default/t-{number}" for number in range(6)]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClusterUp]:
    """With traffic on six topics."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    (folder / "lake").mkdir()
    cluster = ClusterUp(folder / "data", *_SIZE, "--tier", f"file://{folder / 'lake'}")
    await asyncio.to_thread(cluster.start)
    try:
        async with sulina.connect(cluster.url) as client:
            publishing = [asyncio.create_task(_publish(client, topic)) for topic in _TOPICS]
            try:
                yield cluster
            finally:
                await stop_tasks(*publishing)
    finally:
        await asyncio.to_thread(cluster.stop)


async def _publish(client: sulina.Client, topic: str) -> None:
    while True:
        try:
            async with client.producer(topic) as producer:
                while True:
                    await producer.send(b"tick")
                    await asyncio.sleep(0.1)
        except SulinaError:
            await asyncio.sleep(0.1)


def _url(cluster: ClusterUp, broker: str) -> str:
    [port] = [row["http_port"] for row in cluster.ready["brokers"] if row["id"] == broker]
    return f"http://127.0.0.1:{port}"


async def test_a_cluster_is_watched_drained_and_loses_a_broker(
    browser: Browser, cluster: ClusterUp
) -> None:
    url = _url(cluster, "broker-1")
    browser.errors.clear()

    # Nodes with their disks; what they log is changed while they run.
    await browser.goto(f"{url}/#/storage")
    await browser.sees("storage-1", "free of", "healthy", "ledgers looked at, all")
    assert await browser.accessibility_problems() == []
    await browser.click("warning")
    await browser.fill("Least severe", "debug")
    await browser.click("Log level of storage-1")
    await browser.until("!document.querySelector('dialog')")
    await browser.sees("debug")

    await browser.run("location.hash = '#/lake'")
    await browser.sees("Tiering", "/default/t-5", "of 7")
    assert await browser.accessibility_problems() == []

    # A broker is drained, and one sees how its topics become fewer, to none.
    await browser.run("location.hash = '#/brokers'")
    await browser.sees("broker-1", "broker-2", "leader")
    topics = (
        "Number([...document.querySelectorAll('main tbody tr')]"
        ".find((row) => row.innerText.includes('broker-2')).cells[2].innerText)"
    )
    await browser.until(f"{topics} > 0")
    await browser.until(
        "[...document.querySelectorAll('main tbody tr')]"
        ".find((row) => row.innerText.includes('broker-2'))?.querySelector('button')?.click()"
        " ?? Boolean(document.querySelector('dialog'))"
    )
    await browser.sees("All its topics move to other brokers")
    await browser.click("Drain broker-2")
    await browser.sees("broker-2 is drained", "it has no topics any more")
    await browser.until(f"{topics} === 0")
    await browser.until("Boolean(document.querySelector('[aria-label=\"0 topics left\"]'))")
    await browser.run("location.hash = '#/balance'")
    await browser.sees("Load of the brokers", "The plan now", "its broker is being emptied")
    moved = "document.querySelector('[aria-label=Moved] tbody').innerText"
    assert "/default/t-" in await browser.run(moved)
    assert await browser.accessibility_problems() == []
    assert browser.errors == []

    # The other broker hangs while one looks at the drained one: it is shown to be away.
    await browser.goto(f"{_url(cluster, 'broker-2')}/")
    await browser.sees("Busiest topics", "broker-1", "broker-2")
    rows = "document.querySelector('[aria-label=Brokers] tbody').innerText"
    await browser.until(f"{rows}.includes('broker-1')")
    os.kill(cluster.pids["broker-1"], signal.SIGSTOP)
    await browser.until(f"!{rows}.includes('broker-1') && {rows}.includes('broker-2')")
    # It is killed, its supervisor starts it again, and it comes back on the page.
    os.kill(cluster.pids["broker-1"], signal.SIGKILL)
    await browser.until(f"{rows}.includes('broker-1')")
    # The broker of the page itself is killed: that is said, with when the figures are from.
    os.kill(cluster.pids["broker-2"], signal.SIGKILL)
    await browser.sees("This broker does not answer", "No connection")
    await browser.until("!document.querySelector('main').innerText.includes('not answer')")
    browser.errors.clear()  # of answers that needed the brokers
    await browser.run("location.hash = '#/topics'")
    await browser.sees("/default/t-5", "of 7")
    assert browser.errors == []


async def test_without_etcd_and_storage_pages_say_so_and_show_what_is_known(
    browser: Browser, cluster: ClusterUp
) -> None:
    await browser.goto(f"{_url(cluster, 'broker-1')}/#/topics")
    await browser.sees("/default/t-5", "of 7")
    frozen = [cluster.pids["etcd-1"], cluster.pids["storage-1"]]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    await browser.sees("The metadata store does not answer", "/default/t-5")
    await browser.run("location.hash = '#/storage'")
    await browser.sees("does not serve", "Nothing is known of them now")
    assert await browser.accessibility_problems() == []
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    await browser.sees("healthy", "None of")
    await browser.until("!document.body.innerText.includes('The metadata store')")
    browser.errors.clear()  # of answers that needed them
