"""Opens an object store by its URL.

* ``s3://bucket/prefix`` with ``?endpoint=http://...`` for what is not AWS, and ``region=...``;
  credentials, and what the URL does not say, as all AWS tools find them (``AWS_...`` variables,
  profiles, the role of the machine or container)
* ``gs://bucket/prefix`` with ``?endpoint=http://...`` for an emulator; credentials as all tools
  of Google Cloud find them
* ``az://account/container/prefix`` with ``?endpoint=http://...`` for an emulator; credentials as
  Azure's tools find them (``AZURE_STORAGE_KEY``, ``AZURE_STORAGE_SAS_TOKEN``, or an identity)
* ``redis://user:password@host:port/0/prefix``, or ``rediss://`` with TLS
* ``tikv://pd1:2379,pd2:2379/prefix``, with ``?ca=/path/ca.pem`` and, for mutual TLS, ``cert=...``
  and ``key=...``; ``tls=on`` trusts the system's authorities
* ``file:///folder``
* ``memory://name``: in this process, the same objects for the same name
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from sulina.errors import Refused
from sulina.objects.folder import FolderStore
from sulina.objects.memory import MemoryStore
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.seam import Clock, Randomness
from sulina.runtime.tls_files import TlsFiles

_named: Final[dict[str, MemoryStore]] = {}


@asynccontextmanager
async def open_store(
    url: str, clock: Clock, random: Randomness, *, settings: ObjectSettings | None = None
) -> AsyncIterator[ObjectStore]:
    """The store of a URL, closed at the end.

    Opening does not contact the store: a missing store or missing rights show at the first call.
    Raises ``Refused`` if the URL is invalid, or names the package that the store needs.
    """
    store = await _open(url, clock, random, settings or ObjectSettings())
    try:
        yield store
    finally:
        await store.close()


async def _open(
    url: str, clock: Clock, random: Randomness, settings: ObjectSettings
) -> ObjectStore:
    place = urlsplit(url)
    match place.scheme:
        case "s3":
            with _packages("s3://", "lake"):
                from sulina.objects.s3 import S3Place, open_s3
            options = _options(url, "endpoint", "region")
            endpoint = options.get("endpoint") or _from_environment()
            s3 = S3Place(_bucket(url), _prefix(place), endpoint, options.get("region"))
            return await open_s3(s3, clock, random, settings)
        case "gs":
            with _packages("gs://", "gcs"):
                from sulina.objects.gcs import open_gcs
            endpoint = _options(url, "endpoint").get("endpoint") or None
            bucket = _bucket(url)
            return await open_gcs(bucket, _prefix(place), endpoint, clock, random, settings)
        case "az":
            with _packages("az://", "azure"):
                from sulina.objects.azure import open_azure
            endpoint = _options(url, "endpoint").get("endpoint") or None
            container, _, prefix = _prefix(place).partition("/")
            if not place.netloc or not container:
                raise Refused(
                    f"{_shown(url)!r} has no container: use az://account/container/prefix"
                )
            return await open_azure(
                place.netloc, container, prefix, endpoint, clock, random, settings
            )
        case "redis" | "rediss":
            with _packages(f"{place.scheme}://", "redis"):
                from sulina.objects.redis import open_redis
            _options(url)
            database, _, prefix = _prefix(place).partition("/")
            if not database.isdigit():
                raise Refused(
                    f"{_shown(url)!r} has no database number: use redis://host:6379/0/prefix"
                )
            server = urlunsplit((place.scheme, place.netloc, f"/{database}", "", ""))
            return open_redis(server, prefix, clock, random, settings)
        case "tikv":
            with _packages("tikv://", "tikv"):
                from sulina.objects.tikv.store import open_tikv
            return open_tikv(_addresses(url), _prefix(place), _tls(url), clock, random, settings)
        case "file":
            _options(url)
            if place.netloc or not place.path.startswith("/"):
                raise Refused(
                    f"{_shown(url)!r} is not a folder URL: use file:///path/of/the/folder"
                )
            return FolderStore(Path(unquote(place.path)), random)
        case "memory":
            _options(url)
            return _named.setdefault(place.netloc + place.path, MemoryStore(clock.wall_us))
        case _:
            raise Refused(
                f"{_shown(url)!r} is not the URL of an object store: it must start with s3://, "
                "gs://, az://, redis://, tikv://, file:/// or memory://"
            )


def _shown(url: str) -> str:
    """A URL as errors name it: without its password."""
    place = urlsplit(url)
    user, at, server = place.netloc.rpartition("@")
    if ":" in user:
        user = user.partition(":")[0] + ":***"
    return urlunsplit(place._replace(netloc=user + at + server))


def _bucket(url: str) -> str:
    bucket = urlsplit(url).netloc
    if not bucket:
        raise Refused(f"{_shown(url)!r} has no bucket: use {urlsplit(url).scheme}://bucket/prefix")
    return bucket


def _addresses(url: str) -> list[str]:
    """The members of PD. Raises ``Refused`` unless each has a port."""
    found = [each for each in urlsplit(url).netloc.split(",") if each]
    if not found or not all(each.rpartition(":")[2].isdigit() for each in found):
        raise Refused(
            f"{_shown(url)!r} names no members of PD: use tikv://host:2379,host:2379/prefix"
        )
    return found


def _tls(url: str) -> TlsFiles | None:
    """The TLS files of a URL; None without TLS."""
    options = _options(url, "ca", "cert", "key", "tls")
    if options.get("tls", "on") != "on":
        raise Refused(
            f"tls of {_shown(url)!r} can only be on; leave it out for connections without TLS"
        )
    if not options:
        return None
    if "key" in options and "cert" not in options:
        raise Refused(f"{_shown(url)!r} has a key without a certificate: add cert=")
    paths = {name: Path(options[name]) for name in ("ca", "cert", "key") if name in options}
    return TlsFiles(paths.get("ca"), paths.get("cert"), paths.get("key"))


def _prefix(place: SplitResult) -> str:
    return unquote(place.path).strip("/")


def _options(url: str, *known: str) -> dict[str, str]:
    """The options after the question mark. Raises ``Refused`` for unknown ones."""
    found = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    for name in found:
        if name not in known:
            takes = f"accepts {' and '.join(known)}" if known else "takes no options"
            raise Refused(f"{name} is not an option of {_shown(url)!r}, which {takes}")
    return found


def _from_environment() -> str | None:
    """The endpoint from the environment variables of the AWS tools."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return next((value for name in names if (value := os.environ.get(name))), None)


@contextmanager
def _packages(scheme: str, extra: str) -> Iterator[None]:
    """Raise ``Refused`` with what to install if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Refused(
            f"{scheme} needs the package {error.name}: pip install 'sulina[{extra}]'"
        ) from None
