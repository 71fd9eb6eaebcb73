"""Objects in Azure Blob Storage, as block blobs, through its library.

A put sends ``If-None-Match: *``, so that only one of several concurrent writers succeeds, and a
unique upload id in the blob's metadata, which shows whether this put created an existing blob.
Large objects are staged in blocks, which nobody sees, and committed in one request. Blocks of
uploads that were never finished are deleted by the service after a week.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import Any, Final, TypeVar

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobClient, ContainerClient

from sulina.errors import NotFound, Refused
from sulina.objects.azure_errors import translate
from sulina.objects.http_ranges import read_range
from sulina.objects.keeping import Keeping
from sulina.objects.outcomes import RangeError, TakenError, UploadGoneError
from sulina.objects.parts import chained, in_parts, send_all, take
from sulina.objects.retry import Retrier
from sulina.objects.store import ObjectInfo, ObjectSettings, check_key, check_length
from sulina.objects.upload_id import UPLOAD_ID, check_ours, new_upload_id
from sulina.runtime.seam import Clock, Randomness

_T = TypeVar("_T")
_MAX_BLOCKS: Final = 50_000
"""The service's own limit."""
_METADATA: Final = UPLOAD_ID.replace("-", "_")
"""Names of metadata are identifiers there."""
_WHOLE: Final = 1 << 30
"""A range is read by one request, whatever its length."""


class AzureStore:
    """``ObjectStore`` over a container. Use ``open_azure``."""

    def __init__(
        self,
        container: ContainerClient,
        prefix: str,
        retrier: Retrier,
        random: Randomness,
        settings: ObjectSettings,
        resources: AsyncExitStack,
    ) -> None:
        self._container = container
        self._prefix = f"{prefix}/" if prefix else ""
        self._retrier = retrier
        self._random = random
        self._settings = settings
        self._resources = resources

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        upload_id = new_upload_id(self._random)
        try:
            async with aclosing(in_parts(chunks, self._settings.part_bytes)) as parts:
                first = await take(parts, 2)
                if len(first) == 1:
                    size, made = len(first[0]), await self._put_whole(key, first[0], upload_id)
                else:
                    size, made = await self._put_blocks(key, chained(first, parts), upload_id)
        except (TakenError, UploadGoneError):
            found = await self._properties(key)
            metadata = None if found is None else {UPLOAD_ID: found.metadata.get(_METADATA, "")}
            check_ours(key, upload_id, metadata)
            return _info(key, int(found.size), found.etag, found.last_modified)
        return _info(key, size, made["etag"], made["last_modified"])

    async def _put_whole(self, key: str, data: bytes, upload_id: str) -> Any:
        blob = self._blob(key)
        return await self._ask(
            key,
            lambda: blob.upload_blob(
                data, length=len(data), overwrite=False, metadata={_METADATA: upload_id}
            ),
        )

    async def _put_blocks(
        self, key: str, parts: AsyncIterator[bytes], upload_id: str
    ) -> tuple[int, Any]:
        """Stage the parts, several at a time, then commit them; returns their size, too."""
        blob = self._blob(key)
        names = dict[int, str]()

        async def stage(number: int, data: bytes) -> None:
            # All uploads of a blob share its blocks: names must differ, not in length.
            name = names[number] = b64encode(f"{upload_id}-{number:08}".encode()).decode()
            await self._ask(key, lambda: blob.stage_block(name, data, length=len(data)))

        size = await send_all(key, parts, stage, self._settings, _MAX_BLOCKS)
        blocks = [BlobBlock(block_id=names[number]) for number in sorted(names)]
        made = await self._ask(
            key,
            lambda: blob.commit_block_list(
                blocks,
                metadata={_METADATA: upload_id},
                match_condition=MatchConditions.IfMissing,
            ),
        )
        return size, made

    async def get(self, key: str, start: int, end: int) -> bytes:
        return await read_range(self._read, self.info, key, start, end)

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        # The service knows no ranges from the end: two requests.
        check_length(key, length)
        try:
            _, size = await self._read(key, "bytes=0-0")
        except RangeError:
            return b"", 0  # it is empty
        return await self.get(key, max(size - length, 0), size), size

    async def info(self, key: str) -> ObjectInfo | None:
        found = await self._properties(key)
        if found is None:
            return None
        return _info(key, int(found.size), found.etag, found.last_modified)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        marker: str | None = ""
        while marker is not None and len(found) < limit:
            page, marker = await self._page(prefix, marker)
            for blob in page:
                key = blob.name.removeprefix(self._prefix)
                # The service cannot start in the middle: what comes before is skipped here.
                if key > after:
                    found.append(_info(key, int(blob.size), blob.etag, blob.last_modified))
        return found[:limit]

    async def _page(self, prefix: str, marker: str) -> tuple[Sequence[Any], str | None]:
        async def attempt() -> tuple[Sequence[Any], str | None]:
            listing = self._container.list_blobs(
                name_starts_with=self._prefix + prefix, results_per_page=self._settings.page_keys
            )
            pages: Any = listing.by_page(marker or None)
            async for page in pages:
                return [blob async for blob in page], pages.continuation_token or None
            return [], None

        return await self._ask(prefix, attempt)

    async def delete(self, key: str) -> None:
        try:
            await self._ask(key, lambda: self._blob(key).delete_blob())
        except NotFound:
            return

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return 0  # the service deletes them after a week, and does not say how old they are

    async def keeping(self) -> Keeping:
        """See ``KeepsDeleted``. Only the account's managers may ask the service for it."""
        name = self._container.container_name
        return Keeping(
            f"it is not known whether Azure keeps versions, snapshots or deleted blobs of {name}: "
            "look with `az storage account blob-service-properties show`",
            None,
        )

    async def close(self) -> None:
        await self._resources.aclose()

    # ---- requests ----

    def _blob(self, key: str) -> BlobClient:
        return self._container.get_blob_client(self._prefix + key)

    async def _properties(self, key: str) -> Any:
        """The blob's properties, or None if it does not exist."""
        try:
            return await self._ask(key, lambda: self._blob(key).get_blob_properties())
        except NotFound:
            return None

    async def _read(self, key: str, wanted: str) -> tuple[bytes, int]:
        """The bytes of a range, and the size of the object."""
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, length = int(first), int(last) - int(first) + 1

        async def attempt() -> tuple[bytes, int]:
            stream = await self._blob(key).download_blob(start, length)
            _, _, size = str(stream.properties.content_range).rpartition("/")
            return await stream.readall(), int(size)

        return await self._ask(key, attempt)

    async def _ask(self, key: str, request: Callable[[], Awaitable[_T]], attempts: int = 0) -> _T:
        async def attempt() -> _T:
            try:
                return await request()
            except Exception as error:
                raise translate(error, self._container.container_name, key) from None

        what = f"a request for {key!r} in the container {self._container.container_name}"
        return await self._retrier(what, attempt, attempts)


async def open_azure(
    account: str,
    container: str,
    prefix: str,
    endpoint: str | None,
    clock: Clock,
    random: Randomness,
    settings: ObjectSettings,
) -> AzureStore:
    """A store over the container. Sends no request. Raises ``Refused`` for invalid settings."""
    resources = AsyncExitStack()
    # An emulator has the account in the path; the service has it in the name of the host.
    url = f"{endpoint.rstrip('/')}/{account}" if endpoint else _public(account)
    try:
        client = ContainerClient(
            url,
            container,
            credential=await _credential(resources),
            retry_total=0,  # we retry
            connection_timeout=settings.deadline_seconds,
            read_timeout=settings.deadline_seconds,
            max_single_put_size=settings.part_bytes,
            max_single_get_size=_WHOLE,
        )
    except ValueError as error:
        await resources.aclose()
        raise Refused(
            f"the container {container} cannot be opened ({error}): an endpoint in the URL is "
            "http://host:port, and one without TLS needs AZURE_STORAGE_KEY"
        ) from None
    await resources.enter_async_context(client)
    return AzureStore(client, prefix, Retrier(clock, random, settings), random, settings, resources)


def _public(account: str) -> str:
    return f"https://{account}.blob.core.windows.net"


async def _credential(resources: AsyncExitStack) -> Any:
    """As Azure's tools find it: a key, a signature, or the identity of the machine or person."""
    for name in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        if os.environ.get(name):
            return os.environ[name]
    from azure.identity.aio import DefaultAzureCredential

    return await resources.enter_async_context(DefaultAzureCredential())


def _info(key: str, size: int, etag: Any, modified: datetime) -> ObjectInfo:
    # Listings have the tag without quotes.
    return ObjectInfo(key, size, str(etag).strip('"'), round(modified.timestamp() * 1e6))
