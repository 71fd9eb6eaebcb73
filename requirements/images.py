"""Checks that base images are locked by digest, or fills in the digests from the registries.

    python -m requirements.images            # exits with 1 if an image is not locked by its digest
    python -m requirements.images --fill     # needs the network
    python -m requirements.images --fill --mirror http://127.0.0.1:5000   # in place of Docker Hub

``images.lock`` has one line per image: its name with the tag, and the digest. Every Dockerfile
names its base image in ``ARG BASE=...``, with the same digest.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "images.lock"
DOCKERFILES = tuple(
    ROOT / folder / "Dockerfile" for folder in ("broker_containers", "storage_grpc", "localstack")
)
UNRESOLVED = "unresolved"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BASE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
_FROM = re.compile(r"^FROM (?:--\S+ )?(\S+)", re.MULTILINE)
_KINDS = (
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
)
_HUB = "registry-1.docker.io"
_TOKENS = {_HUB: "https://auth.docker.io/token?service=registry.docker.io&scope=repository:{}:pull"}
_SECONDS = 30.0


def read_lock(text: str) -> dict[str, str]:
    """The digest, or ``unresolved``, of each image. Raises ``ValueError``."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            image, digest = line.split()
            if digest != UNRESOLVED and not _DIGEST.fullmatch(digest):
                raise ValueError(f"{digest!r} is not a digest of {image}")
            found[image] = digest
    return found


def problems(lock: Mapping[str, str], dockerfiles: Mapping[str, str]) -> list[str]:
    """Why base images are not locked; ``dockerfiles`` has the text of each file by its name."""
    found = [f"{image} has no digest: run with --fill" for image in lock if not _known(lock, image)]
    for name, text in dockerfiles.items():
        bases = _BASE.findall(text)
        if not bases:
            found.append(f"{name} has no line ARG BASE=image")
        named = (image for image in _FROM.findall(text) if image != "${BASE}")
        found += [f"{name} uses {image}: write FROM ${{BASE}}" for image in named]
        for base in bases:
            image, _, digest = base.partition("@")
            if image not in lock:
                found.append(f"{name} uses {image}, which is not in images.lock")
            elif digest != ("" if not _known(lock, image) else lock[image]):
                found.append(f"{name} has another digest of {image} than images.lock")
    return found


def with_digests(text: str, lock: Mapping[str, str]) -> str:
    """A Dockerfile with the digests of the lock."""

    def swap(line: re.Match[str]) -> str:
        image = line[1].partition("@")[0]
        return f"ARG BASE={image}@{lock[image]}" if _known(lock, image) else line[0]

    return _BASE.sub(swap, text)


def _known(lock: Mapping[str, str], image: str) -> bool:
    return lock.get(image, UNRESOLVED) != UNRESOLVED


def ask_registry(image: str, scheme: str = "https", mirror: str = "") -> str:
    """The digest of an image's manifest list. Raises ``OSError`` and ``ValueError``.

    ``mirror`` is the URL of a registry that is asked for images of Docker Hub; a mirror has the
    same digests.
    """
    name, _, tag = image.rpartition(":")
    host, slash, path = name.partition("/")
    if not slash or ("." not in host and ":" not in host):
        host, path = _HUB, name if slash else f"library/{name}"
        if mirror:
            scheme, _, host = mirror.rstrip("/").partition("://")
    headers = {"Accept": _KINDS}
    if host in _TOKENS:
        with urllib.request.urlopen(_TOKENS[host].format(path), timeout=_SECONDS) as answer:
            headers["Authorization"] = f"Bearer {json.load(answer)['token']}"
    url = f"{scheme}://{host}/v2/{path}/manifests/{tag}"
    request = urllib.request.Request(url, headers=headers, method="HEAD")
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        digest = str(answer.headers["Docker-Content-Digest"])
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{host} gave no digest of {image}, but {digest!r}")
    return digest


def fill(lock: Path, dockerfiles: Iterable[Path], ask: Callable[[str], str]) -> None:
    """Write the digests that ``ask`` gives into the lock and the Dockerfiles."""
    text = lock.read_text()
    found = {image: ask(image) for image in read_lock(text)}
    for image, digest in found.items():
        text = re.sub(rf"^{re.escape(image)} \S+$", f"{image} {digest}", text, flags=re.MULTILINE)
    lock.write_text(text)
    for file in dockerfiles:
        file.write_text(with_digests(file.read_text(), found))


def main(arguments: list[str] | None = None) -> int:
    """Check or fill; returns the exit code of the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fill", action="store_true", help="ask the registries for the digests")
    parser.add_argument("--mirror", default="", help="ask this registry in place of Docker Hub")
    given = parser.parse_args(arguments)
    if given.fill:
        try:
            fill(LOCK, DOCKERFILES, partial(ask_registry, mirror=given.mirror))
        except (OSError, ValueError, KeyError) as error:
            sys.stderr.write(f"images: a registry cannot be asked ({error}): nothing changed\n")
            return 1
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in DOCKERFILES}
    found = problems(read_lock(LOCK.read_text()), texts)
    sys.stdout.write("".join(f"{each}\n" for each in found) or "all base images are locked\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
