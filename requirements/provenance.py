"""States how artifacts were made: a provenance statement (in-toto, SLSA 1.0).

    python -m requirements.provenance dist/*.whl > dist/provenance.json
    python -m requirements.provenance --image sulina-broker@sha256:... > dist/broker.json
    python -m requirements.provenance --check dist/provenance.json dist/*.whl

The statement names each artifact with its digest, the commit, the lock files and base images that
went into it, and the command that makes the same bytes again. It has no times, so the same commit
and artifacts give the same statement. Nothing is stated, and the exit code is 1, while a base image
has no digest or the work tree differs from the commit. Sign it with your own key.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from requirements import images
from sulina.version import __version__

ROOT = Path(__file__).parent.parent
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:sulina:release:1"
"""What docs/releasing.md describes."""
_IMAGE = re.compile(r"([a-z0-9][a-z0-9._/-]*)@sha256:([0-9a-f]{64})")
_COMMANDS = {
    "wheel": "python -m requirements.wheel_twice dist",
    "image": "docker build --file <folder>/Dockerfile .",
}


class NotReleasable(Exception):
    """Why nothing can be stated."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check a statement; returns the exit code of the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="*", type=Path, help="wheels and other files")
    parser.add_argument(
        "--image", action="append", default=[], help="name@sha256:digest, as pushed"
    )
    parser.add_argument("--builder", default="urn:sulina:builder:unnamed", help="URI of who builds")
    parser.add_argument("--check", type=Path, metavar="STATEMENT", help="compare files with it")
    given = parser.parse_args(arguments)
    if not given.file and not given.image:
        parser.error("name a file, or an image with --image")
    try:
        subjects = [_of_file(path) for path in given.file] + [
            _of_image(each) for each in given.image
        ]
        if given.check is not None:
            _check(json.loads(given.check.read_text(encoding="utf-8")), subjects)
            sys.stdout.write(f"{given.check} is about these artifacts\n")
            return 0
        found = statement(subjects, commit(), base_images(), lock_digests(), given.builder)
    except (NotReleasable, OSError, ValueError) as error:
        sys.stderr.write(f"provenance: {error}\n")
        return 1
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


def statement(
    subjects: Sequence[Mapping[str, Any]],
    commit: str,
    bases: Mapping[str, str],
    locks: Mapping[str, str],
    builder: str,
) -> dict[str, Any]:
    """The whole statement."""
    source = f"pkg:generic/sulina@{__version__}"
    made_of = [
        {"uri": source, "digest": {"gitCommit": commit}},
        *({"uri": f"docker://{name}", "digest": {"sha256": bases[name]}} for name in sorted(bases)),
        *({"uri": f"{source}#{name}", "digest": {"sha256": locks[name]}} for name in sorted(locks)),
    ]
    return {
        "_type": STATEMENT,
        "subject": sorted(subjects, key=lambda each: str(each["name"])),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"source": source, "commands": _COMMANDS},
                "resolvedDependencies": made_of,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def commit() -> str:
    """The commit of the work tree. Raises ``NotReleasable`` if a tracked file differs from it."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    if changed:
        raise NotReleasable(f"the work tree differs from its commit: commit or undo\n{changed}")
    return _git("rev-parse", "HEAD")


def base_images() -> dict[str, str]:
    """Base images with their digests. Raises ``NotReleasable`` while one has none."""
    lock = images.read_lock(images.LOCK.read_text(encoding="utf-8"))
    wanted = {path.parent.name: path.read_text(encoding="utf-8") for path in images.DOCKERFILES}
    problems = images.problems(lock, wanted)
    if problems:
        raise NotReleasable(
            "base images are not locked by digest, so nothing says what an image consists of. Run "
            "`python -m requirements.images --fill` with a network.\n  " + "\n  ".join(problems)
        )
    return {name: digest.removeprefix("sha256:") for name, digest in lock.items()}


def lock_digests() -> dict[str, str]:
    """The digests of the lock files."""
    found = sorted((ROOT / "requirements").glob("*.lock"))
    return {f"requirements/{path.name}": _sha256(path) for path in found}


def _check(found: Any, subjects: Sequence[Mapping[str, Any]]) -> None:
    stated = {each["name"]: each["digest"]["sha256"] for each in found["subject"]}
    for each in subjects:
        name, digest = each["name"], each["digest"]["sha256"]
        if stated.get(name) != digest:
            raise NotReleasable(
                f"{name} has the digest {digest}, the statement says "
                f"{stated.get(name, 'nothing about it')}: it is not what was released"
            )


def _of_file(path: Path) -> dict[str, Any]:
    return {"name": path.name, "digest": {"sha256": _sha256(path)}}


def _of_image(text: str) -> dict[str, Any]:
    found = _IMAGE.fullmatch(text)
    if found is None:
        raise NotReleasable(f"{text!r} is not an image with its digest: use name@sha256:digest")
    return {"name": found[1], "digest": {"sha256": found[2]}}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(*words: str) -> str:
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReleasable(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
