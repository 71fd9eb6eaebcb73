"""Checks the JavaScript libraries in this repository against ``console.toml``.

``python -m requirements.console`` compares checksums and needs no network. With ``--fetch`` it
downloads the packages from npm's registry, checks them, and writes the files.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import sys
import tarfile
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = Path(__file__).with_suffix(".toml")
_REGISTRY = "https://registry.npmjs.org"
_SECONDS = 60


def packages() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(LOCK.read_text())["package"]
    return found


def problems() -> list[str]:
    """What differs from the lock: files that were changed, are missing, or are not in it."""
    found, known = [], set()
    for package in packages():
        folder = ROOT / package["folder"]
        for each in package["files"]:
            path = folder / each["name"]
            known.add(path)
            if not path.exists():
                found.append(f"{path.relative_to(ROOT)} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != each["sha256"]:
                found.append(f"{path.relative_to(ROOT)} is not the file of {package['name']}")
    for folder in {ROOT / package["folder"] for package in packages()}:
        found += [
            f"{path.relative_to(ROOT)} is not in {LOCK.relative_to(ROOT)}"
            for path in sorted(folder.iterdir())
            if path not in known
        ]
    return found


def fetch() -> None:
    for package in packages():
        name, version = package["name"], package["version"]
        url = f"{_REGISTRY}/{name}/-/{name}-{version}.tgz"
        with urllib.request.urlopen(url, timeout=_SECONDS) as response:
            archive = response.read()
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
        if integrity != package["integrity"]:
            sys.exit(f"{url} has the checksum {integrity}, not {package['integrity']}")
        folder = ROOT / package["folder"]
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            for each in package["files"]:
                member = files.extractfile(f"package/{each['source']}")
                assert member is not None, each
                content = member.read()
                if "replace" in each:
                    before, after = (text.encode() for text in each["replace"])
                    content = content.replace(before, after)
                (folder / each["name"]).write_bytes(content)
                sys.stdout.write(f"{hashlib.sha256(content).hexdigest()}  {each['name']}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="download the packages again")
    if parser.parse_args().fetch:
        fetch()
    if wrong := problems():
        sys.exit("\n".join(wrong) + "\nRun: python -m requirements.console --fetch")
