"""The parts of ``EtcdStore`` that need no server: settings, positions, lines, failures, pages."""

from __future__ import annotations

import errno
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import NotFound, Refused, TooLarge, Unavailable
from sulina.metadata.etcd import EtcdSettings, failures
from sulina.metadata.etcd.failures import MemberFailure, RevisionAhead, RevisionGone
from sulina.metadata.etcd.gateway import LONGEST_PAUSE, MemberRetries
from sulina.metadata.etcd.listing import LARGEST_PAGE, PAGE_BYTES, next_page
from sulina.metadata.etcd.server import EtcdServers, MemberSpec, find_etcd
from sulina.metadata.etcd.settings import EtcdEndpoint
from sulina.metadata.etcd.stream import LineSplitter
from sulina.metadata.etcd.watch_progress import WatchProgress
from sulina.metadata.store import Event, EventKind
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles
from tests.support.etcd import etcd_servers, free_ports

HERE = EtcdEndpoint("127.0.0.1", 2379)


@pytest.mark.parametrize(
    ("url", "endpoints", "root"),
    [
        ("http://h1:2379,h2:2380", ["h1:2379", "h2:2380"], ""),
        ("h1", ["h1:2379"], ""),
        ("http://h1,http://h2:1/sulina/prod", ["h1:2379", "h2:1"], "/sulina/prod"),
        ("http://h1:2379//", ["h1:2379"], ""),
        (" http://h1 , h2 ", ["h1:2379", "h2:2379"], ""),
        ("http://[::1]:5,[::2]", ["[::1]:5", "[::2]:2379"], ""),
        ("http://h1:0", ["h1:0"], ""),
    ],
)
def test_a_url_names_endpoints_and_root(url: str, endpoints: list[str], root: str) -> None:
    settings = EtcdSettings.parse(url)
    assert [str(endpoint) for endpoint in settings.endpoints] == endpoints
    assert settings.root == root
    assert settings.tls is None


def test_a_url_may_have_user_and_password_which_are_never_shown() -> None:
    settings = EtcdSettings.parse("https://me:p%40ss@h1,h2", idle_seconds=3.0)
    assert (settings.user, settings.password, settings.idle_seconds) == ("me", "p@ss", 3.0)
    assert settings.tls == TlsFiles()
    assert "p@ss" not in repr(settings)
    with pytest.raises(Refused) as caught:
        EtcdSettings.parse("http://me:hidden@h1:x,h2")
    assert "hidden" not in str(caught.value)
    assert "http://h1:x,h2" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "http://", "http://h1,,h2", "ftp://h1", "http://h1,https://h2", "http://h1:x", "h1:99999",
     "http://h1/root,h2", "http://h1?a=b", "http://[h1"],
)  # fmt: skip
def test_what_is_no_list_of_endpoints_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        EtcdSettings.parse(url)


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(Refused, match="endpoint"):
        EtcdSettings(())
    with pytest.raises(Refused, match="root"):
        EtcdSettings((HERE,), root="sulina")
    with pytest.raises(Refused, match="root"):
        EtcdSettings((HERE,), root="/sulina/")
    with pytest.raises(Refused, match="needs a user"):
        EtcdSettings((HERE,), password="x")
    with pytest.raises(Refused, match="request_seconds"):
        EtcdSettings((HERE,), request_seconds=0)
    with pytest.raises(Refused, match="max_in_flight"):
        EtcdSettings((HERE,), max_in_flight=0)
    with pytest.raises(Refused, match="https"):
        EtcdSettings.parse("http://h1", tls=TlsFiles(Path("ca.pem")))


@given(st.lists(st.sets(st.sampled_from("abcd"), max_size=3), max_size=12), st.data())
def test_however_a_watch_breaks_each_change_is_told_once_and_in_order(
    history: list[set[str]], data: st.DataObject
) -> None:
    events = [
        Event(EventKind.PUT, key, b"", revision)
        for revision, keys in enumerate(history, start=2)
        for key in sorted(keys)
    ]
    start = data.draw(st.integers(1, len(history) + 2))
    position = WatchProgress(start)
    told: list[Event] = []
    for _ in range(data.draw(st.integers(0, 6))):  # connections that break after some fragments
        rest = [event for event in events if event.mod_revision >= position.next]
        told += position.admit([], more=False)
        told += position.admit(rest[: data.draw(st.integers(0, len(rest)))], more=True)
    rest = [event for event in events if event.mod_revision >= position.next]
    told += position.admit(rest, more=False)
    told += position.admit(events, more=False)  # a member that tells all of it again
    assert told == [event for event in events if event.mod_revision >= start]


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_are_whole_however_the_bytes_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader, found = LineSplitter(), list[bytes]()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        found += reader.add(stream[:cut])
        stream = stream[cut:]
    assert found == [line for line in lines if line.strip()]


def test_a_line_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sulina.metadata.etcd.stream.MAX_LINE_BYTES", 10)
    reader = LineSplitter()
    reader.add(b"123456")
    with pytest.raises(ValueError, match="a line of more than 10 bytes"):
        reader.add(b"123456")


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (5, "etcdserver: requested lease not found", NotFound),
        (11, "etcdserver: mvcc: required revision has been compacted", RevisionGone),
        (11, "etcdserver: mvcc: required revision is a future revision", RevisionAhead),
        (3, "etcdserver: request is too large", TooLarge),
        (8, "grpc: received message larger than max (2 vs. 1)", TooLarge),
        (7, "etcdserver: permission denied", Refused),
        (3, "etcdserver: authentication failed, invalid user ID or password", Refused),
        (12, "unimplemented", Refused),
    ],
)
def test_what_etcd_refuses_is_told_as_it_is(code: int, message: str, kind: type) -> None:
    assert type(failures.of_code(code, message, HERE)) is kind


@pytest.mark.parametrize(
    ("code", "message", "may_have_happened"),
    [
        (14, "etcdserver: no leader", False),
        (8, "etcdserver: too many requests", False),
        (16, "etcdserver: invalid auth token", False),
        (14, "etcdserver: leader changed", True),
        (14, "etcdserver: request timed out", True),
        (14, "transport is closing", True),
        (2, "raft: stopped", True),
        (8, "etcdserver: mvcc: database space exceeded", True),
    ],
)
def test_a_failure_says_whether_something_may_have_happened(
    code: int, message: str, may_have_happened: bool
) -> None:
    failure = failures.of_code(code, message, HERE)
    assert isinstance(failure, MemberFailure)
    assert failure.may_have_happened is may_have_happened


def test_answers_in_all_forms_are_understood() -> None:
    for body in (
        b'{"error":"etcdserver: no leader","code":14}',
        b'{"message":"etcdserver: no leader","code":14,"details":[]}',
        b'{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}',
    ):
        failure = failures.of_status(503, body, HERE)
        assert isinstance(failure, MemberFailure)
        assert not failure.may_have_happened
    proxy = failures.of_status(502, b"<html>Bad gateway</html>", HERE)
    assert isinstance(proxy, MemberFailure)
    assert proxy.may_have_happened
    stranger = failures.of_status(404, b"not found", HERE)
    assert isinstance(stranger, MemberFailure)
    assert isinstance(stranger.verdict, Refused)


def test_only_a_failed_connection_proves_that_nothing_was_sent() -> None:
    key = ConnectionKey("h", 1, False, True, None, None, None)
    refused = aiohttp.ClientConnectorError(key, OSError(errno.ECONNREFUSED, "refused"))
    assert not failures.of_transport(refused, HERE).may_have_happened
    assert not failures.of_transport(aiohttp.ConnectionTimeoutError(), HERE).may_have_happened
    for error in (
        TimeoutError(),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientOSError(errno.ECONNRESET, "reset"),
        aiohttp.ClientPayloadError(),
    ):
        assert failures.of_transport(error, HERE).may_have_happened


def test_other_members_are_tried_at_once_and_pauses_grow_to_a_bound() -> None:
    tries = MemberRetries(3)
    failure = MemberFailure("it failed", may_have_happened=False)
    pauses = [tries.failed(failure) for _ in range(60)]
    assert pauses[:6] == [0, 0, 0.05, 0, 0, 0.1]
    assert max(pauses) == LONGEST_PAUSE
    tries.worked()
    assert tries.failed(failure) == 0


def test_a_verdict_is_given_once_every_member_failed_in_that_way() -> None:
    tries = MemberRetries(2)
    hopeless = MemberFailure("refused", may_have_happened=False, verdict=Refused("for good"))
    tries.failed(hopeless)
    tries.failed(MemberFailure("down", may_have_happened=False))
    tries.failed(hopeless)
    tries.failed(hopeless)
    with pytest.raises(Refused, match="for good"):
        tries.failed(hopeless)


@given(st.integers(1, LARGEST_PAGE), st.integers(0, 1 << 32))
def test_pages_shrink_with_large_values_and_never_vanish(page: int, size: int) -> None:
    after = next_page(page, size)
    assert 1 <= after <= LARGEST_PAGE
    assert after <= page or size <= PAGE_BYTES


def test_a_machine_without_etcd_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"pip install sulina\[etcd-server\]"):
        find_etcd(str(tmp_path))
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_etcd(str(tmp_path)) == program


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    servers = etcd_servers(tmp_path / "etcd", flags=["--no-such-flag"])
    with pytest.raises(Unavailable, match="no-such-flag"):
        await servers.start()


async def test_another_server_at_its_port_is_never_taken_for_it(
    shared_etcd: EtcdServers, tmp_path: Path
) -> None:
    taken = shared_etcd.settings.endpoints[0].port
    [peer] = free_ports(1)
    servers = EtcdServers(tmp_path / "etcd", [MemberSpec("m0", taken, peer)], RealClock())
    with pytest.raises(Refused, match=f"port {taken} of 127.0.0.1 is not available"):
        await servers.start()
    assert not servers.members["m0"].running


async def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    ports = free_ports(4)
    specs = [MemberSpec("a", ports[0], ports[1]), MemberSpec("b", ports[2], ports[3])]
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    servers = EtcdServers(tmp_path / "data", specs, RealClock(), program=program)
    with pytest.raises(Unavailable, match="not ready in time"):
        await servers.start(seconds=0.3)
    await servers.stop()
    assert not any(member.running for member in servers.members.values())


async def test_a_server_stops_cleanly_and_keeps_its_data(tmp_path: Path) -> None:
    servers = etcd_servers(tmp_path / "etcd")
    await servers.start()
    pid = servers.members["m0"].pid
    await servers.start()  # it runs already
    assert servers.members["m0"].pid == pid
    await servers.stop()
    assert not servers.members["m0"].running
    assert (tmp_path / "etcd" / "m0" / "member").is_dir()
