"""The console's files: read once, compressed once, served with a checksum that browsers compare."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

PREFIX: Final = "/console/"
INDEX: Final = "index.html"
_MEDIA: Final = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain",
}
_SECURITY: Final = {
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file, as it is and compressed."""

    media: str
    body: bytes
    compressed: bytes
    etag: str

    def answer(self, request: web.Request, policy: str) -> web.Response:
        """The file, or 304 if the browser has it. It asks each time, so an upgrade shows at once.

        ``policy`` is the content security policy.
        """
        headers = {
            "ETag": self.etag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": policy,
            **_SECURITY,
        }
        if self.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        body = self.body
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = self.compressed, "gzip"
        return web.Response(body=body, content_type=self.media, charset="utf-8", headers=headers)


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files, by their paths below ``PREFIX``."""
    folder = resources.files("broker_containers.doors.http").joinpath("console")
    return dict(_read(folder, ""))


def _read(folder: Traversable, path: str) -> list[tuple[str, ConsoleFile]]:
    found: list[tuple[str, ConsoleFile]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{path}{each.name}/")
        elif (media := _MEDIA.get(each.name.rpartition(".")[2])) is not None:
            body = each.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found.append(
                (path + each.name, ConsoleFile(media, body, gzip.compress(body, mtime=0), etag))
            )
    return found


def content_policy(*connects: str) -> str:
    """Only what the broker itself serves; ``connects`` are other origins that may be called."""
    called = " ".join(("'self'", *connects))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src {called}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
