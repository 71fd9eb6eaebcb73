"""gcp-storage-emulator with the parts of the API that it lacks and Sulina uses:

* ``ifGenerationMatch`` for uploads and deletions; the emulator handles one request at a time, so
  checking before acting is atomic;
* paged listings (``maxResults``, ``pageToken``) and their start (``startOffset``);
* repeated bytes of an upload are skipped;
* no ``Range`` in the status of an upload that has no bytes yet;
* ranges from the end (``bytes=-N``), ranges beyond the end, and ranges of empty objects.

It runs in the emulator's own environment: ``python gcs_server.py HOST PORT``.
"""

from __future__ import annotations

import json
import re
import sys
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import create_server

_insert, _partial = objects.insert, objects.upload_partial
_list, _download, _delete = objects.ls, objects.download, objects.delete
_conditions: dict[str, str] = {}
"""The required generations of uploads in progress, by upload id."""


def _first(request: Any, name: str) -> str | None:
    found = request.query.get(name)
    return found[0] if found else None


def _generation(storage: Any, bucket: str, name: str) -> str:
    try:
        return str(storage.get_file_obj(bucket, name)["generation"])
    except NotFound:
        return "0"


def _meets(response: Any, storage: Any, bucket: str, name: str, wanted: str | None) -> bool:
    """Whether the object has the required generation; if not, sets the response's error."""
    if wanted is None or _generation(storage, bucket, name) == wanted:
        return True
    _fail(response, HTTPStatus.PRECONDITION_FAILED, "conditionNotMet")
    return False


def _fail(response: Any, status: HTTPStatus, reason: str) -> None:
    response.status = status
    error = {"code": status.value, "message": reason, "errors": [{"reason": reason}]}
    response.json({"error": error})


def insert(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """An upload in one request, or the start of one in several."""
    bucket, wanted = request.params["bucket_name"], _first(request, "ifGenerationMatch")
    name = _first(request, "name")
    if name is None and isinstance(request.data, dict):
        meta = request.data.get("meta", request.data)
        name = meta.get("name")
    if not _meets(response, storage, bucket, str(name), wanted):
        return
    _insert(request, response, storage, *rest, **more)
    begun = response.status is HTTPStatus.OK and _first(request, "uploadType") == "resumable"
    if wanted is not None and begun:
        [upload] = parse_qs(urlsplit(response["Location"]).query)["upload_id"]
        _conditions[upload] = wanted


def upload_partial(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """A further piece of an upload. The condition is checked again with the last one."""
    upload = str(_first(request, "upload_id"))
    wanted = _conditions.get(upload)
    if wanted is not None and not (request.get_header("Content-Range") or "").endswith("/*"):
        try:
            found = storage.get_resumable_file_obj(upload)
        except NotFound:
            response.status = HTTPStatus.NOT_FOUND
            return
        if not _meets(response, storage, found["bucket"], found["name"], wanted):
            return
    if not _skip_known(request, response, storage, upload):
        _partial(request, response, storage, *rest, **more)


def _skip_known(request: Any, response: Any, storage: Any, upload: str) -> bool:
    """Drop repeated bytes; returns whether nothing is left and the response is complete."""
    sent = re.fullmatch(r"bytes (\d+)-(\d+)/(.+)", request.get_header("Content-Range") or "")
    try:
        there = storage.get_resumable_byte_count(upload)
    except NotFound:
        return False
    if sent is None or int(sent.group(1)) >= there:
        return False
    start, end, total = int(sent.group(1)), int(sent.group(2)), sent.group(3)
    request._data = (request.data or b"")[there - start :]
    if not request._data and total == "*":
        say_incomplete(response, storage, upload)
        return True
    covers = f"bytes {there}-{end}/{total}" if request._data else f"bytes */{total}"
    request._request_handler.headers.replace_header("Content-Range", covers)
    return False


def cancel_upload(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """Cancel an upload in several pieces."""
    upload = str(_first(request, "upload_id"))
    _conditions.pop(upload, None)
    try:
        storage.delete_resumable_file_obj(upload)
    except (NotFound, KeyError):
        response.status = HTTPStatus.NOT_FOUND
        return
    response.status = SimpleNamespace(value=499, phrase="Client Closed Request")


def say_incomplete(response: Any, storage: Any, upload: str, fallback_end: int = 0) -> None:
    """Set the response to the status of an upload; without bytes it has no range."""
    response.status = objects.GoogleHTTPStatus.RESUME_INCOMPLETE
    received = storage.get_resumable_byte_count(upload)
    if received:
        response["Range"] = f"bytes=0-{received - 1}"


def ls(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """A page of a listing."""
    _list(request, response, storage, *rest, **more)
    if response.status is not HTTPStatus.OK:
        return
    found = json.loads(response._content)
    start = _first(request, "startOffset") or ""
    after = _first(request, "pageToken") or ""
    limit = min(int(_first(request, "maxResults") or 1000), 1000)
    items = sorted(found["items"], key=lambda item: item["name"].encode())
    items = [
        item
        for item in items
        if item["name"].encode() >= start.encode() and item["name"].encode() > after.encode()
    ]
    if len(items) > limit:
        found["nextPageToken"] = items[limit - 1]["name"]
    found["items"] = items[:limit]
    response.json(found)


def download(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """An object's bytes, or a range of them."""
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.get_header("range", "") or "")
    if asked is not None:
        try:
            bucket, name = request.params["bucket_name"], request.params["object_id"]
            size = int(storage.get_file_obj(bucket, name)["size"])
        except NotFound:
            response.status = HTTPStatus.NOT_FOUND
            return
        first, last = asked.groups()
        start = int(first) if first else max(size - int(last), 0)
        if start >= size:
            _fail(response, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "requestedRange")
            response["Content-Range"] = f"bytes */{size}"
            return
        if not first:
            headers = request._request_handler.headers
            headers.replace_header("range", f"bytes={start}-")
    _download(request, response, storage, *rest, **more)


def delete(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """Delete an object if it has the required generation."""
    bucket, name = request.params["bucket_name"], request.params["object_id"]
    if _meets(response, storage, bucket, name, _first(request, "ifGenerationMatch")):
        _delete(request, response, storage, *rest, **more)


def _replace_handlers() -> None:
    """Replace the functions in the emulator's table of handlers."""
    from gcp_storage_emulator import server

    ours = {
        _insert: insert,
        _partial: upload_partial,
        _list: ls,
        _download: download,
        _delete: delete,
    }
    for _, methods in server.HANDLERS:
        for method, handler in methods.items():
            methods[method] = ours.get(handler, handler)
        if methods.get(server.PUT) is upload_partial:
            methods[server.DELETE] = cancel_upload
    # Other handlers call these by their names in the module.
    objects.download, objects.upload_partial = download, upload_partial
    objects.insert = insert
    objects._resumable_incomplete = say_incomplete


if __name__ == "__main__":
    _replace_handlers()
    create_server(sys.argv[1], int(sys.argv[2]), in_memory=True).run()
