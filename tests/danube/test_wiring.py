"""The options that set the port and the URL for Danube's clients."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker_containers.commands.listening import danube_listen
from broker_containers.doors.danube.settings import DanubeListen
from sulina.errors import Refused
from tests.danube.broker import OneBroker, one_broker


def test_the_port_is_danubes_or_a_free_one() -> None:
    usual, free, chosen = (
        danube_listen("127.0.0.1", port, wanted, None, None)
        for port, wanted in ((6655, None), (0, None), (0, 7000))
    )
    assert usual is not None and free is not None and chosen is not None
    assert (usual.port, free.port, chosen.port) == (6650, 0, 7000)


def test_clients_are_never_told_to_connect_to_every_address() -> None:
    door = danube_listen("0.0.0.0", 6655, None, None, None)
    assert door is not None
    assert door.advertise_host == socket.gethostname()


def test_what_is_no_url_is_refused() -> None:
    for url in ("host:6650", "ftp://host:1", "http://host/path", "http://"):
        with pytest.raises(Refused, match=r"--grpc-proxy: .* http://host:port"):
            danube_listen("127.0.0.1", 0, None, None, None, proxy_url=url)


async def test_a_port_that_is_taken_is_told_with_the_remedy(
    broker: OneBroker, tmp_path: Path
) -> None:
    taken = DanubeListen(port=int(broker.url.rpartition(":")[2]))
    with pytest.raises(Refused, match=r"Danube's clients.*--grpc-port"):
        async with one_broker(tmp_path, danube=taken):
            raise AssertionError("it listens where another does")
