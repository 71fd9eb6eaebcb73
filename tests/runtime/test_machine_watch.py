"""What a process notices of its machine: descriptors, jumps of the clock, expiring certificates."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

import sulina
from sulina.errors import Overloaded, Refused, Unavailable
from sulina.runtime.machine_watch import Descriptors, MachineWatch, descriptors, expiry_of
from sulina.runtime.real_clock import RealClock
from tests.http.client import http_client
from tests.support.server import SulinaProcess

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class TwoClocks(RealClock):
    """A monotonic and a wall clock that the test moves."""

    __slots__ = ("steady", "wall")

    def __init__(self) -> None:
        self.steady = 100.0
        self.wall = _BEGAN.timestamp()

    def now(self) -> float:
        return self.steady

    def wall_us(self) -> int:
        return round(self.wall * 1e6)

    def move(self, steady: float, wall: float | None = None) -> None:
        self.steady += steady
        self.wall += steady if wall is None else wall


def plenty() -> Descriptors:
    return Descriptors(20, 1024)


def test_a_wall_clock_that_jumps_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = TwoClocks()
    watch = MachineWatch(clock, look_at_descriptors=plenty)
    for step, jump in ((5.0, 0.0), (5.0, 0.4), (60.0, -0.3)):
        watch.look()
        clock.move(step, step + jump)
    watch.look()
    assert watch.clock_jumps == 0
    clock.move(5.0, 65.0)
    watch.look()
    clock.move(5.0, -3595.0)
    watch.look()
    assert (watch.clock_jumps, round(watch.last_jump_seconds)) == (2, -3600)
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == [
        "the wall clock jumped by +60.0 s",
        "the wall clock jumped by -3600.0 s",
    ]


async def test_scarce_descriptors_make_unready_and_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, used = TwoClocks(), 800
    watch = MachineWatch(clock, look_at_descriptors=lambda: Descriptors(used, 1024))
    watch.look()
    assert await watch.check_descriptors() == "enough are free"
    used = 1_000
    for _ in range(13):
        watch.look()
        clock.move(5.0)
    with pytest.raises(Overloaded, match="1000 of 1024 file descriptors are in use"):
        await watch.check_descriptors()
    assert len(caplog.records) == 2
    used = 100
    await watch.check_descriptors()


def test_descriptors_are_counted_as_the_system_has_them() -> None:
    before = descriptors()
    with socket.socket(), socket.socket():
        assert descriptors().used == before.used + 2
    assert before.limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize("days", [-3, 5, 13, 40])
async def test_a_certificate_is_warned_of_from_two_weeks_before_it_expires(
    days: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    end = _BEGAN + timedelta(days=days)
    issued = trustme.CA().issue_cert("a", not_before=_BEGAN - timedelta(days=99), not_after=end)
    file = tmp_path / "server.pem"
    file.write_bytes(issued.cert_chain_pems[0].bytes())
    clock = TwoClocks()
    watch = MachineWatch(clock, [file], plenty)
    for _ in range(10):
        watch.look()
        clock.move(60.0)
    assert watch.expires == {file: end.timestamp()}
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    if days < 0:
        expired = f"the certificate {file} has expired: clients refuse it; replace it now"
        assert said == [expired]
        with pytest.raises(Unavailable) as unready:
            await watch.check_certificates()
        assert str(unready.value) == expired
        return
    assert await watch.check_certificates() == "none has expired"
    if days < 14:
        assert said == [f"the certificate {file} expires in {days}.0 days: replace it"]
    else:
        assert said == []


@pytest.mark.parametrize("year", [2049, 2051])
def test_both_forms_of_an_expiry_are_read(year: int) -> None:
    end = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
    issued = trustme.CA().issue_cert("a", not_after=end)
    assert expiry_of(issued.cert_chain_pems[0].bytes()) == end.timestamp()


def test_what_is_no_certificate_is_refused() -> None:
    text = b"-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----"
    for pem in (b"", b"hello", text % b"AAAA", text % b"MAMCAQE=", text % b"///"):
        with pytest.raises(Refused):
            expiry_of(pem)


async def test_a_broker_whose_disk_is_full_says_so_until_there_is_space(tmp_path: Path) -> None:
    """A real disk, of 24 MiB, which only root can make."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small))
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk takes root")
    process = SulinaProcess(small / "data")
    try:
        with process:
            async with sulina.connect(process.url) as client, http_client(process.http_url) as http:
                producer = client.producer("/default/t")
                await producer.open()
                sent = [await producer.send(os.urandom(1 << 20)) for _ in range(30)]
                async with asyncio.timeout(60):
                    while (await http("GET", "/health/ready")).status == 200:
                        await asyncio.sleep(0.1)
                    while "\nsulina_journal_full 1\n" not in (await http("GET", "/metrics")).text:
                        await asyncio.sleep(0.1)
                parts = (await http("GET", "/health/ready")).json["parts"]
                assert "No space left on device" in parts["storage"]["detail"]
                assert "the journal refuses appends until there is space" in process.log()
                subprocess.run(("mount", "-o", "remount,size=256m", str(small)), check=True)
                for each in sent:
                    await each
                await producer.close()
                assert (await http("GET", "/health/ready")).status == 200
        assert "Traceback" not in process.log()
    finally:
        subprocess.run(("umount", "-l", str(small)), check=True)


async def test_a_broker_short_of_descriptors_says_so_and_keeps_serving(tmp_path: Path) -> None:
    """Connections of strangers end before the broker's own files have no room."""
    process = SulinaProcess(tmp_path / "data", prefix=("sh", "-c", 'ulimit -n 256; exec "$@"', "-"))
    with process:
        async with http_client(process.http_url) as http:
            assert (await http("GET", "/health/ready")).status == 200
            opened = [await asyncio.open_connection("127.0.0.1", process.port) for _ in range(300)]
            async with asyncio.timeout(60):
                while (await http("GET", "/health/ready")).status == 200:
                    await asyncio.sleep(0.1)
            parts = (await http("GET", "/health/ready")).json["parts"]
            assert "of 256 file descriptors are in use" in parts["descriptors"]["detail"]
            metrics = (await http("GET", "/metrics")).text
            assert "\nsulina_descriptors_scarce 1\n" in metrics
            assert "\nprocess_max_fds 256\n" in metrics
            for _, writer in opened:
                writer.close()
            async with asyncio.timeout(60):
                while (await http("GET", "/health/ready")).status != 200:
                    await asyncio.sleep(0.1)
    assert "Traceback" not in process.log()
