"""Checks the locked packages for known vulnerabilities and for licences that are not allowed.

    curl -O https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip
    python -m requirements.audit --database all.zip

Needs no network: ``--database`` is a dump in OSV's format, a zip archive or a folder of JSON files.
Licences are those that the installed packages state; packages that are not installed are listed as
unknown. ``accepted.txt`` has what was looked at and accepted: one line each, with the reason.
``--sbom`` writes a bill of materials of one lock instead.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from requirements.sbom import document

HERE = Path(__file__).parent
ACCEPTED = HERE / "accepted.txt"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_FORBIDDEN = re.compile(r"\bA?GPL|Affero|GNU General Public|SSPL|BUSL|Business Source", re.I)
_LESSER = re.compile(r"\bLGPL|GNU Lesser|GNU Library", re.I)


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """A package in a lock, with the hashes of the files that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> list[Pin]:
    """The packages of a lock file, sorted."""
    starts = list(_PIN.finditer(text))
    ends = [found.start() for found in starts[1:]] + [len(text)]
    return sorted(
        Pin(normal(found[1]), found[2], tuple(_HASH.findall(text, found.start(), end)))
        for found, end in zip(starts, ends, strict=True)
    )


def read_accepted(text: str) -> dict[str, str]:
    """The reason for each accepted vulnerability or package."""
    lines = (line.partition("#")[0].split(maxsplit=1) for line in text.splitlines())
    return {line[0]: line[1] if line[1:] else "" for line in lines if line}


# ---- vulnerabilities ----


def read_database(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a dump in OSV's format."""
    if path.is_dir():
        for file in sorted(path.glob("*.json")):
            yield json.loads(file.read_bytes())
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def affects(affected: Mapping[str, Any], version: str) -> bool:
    """Whether one entry of ``affected`` includes a version. Unreadable versions count as hit."""
    if version in affected.get("versions", ()):
        return True
    try:
        return any(
            _within(each["events"], Version(version))
            for each in affected.get("ranges", ())
            if each["type"] == "ECOSYSTEM"
        )
    except InvalidVersion:
        return True


def _within(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """Events of a range are read in the order of their versions, the last one decides."""
    inside = False
    ordered = sorted(events, key=lambda event: _version(next(iter(event.values()))))
    for event in ordered:
        [(kind, value)] = event.items()
        if kind == "introduced" and version >= _version(value):
            inside = True
        elif (kind == "fixed" and version >= _version(value)) or (
            kind == "last_affected" and version > _version(value)
        ):
            inside = False
    return inside


def _version(text: str) -> Version:
    return Version("0.dev0" if text == "0" else text)


def vulnerabilities(
    pins: Iterable[Pin], database: Iterable[Mapping[str, Any]]
) -> list[tuple[Pin, str, str]]:
    """Each package with the id and summary of what is known about it, sorted."""
    by_name: dict[str, list[Pin]] = {}
    for pin in set(pins):
        by_name.setdefault(pin.name, []).append(pin)
    found = set()
    for entry in database:
        if entry.get("withdrawn"):
            continue
        for affected in entry.get("affected", ()):
            package = affected.get("package", {})
            if package.get("ecosystem") != "PyPI":
                continue
            for pin in by_name.get(normal(package["name"]), ()):
                if affects(affected, pin.version):
                    found.add((pin, str(entry["id"]), str(entry.get("summary", ""))))
    return sorted(found)


# ---- licences ----


def licence_of(name: str) -> str | None:
    """What an installed package states; None if it is not installed, "" if it states nothing."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    stated = [*(about.get_all("License-Expression") or ()), *(about.get_all("License") or ()), ""]
    classes = [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    first = stated[0].strip().partition("\n")[0]
    return first or ", ".join(each.rpartition(" :: ")[2] for each in classes)


def is_forbidden(licence: str) -> bool:
    """Whether a licence would bind what is built with the package. A choice of licences is not."""
    parts = re.split(r"\bOR\b|,", licence)
    return all(_FORBIDDEN.search(_LESSER.sub("", part)) for part in parts)


# ---- the command ----


def main(arguments: list[str] | None = None) -> int:
    """Audit, or write a bill of materials; returns the exit code of the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--database", type=Path, help="a dump in OSV's format: zip or folder")
    parser.add_argument("--accepted", type=Path, default=ACCEPTED, help="what is accepted, and why")
    parser.add_argument("--sbom", metavar="LOCK", help="write the bill of materials of this lock")
    parser.add_argument("locks", type=Path, nargs="*", help="all of requirements/ by default")
    given = parser.parse_args(arguments)
    if given.sbom:
        json.dump(sbom_of(Path(given.sbom)), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return 0
    locks = given.locks or sorted(set(HERE.glob("*.lock")) - {HERE / "images.lock"})
    pins = sorted({Pin(p.name, p.version) for lock in locks for p in read_lock(lock.read_text())})
    accepted = read_accepted(given.accepted.read_text()) if given.accepted.exists() else {}
    bad = _report_licences(pins, accepted)
    if given.database is None:
        sys.stderr.write("vulnerabilities: not checked, because there is no --database\n")
        return 2
    for pin, number, summary in vulnerabilities(pins, read_database(given.database)):
        known = number in accepted
        bad += not known
        note = f"accepted: {accepted[number]}" if known else "VULNERABLE"
        sys.stdout.write(f"{pin.name} {pin.version} {number}: {note}: {summary}\n")
    sys.stdout.write(f"{len(pins)} packages of {len(locks)} locks: {bad} problems\n")
    return 1 if bad else 0


def _report_licences(pins: Iterable[Pin], accepted: Mapping[str, str]) -> int:
    bad, unknown = 0, set()
    for name in sorted({pin.name for pin in pins}):
        licence = licence_of(name)
        if not licence:
            unknown.add(name)
        elif is_forbidden(licence) and name not in accepted:
            bad += 1
            sys.stdout.write(f"{name}: LICENCE NOT ALLOWED: {licence}\n")
    sys.stdout.write(f"licences: {len(unknown)} packages are not installed here or state none\n")
    return bad


def sbom_of(lock: Path) -> dict[str, Any]:
    """The bill of materials of a lock: every file that it allows, by hash."""
    components = []
    for pin in read_lock(lock.read_text()):
        purl = f"pkg:pypi/{pin.name}@{pin.version}"
        component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": pin.name}
        component |= {"version": pin.version, "purl": purl}
        component["hashes"] = [{"alg": "SHA-256", "content": each} for each in pin.hashes]
        if licence := licence_of(pin.name):
            component["licenses"] = [{"license": {"name": licence}}]
        components.append(component)
    return document(f"sulina-{lock.stem}", _own_version(), components)


def _own_version() -> str:
    text = (HERE.parent / "sulina" / "version.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    return "0" if found is None else found[1]


if __name__ == "__main__":
    sys.exit(main())
