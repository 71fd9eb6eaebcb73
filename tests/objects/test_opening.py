"""URLs of object stores, and what people are told when a place is wrong."""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from localstack.emulators.azurite import KEY
from localstack.emulators.credentials import Credentials
from localstack.emulators.seaweedfs import READER
from localstack.emulators.server import EmulatorServer, free_ports
from sulina.errors import Refused, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of
from tests.objects.conftest import BUCKET, azure_url

_CALLS: tuple[Callable[[ObjectStore], Awaitable[object]], ...] = (
    lambda store: store.put("a", chunks_of(b"x")),
    lambda store: store.info("a"),
    lambda store: store.list(""),
    lambda store: store.get("a", 0, 1),
)


def opened(
    url: str, settings: ObjectSettings | None = None
) -> AbstractAsyncContextManager[ObjectStore]:
    return open_store(url, RealClock(), random.Random(1), settings=settings)


def sign_as(user: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in user.variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "ftp://host/x",
            r"is not the URL of an object store: it must start with s3://, gs://",
        ),
        ("/some/folder", r"is not the URL of an object store"),
        ("s3:///prefix", r"has no bucket: use s3://bucket/prefix"),
        ("gs:///prefix", r"has no bucket: use gs://bucket/prefix"),
        (
            "s3://b/p?colour=red",
            r"colour is not an option of .*, which accepts endpoint and",
        ),
        ("file://host/x", r"is not a folder URL: use file:///path/of/the/folder"),
        ("file:///x?a=b", r"a is not an option of .*, which takes no options"),
        ("tikv://host/prefix", r"names no members of PD: use tikv://host:2379,host:2379/prefix"),
        ("tikv://a:2379,b/prefix", r"names no members of PD"),
        ("tikv://a:2379/p?key=/k.pem", r"has a key without a certificate: add cert="),
        ("tikv://a:2379/p?ca=/no/ca.pem", r"/no/ca.pem cannot be read .*: put a PEM file there"),
        ("tikv://a:2379/p?tls=off", r"tls of .* can only be on"),
        ("redis://u:secret@host:6379/p", r"^'redis://u:\*\*\*@host:6379/p' has no database number"),
        ("redis://host:port/0/p", r"the address of Redis is invalid .*: use redis://user:password"),
        (
            "az://account/box/p?endpoint=nonsense",
            r"box cannot be opened .*: an endpoint in",
        ),
        (
            "s3://b/p?endpoint=nonsense",
            r"the bucket b is invalid: Invalid endpoint: nonsense",
        ),
    ],
)
async def test_a_url_that_is_none_is_refused_with_a_sentence(
    url: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with pytest.raises(Refused, match=sentence):
        async with opened(url):
            pytest.fail("it was opened")


@pytest.mark.parametrize(
    ("url", "module", "sentence"),
    [
        ("s3://b/p", "aioboto3", r"s3:// needs the package aioboto3: pip install 'sulina\[lake\]'"),
        ("gs://b/p", "google.auth", r"pip install 'sulina\[gcs\]'"),
        ("redis://h/0/p", "redis.asyncio", r"pip install 'sulina\[redis\]'"),
    ],
)
async def test_a_missing_package_is_named(
    url: str, module: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("sulina.objects.")]:
        if name.partition("objects.")[2].partition("_")[0] in ("s3", "gcs", "redis"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(Refused, match=sentence):
        async with opened(url):
            pytest.fail("it was opened")


async def test_the_endpoint_may_come_from_the_environment(
    s3_place: tuple[EmulatorServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, prefix = s3_place
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)

    async with opened(f"s3://{BUCKET}/{prefix}") as store:
        await store.put("a", chunks_of(b"hello"))

    async with opened(f"s3://{BUCKET}/?endpoint={server.url}&region=us-east-1") as whole:
        assert await whole.get(f"{prefix}/a", 0, 5) == b"hello"


async def test_a_prefix_hides_what_is_beside_it(s3_place: tuple[EmulatorServer, str]) -> None:
    server, prefix = s3_place
    async with (
        opened(f"s3://{BUCKET}/{prefix}/one?endpoint={server.url}") as one,
        opened(f"s3://{BUCKET}/{prefix}/one-more/?endpoint={server.url}") as other,
    ):
        await one.put("a", chunks_of(b"1"))
        await other.put("b", chunks_of(b"2"))

        assert [each.key for each in await one.list("")] == ["a"]
        assert [each.key for each in await other.list("")] == ["b"]


async def test_a_missing_bucket_is_told_with_the_remedy(
    moto: EmulatorServer, gcs: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_as(moto.credentials, monkeypatch)  # SeaweedFS would make it
    for url in (
        f"s3://nowhere/p?endpoint={moto.url}",
        f"gs://nowhere/p?endpoint={gcs.url}",
    ):
        async with opened(url) as store:
            for call in _CALLS:
                with pytest.raises(Refused, match="the bucket nowhere does not exist: create it"):
                    await call(store)


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        (Credentials("nobody", "wrong"), r"rejects these credentials .Inv.*: set AWS_ACCESS_KEY"),
        (Credentials("sulina", "wrong"), "rejects these credentials .SignatureDoesNotMatch."),
        (READER, "these credentials lack permissions for a in the bucket contract: allow s3:Get"),
    ],
)
async def test_wrong_credentials_are_told_with_the_remedy(
    s3_place: tuple[EmulatorServer, str],
    monkeypatch: pytest.MonkeyPatch,
    user: Credentials,
    sentence: str,
) -> None:
    server, prefix = s3_place
    sign_as(user, monkeypatch)
    async with opened(f"s3://{BUCKET}/{prefix}?endpoint={server.url}") as store:
        with pytest.raises(Refused, match=sentence):
            await store.put("a", chunks_of(b"x"))


async def test_who_may_only_read_reads(
    s3_place: tuple[EmulatorServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, prefix = s3_place
    url = f"s3://{BUCKET}/{prefix}?endpoint={server.url}"
    async with opened(url) as store:
        await store.put("a", chunks_of(b"hello"))
    sign_as(READER, monkeypatch)
    async with opened(url) as store:
        assert await store.tail("a", 2) == (b"lo", 5)
        assert [each.key for each in await store.list("")] == ["a"]


async def test_no_credentials_at_all_are_told_with_the_remedy(
    s3_place: tuple[EmulatorServer, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    async with opened(f"s3://{BUCKET}/p?endpoint={s3_place[0].url}") as store:
        with pytest.raises(Refused, match=r"are missing or incomplete: set AWS_ACCESS_KEY"):
            await store.put("a", chunks_of(b"x"))


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "redis"])
async def test_a_server_that_is_not_there_is_unavailable(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_as(Credentials(), monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    port = free_ports(1)[0]
    url = f"{scheme}://b/p/q?endpoint=http://127.0.0.1:{port}"
    if scheme == "redis":
        url = f"redis://127.0.0.1:{port}/0/p"
    async with opened(url, ObjectSettings(attempts=2)) as store:
        with pytest.raises(Unavailable, match="failed after 2 attempts: the connection fail"):
            await store.put("a", chunks_of(b"x"))


async def test_an_endpoint_that_is_none_is_refused() -> None:
    async with opened("gs://b/p?endpoint=nonsense") as store:
        with pytest.raises(Refused, match="'nonsense' is not an endpoint: use"):
            await store.list("")


async def test_wrong_keys_and_containers_of_azure_are_told_with_the_remedy(
    azurite: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = azure_url(azurite, monkeypatch, "p").replace(BUCKET, "nowhere")
    async with opened(url) as store:
        for call in _CALLS:
            with pytest.raises(Refused, match="the container nowhere does not exist: create it"):
                await call(store)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY[::-1].replace("=", "") + "==")
    async with opened(url) as store:
        with pytest.raises(Refused, match=r"credentials are wrong, or lack .*AZURE_STORAGE_KEY"):
            await store.put("a", chunks_of(b"x"))


async def test_a_server_that_is_none_of_tikv_s_is_told_at_once(redis: EmulatorServer) -> None:
    async with opened(f"tikv://127.0.0.1:{redis.port}/p") as store:
        with pytest.raises(Refused, match="is not a server of TiKV or PD: correct the addresses"):
            await store.info("a")


async def test_a_folder_that_can_t_be_written_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    async with opened(f"file://{tmp_path}/file") as store:
        with pytest.raises(Refused, match="a/b cannot be a file in"):
            await store.put("a/b", chunks_of(b"x"))


async def test_in_a_folder_no_name_goes_on_beneath_another(tmp_path: Path) -> None:
    async with opened(f"file://{tmp_path}/objects") as store:
        await store.put("a/b", chunks_of(b"x"))
        for key in ("a", "a/b/c"):
            with pytest.raises(Refused, match="another object's key is a parent of it"):
                await store.put(key, chunks_of(b"x"))
        with pytest.raises(Refused, match="longer than the maximum length of a file name"):
            await store.put("n" * 300, chunks_of(b"x"))
        assert [each.key for each in await store.list("")] == ["a/b"]
        assert await store.info("a") is None


@pytest.mark.parametrize("wrong", [{"part_bytes": 0}, {"attempts": 0}, {"deadline_seconds": 0}])
def test_settings_that_can_t_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Refused, match="must be"):
        ObjectSettings(**wrong)
