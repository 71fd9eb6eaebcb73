"""Base images, vulnerabilities, licences, bills of materials and reproducible builds."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from requirements import audit, images, provenance, wheel_twice
from requirements.audit import Pin

DIGEST = "sha256:" + "ab" * 32
DOCKERFILE = "ARG BASE=python:3.11-slim\nFROM ${BASE} AS build\nFROM ${BASE}\n"


# ---- images ----


def test_the_dockerfiles_of_the_tree_use_images_of_the_lock() -> None:
    lock = images.read_lock(images.LOCK.read_text())
    texts = {str(file): file.read_text() for file in images.DOCKERFILES}
    unresolved = [f"{image} has no digest: run with --fill" for image in lock if
                  lock[image] == images.UNRESOLVED]  # fmt: skip
    assert images.problems(lock, texts) == unresolved


@pytest.mark.parametrize(
    ("digest", "dockerfile", "problem"),
    [
        (DIGEST, DOCKERFILE.replace("slim", f"slim@{DIGEST}"), ""),
        (DIGEST, DOCKERFILE, "another digest"),
        ("unresolved", DOCKERFILE, "has no digest"),
        (DIGEST, "FROM python:3.11-slim\n", "write FROM ${BASE}"),
        (DIGEST, "FROM --platform=$BUILDPLATFORM python:3.11-slim\n", "uses python:3.11-slim:"),
        (DIGEST, DOCKERFILE.replace("python", "golang"), "not in images.lock"),
    ],
)
def test_an_image_that_is_not_locked_is_found(digest: str, dockerfile: str, problem: str) -> None:
    found = images.problems({"python:3.11-slim": digest}, {"Dockerfile": dockerfile})
    assert bool(found) == bool(problem)
    assert not problem or any(problem in each for each in found)


def test_a_lock_with_an_invented_digest_is_refused() -> None:
    with pytest.raises(ValueError, match="not a digest"):
        images.read_lock("python:3.11-slim sha256:1234\n")


@pytest.fixture
def registry() -> Iterator[str]:
    class Registry(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            known = (
                "/v2/some/image/manifests/1.0",
                "/v2/library/python/manifests/3.11-slim",
                "/v2/owner/name/manifests/2",
            )
            self.send_response(200 if self.path in known else 404)
            self.send_header("Docker-Content-Digest", DIGEST)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_digests_come_from_the_registry_and_go_into_lock_and_dockerfiles(
    registry: str, tmp_path: Path
) -> None:
    image = f"{registry}/some/image:1.0"
    lock, dockerfile = tmp_path / "images.lock", tmp_path / "Dockerfile"
    lock.write_text(f"# a comment\n{image} unresolved\n")
    dockerfile.write_text(DOCKERFILE.replace("python:3.11-slim", image))
    images.fill(lock, [dockerfile], lambda name: images.ask_registry(name, "http"))
    assert lock.read_text() == f"# a comment\n{image} {DIGEST}\n"
    assert f"ARG BASE={image}@{DIGEST}\n" in dockerfile.read_text()
    assert images.problems(images.read_lock(lock.read_text()), {"d": dockerfile.read_text()}) == []
    with pytest.raises(OSError, match="404"):
        images.ask_registry(f"{registry}/some/other:1.0", "http")


def test_a_mirror_is_asked_in_place_of_docker_hub(registry: str) -> None:
    for image in ("python:3.11-slim", "owner/name:2", f"{registry}/some/image:1.0"):
        scheme = "http" if registry in image else "https"
        assert images.ask_registry(image, scheme, mirror=f"http://{registry}/") == DIGEST


# ---- vulnerabilities and licences ----

LOCK = f"""# comment
Some_Package[extra]==1.5.0 \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
    # via other
other==2.0 \\
    --hash=sha256:{"3" * 64}
"""


def entry(number: str, name: str = "some-package", **more: Any) -> dict[str, Any]:
    affected = {"package": {"ecosystem": "PyPI", "name": name}, **more}
    return {"id": number, "summary": "bad", "affected": [affected]}


def between(*events: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"type": "ECOSYSTEM", "events": [dict([each]) for each in events]}]


def test_a_lock_is_read_with_its_hashes() -> None:
    assert audit.read_lock(LOCK) == [
        Pin("other", "2.0", ("3" * 64,)),
        Pin("some-package", "1.5.0", ("1" * 64, "2" * 64)),
    ]


@pytest.mark.parametrize(
    ("hit", "more"),
    [
        (True, {"versions": ["1.4", "1.5.0"]}),
        (False, {"versions": ["1.5.1"]}),
        (True, {"ranges": between(("introduced", "0"), ("fixed", "1.5.1"))}),
        (False, {"ranges": between(("introduced", "0"), ("fixed", "1.5"))}),
        (True, {"ranges": between(("introduced", "1.5"), ("last_affected", "1.5.0"))}),
        (False, {"ranges": between(("introduced", "1.5.1"))}),
        (False, {"ranges": between(("introduced", "0"), ("last_affected", "1.4.9"))}),
        (
            True,
            {"ranges": between(("introduced", "0"), ("fixed", "1.0"), ("introduced", "1.5rc1"))},
        ),
        (False, {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}),
    ],
)
def test_versions_are_compared_as_the_database_means_them(hit: bool, more: dict[str, Any]) -> None:
    found = audit.vulnerabilities([Pin("some-package", "1.5.0")], [entry("X-1", **more)])
    assert [number for _, number, _ in found] == (["X-1"] if hit else [])


def test_other_ecosystems_names_and_withdrawn_entries_do_not_count() -> None:
    versions: dict[str, Any] = {"versions": ["1.5.0"]}
    other = entry("X-1", **versions)
    other["affected"][0]["package"]["ecosystem"] = "npm"
    withdrawn = {**entry("X-2", **versions), "withdrawn": "2026-01-01T00:00:00Z"}
    elsewhere = entry("X-3", "some-package-2", **versions)
    spelled = entry("X-4", "Some.Package", **versions)
    pins = [Pin("some-package", "1.5.0")]
    found = audit.vulnerabilities(pins, [other, withdrawn, elsewhere, spelled])
    assert [number for _, number, _ in found] == ["X-4"]


def test_the_audit_fails_on_what_is_not_accepted_and_needs_no_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, database, accepted = tmp_path / "a.lock", tmp_path / "all.zip", tmp_path / "accepted.txt"
    lock.write_text(LOCK)
    with zipfile.ZipFile(database, "w") as archive:
        archive.writestr("X-1.json", json.dumps(entry("X-1", versions=["1.5.0"])))
    arguments = ["--database", str(database), "--accepted", str(accepted), str(lock)]
    assert audit.main(arguments) == 1
    assert "some-package 1.5.0 X-1: VULNERABLE: bad" in capsys.readouterr().out
    accepted.write_text("X-1 not reachable here\n")
    assert audit.main(arguments) == 0
    assert "accepted: not reachable here" in capsys.readouterr().out
    assert audit.main(["--accepted", str(accepted), str(lock)]) == 2


@pytest.mark.parametrize(
    ("licence", "forbidden"),
    [
        ("MIT", False),
        ("Apache-2.0 OR GPL-2.0-only", False),
        ("GPL-3.0-or-later", True),
        ("GNU Affero General Public License v3", True),
        ("LGPL-2.1-or-later", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("SSPL-1.0", True),
    ],
)
def test_licences_that_bind_what_is_built_are_forbidden(licence: str, forbidden: bool) -> None:
    assert audit.is_forbidden(licence) is forbidden


def test_the_licences_of_the_locks_are_allowed_or_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "database").mkdir()
    assert audit.main(["--database", str(tmp_path / "database")]) == 0, capsys.readouterr().out


def test_a_bill_of_materials_lists_every_package_of_a_lock_with_its_hashes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = audit.HERE / "broker.lock"
    assert audit.main(["--sbom", str(lock)]) == 0
    bill = json.loads(capsys.readouterr().out)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    pins = audit.read_lock(lock.read_text())
    assert [each["purl"] for each in bill["components"]] == [
        f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins
    ]
    assert all(each["hashes"] for each in bill["components"])


# ---- the wheel ----


@pytest.mark.slow
def test_two_builds_give_the_same_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wheel_twice.main([str(tmp_path)]) == 0
    [wheel] = tmp_path.glob("sulina-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "sulina/client/client.py" in archive.namelist()


def test_wheels_that_differ_are_told_by_the_files_that_differ(tmp_path: Path) -> None:
    for name, text in (("a", "1"), ("b", "2")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("same", "x")
            archive.writestr("other", text)
    assert wheel_twice.differences(tmp_path / "a", tmp_path / "b") == ["other"]
    assert wheel_twice.differences(tmp_path / "a", tmp_path / "a") == []


# ---- provenance ----


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Base images with digests, and a work tree without changes."""
    lock, dockerfile = tmp_path / "images.lock", tmp_path / "Dockerfile"
    lock.write_text(f"python:3.11-slim {DIGEST}\n")
    dockerfile.write_text(DOCKERFILE.replace("slim", f"slim@{DIGEST}"))
    monkeypatch.setattr(images, "LOCK", lock)
    monkeypatch.setattr(images, "DOCKERFILES", (dockerfile,))
    monkeypatch.setattr(provenance, "commit", lambda: "c0ffee" * 6 + "c0ff")


@pytest.mark.usefixtures("resolved")
def test_a_statement_names_artifacts_sources_and_locks_and_is_reproducible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "sulina.whl"
    wheel.write_bytes(b"a wheel")
    arguments = [str(wheel), "--image", f"sulina-broker@{DIGEST}", "--builder", "urn:test"]
    assert provenance.main(arguments) == 0
    text = capsys.readouterr().out
    assert provenance.main(arguments) == 0
    assert capsys.readouterr().out == text
    found = json.loads(text)
    assert (found["_type"], found["predicateType"]) == (provenance.STATEMENT, provenance.PREDICATE)
    assert [each["name"] for each in found["subject"]] == ["sulina-broker", "sulina.whl"]
    definition = found["predicate"]["buildDefinition"]
    digests = {each["uri"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert digests["docker://python:3.11-slim"] == {"sha256": "ab" * 32}
    assert {"gitCommit": "c0ffee" * 6 + "c0ff"} in digests.values()
    assert any(uri.endswith("#requirements/broker.lock") for uri in digests)
    stored = tmp_path / "statement.json"
    stored.write_text(text)
    assert provenance.main([str(wheel), "--check", str(stored)]) == 0
    wheel.write_bytes(b"another wheel")
    assert provenance.main([str(wheel), "--check", str(stored)]) == 1
    assert "it is not what was released" in capsys.readouterr().err


@pytest.mark.usefixtures("resolved")
def test_nothing_is_stated_while_a_base_image_has_no_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images.LOCK.write_text("python:3.11-slim unresolved\n")
    images.DOCKERFILES[0].write_text(DOCKERFILE)
    wheel = tmp_path / "sulina.whl"
    wheel.write_bytes(b"a wheel")
    assert provenance.main([str(wheel)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "requirements.images --fill" in said.err


@pytest.mark.usefixtures("resolved")
def test_an_image_without_its_digest_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert provenance.main(["--image", "sulina-broker:0.1.0"]) == 1
    assert "use name@sha256:digest" in capsys.readouterr().err


def test_a_changed_work_tree_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"status": " M sulina/version.py", "rev-parse": "c0ffee"}
    monkeypatch.setattr(provenance, "_git", lambda word, *_: answers[word])
    with pytest.raises(provenance.NotReleasable, match=r"sulina/version\.py"):
        provenance.commit()
    answers["status"] = ""
    assert provenance.commit() == "c0ffee"
