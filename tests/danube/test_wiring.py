"""Settings of the port for Danube's clients: URLs, and how long a frame waits."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker_containers.commands.listening import danube_listen
from broker_containers.doors.danube.batch_delay import BatchDelay
from broker_containers.doors.danube.settings import DanubeListen
from sulina.errors import Refused
from tests.danube.brokers import OneBroker, one_broker


def test_the_port_is_danubes_or_a_free_one() -> None:
    usual, free, chosen = (
        danube_listen("127.0.0.1", port, wanted, None)
        for port, wanted in ((6655, None), (0, None), (0, 7000))
    )
    assert usual is not None and free is not None and chosen is not None
    assert (usual.port, free.port, chosen.port) == (6650, 0, 7000)


def test_clients_are_never_told_to_connect_to_every_address() -> None:
    door = danube_listen("0.0.0.0", 6655, None, None)
    assert door is not None
    assert door.advertise_host == socket.gethostname()


def test_what_is_no_url_is_refused() -> None:
    for url in ("host:6650", "ftp://host:1", "http://host/path", "http://"):
        with pytest.raises(Refused, match=r"--grpc-proxy: .* http://host:port"):
            danube_listen("127.0.0.1", 0, None, None, proxy_url=url)


async def test_a_port_that_is_taken_is_told_with_the_remedy(
    broker: OneBroker, tmp_path: Path
) -> None:
    taken = DanubeListen(port=int(broker.url.rpartition(":")[2]))
    with pytest.raises(Refused, match=r"Danube's clients.*--grpc-port"):
        async with one_broker(tmp_path, danube=taken):
            raise AssertionError("it listens where another does")


STEP = 0.25
MOST = 1.0


@pytest.fixture
def delay() -> BatchDelay:
    return BatchDelay(STEP, MOST)


def test_the_first_message_of_all_waits_for_nobody(delay: BatchDelay) -> None:
    assert not delay.keeps_waiting(1, 5.0)


def test_a_lone_caller_waits_for_nobody(delay: BatchDelay) -> None:
    delay.answered(1, 5.0)
    assert not delay.keeps_waiting(1, 5.1)


def test_a_frame_waits_for_those_who_were_answered_together(delay: BatchDelay) -> None:
    delay.answered(9, 5.0)
    assert delay.keeps_waiting(1, 5.1) and not delay.complete(2)
    assert delay.complete(9) and not delay.keeps_waiting(9, 5.35)


def test_a_frame_waits_shorter_for_few(delay: BatchDelay) -> None:
    delay.answered(2, 5.0)
    assert delay.step == STEP / 4
    assert delay.keeps_waiting(1, 5.0 + STEP / 5)
    delay.answered(2, 6.0)
    assert not delay.keeps_waiting(1, 6.0 + STEP / 3)
    delay.answered(64, 7.0)
    assert delay.step == STEP


def test_a_frame_waits_only_as_long_as_more_come(delay: BatchDelay) -> None:
    delay.answered(64, 5.0)
    assert delay.keeps_waiting(1, 5.1)
    assert delay.keeps_waiting(7, 5.35)
    assert not delay.keeps_waiting(7, 5.6)


def test_a_frame_does_not_wait_for_callers_that_come_back_one_by_one(
    delay: BatchDelay,
) -> None:
    delay.answered(64, 5.0)
    assert delay.keeps_waiting(1, 5.1)
    assert not delay.keeps_waiting(2, 5.35)


def test_however_many_come_the_wait_is_bounded(delay: BatchDelay) -> None:
    delay.answered(1000, 5.0)
    looks = 0
    while delay.keeps_waiting(10 * (looks + 1), 5.0 + looks * STEP):
        looks += 1
    assert looks == MOST / STEP


def test_who_comes_long_after_the_answer_waits_for_nobody(delay: BatchDelay) -> None:
    delay.answered(64, 5.0)
    assert not delay.keeps_waiting(1, 5.0 + STEP)


def test_after_an_answer_the_count_begins_anew(delay: BatchDelay) -> None:
    delay.answered(8, 5.0)
    assert delay.keeps_waiting(6, 5.1)
    assert not delay.keeps_waiting(6, 5.35)
    delay.answered(8, 5.5)
    assert delay.keeps_waiting(2, 5.6)
