"""Documents: links, index, pictures; the commit rule, the changelog, the workflow and git hooks."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sulina.version import __version__
from tests.documents.markdown import ROOT, anchors, links, name, pages

_ARCHITECTURE: Final = ROOT / "docs" / "architecture.md"
_IN_TREE: Final = re.compile(
    '[` "]((?:sulina|broker_containers|storage_grpc|emr_jobs|functions|infra|localstack|tests|docs)'
    '/[\\w./]*\\w)/?[` "]'
)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}: there is no such file"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name(page)} links to {link}: no such heading"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_file_of_the_tree_that_a_page_names_exists(page: Path) -> None:
    for named in set(_IN_TREE.findall(page.read_text(encoding="utf-8"))):
        assert (ROOT / named).exists(), f"{name(page)} names {named}: there is no such file"


def test_every_test_that_a_page_names_exists() -> None:
    code = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    existing = set(re.findall(r"def (test_\w+)", code)) | {
        file.stem for file in (ROOT / "tests").rglob("test_*.py")
    }
    for page in pages():
        named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
        assert named <= existing, f"{name(page)} names {named - existing}: there is no such test"


def test_the_table_of_the_architecture_names_files_to_read() -> None:
    rows = re.findall(r"^\| (`.+?) \| .+ \| (`.+`) \|$", _ARCHITECTURE.read_text(), re.M)
    assert len(rows) > 15
    for folders, files in rows:
        places = [ROOT / folder for folder in re.findall(r"`(.+?)`", folders)]
        for file in re.findall(r"`(.+?)`", files):
            parents = [*places, *(place.parent for place in places)]
            found = any((place / file).exists() for place in parents)
            assert found, f"{folders}: there is no {file}"


def test_the_guide_to_changes_names_what_exists() -> None:
    _, *sections = re.split(r"^## ", (ROOT / "docs" / "extend.md").read_text(), flags=re.M)
    assert len(sections) == 12
    for section in sections:
        files: set[Path] = set()
        for named in _IN_TREE.findall(section):
            place = ROOT / named
            files |= set(place.rglob("*.py")) if place.is_dir() else {place}
            files |= set(place.parent.glob("*.py"))
        code = "".join(file.read_text() for file in files)
        for word in re.findall(r"`(\w+)(?:\(.*?\))?`", section):
            assert word in code, f"{section.partition(chr(10))[0]}: there is no {word}"
        for file_name in re.findall(r"`(\w+\.py)`", section):
            assert file_name in {file.name for file in files}, f"there is no {file_name}"


def test_every_key_family_is_in_the_table_of_metadata() -> None:
    page = (ROOT / "docs" / "metadata.md").read_text()
    for file in (ROOT / "sulina" / "metadata" / "keys").glob("*.py"):
        if "_key(" in (code := file.read_text()) or "def key(" in code or "\nKEY = " in code:
            assert f"`{file.name}`" in page, f"docs/metadata.md does not name {file.name}"


def test_the_glossary_says_where_things_are() -> None:
    folders = [ROOT]
    for line in (ROOT / "docs" / "naming.md").read_text().splitlines():
        if line.startswith("## "):
            folders = [ROOT / folder.strip() for folder in line[3:].split(",")]
        cells = line.strip("|").split(" | ")
        if len(cells) != 3:
            continue
        for named in re.findall(r"`([a-z_]+/[\w./]*|\w+\.py)`", cells[2]):
            near = [ROOT, *folders, *(folder.parent for folder in folders)]
            found = any((place / named).exists() for place in near)
            found = found or any(list(folder.rglob(named)) for folder in folders)
            assert found, f"the glossary names {named} for {cells[0]}: there is no such file"


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    decisions = ROOT / "docs" / "adr"
    listed |= {(decisions / link).resolve() for link in links(decisions / "README.md")}
    missing = {name(page) for page in (ROOT / "docs").rglob("*.md")} - {
        name(each) for each in listed if each.suffix == ".md"
    }
    assert missing <= {"docs/README.md"}, "add a line for each of them to docs/README.md"


def test_the_navigation_of_the_site_is_the_index() -> None:
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    index = (ROOT / "docs" / "README.md").read_text()
    sections = [title for each in site["navigation"](index) for title in each]
    assert sections == ["Start", *re.findall(r"^## (.+)$", index, re.M)]


def test_links_out_of_the_site_lead_to_its_copies_or_become_text() -> None:
    rewritten = runpy.run_path(str(ROOT / "docs" / "site.py"))["rewritten"]
    text = "See [it](../infra/README.md#rules), [code](../sulina/errors.py), [here](client.md)."
    assert rewritten("docs/http.md", text) == (
        "See [it](tree/infra/README.md#rules), code, [here](client.md).\n"
    )
    assert rewritten("README.md", "![a](docs/img/a.svg)") == "![a](../img/a.svg)\n"


def test_lists_are_as_the_site_needs_them() -> None:
    rewritten = runpy.run_path(str(ROOT / "docs" / "site.py"))["rewritten"]
    assert rewritten("docs/a.md", "Two:\n- one\n- two\n") == "Two:\n\n- one\n- two\n"
    code = "1. Run:\n   ```sh\n   ls\n   ```\n2. Look.\n"
    assert rewritten("docs/a.md", code) == code.replace("   ", "    ")


def test_the_picture_is_what_its_source_makes() -> None:
    picture = runpy.run_path(str(ROOT / "docs" / "img" / "architecture.py"))["picture"]()
    committed = (ROOT / "docs" / "img" / "architecture.svg").read_text(encoding="utf-8")
    assert committed == picture, "run: python docs/img/architecture.py"
    assert "to come" not in committed


RULE = ROOT / ".ci" / "commit_message.py"


def problem(message: str) -> Any:
    return runpy.run_path(str(RULE))["problem"](message)


@pytest.mark.parametrize(
    "message",
    [
        "journal: refuse appends when the disk is full",
        "docs: add a page\n\nBecause readers asked.\n",
        "sulina/wire: read frames of version 2",
        "benchmarks, tests: reword what they print",
        "Merge branch 'main' into topic",
        "docs: add a page\n# a comment of git",
    ],
)
def test_a_message_that_names_its_part_passes(message: str) -> None:
    assert problem(message) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Refuse appends when the disk is full", "part: what changes"),
        ("journal: refuse appends.", "part: what changes"),
        ("journal: " + "x" * 64, "73 characters"),
        ("journal: refuse\nbecause", "second line is not blank"),
        ("", "part: what changes"),
    ],
)
def test_another_message_is_refused_with_the_reason(message: str, reason: str) -> None:
    assert reason in problem(message)


def test_only_the_commits_of_a_range_are_checked(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        names = {
            f"GIT_{role}_{what}": "x"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        environment = {**os.environ, **names}
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, env=environment)

    def check() -> subprocess.CompletedProcess[str]:
        command = [str(RULE), "--range", "rule..HEAD"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "An old message.")
    git("tag", "rule")
    git("commit", "--quiet", "--allow-empty", "--message", "docs: add a page")
    assert check().returncode == 0
    git("commit", "--quiet", "--allow-empty", "--message", "Add another")
    done = check()
    assert done.returncode == 1
    assert "'Add another': the first line is not" in done.stderr


def test_the_changelog_has_a_section_for_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\S+)", changelog, re.M)
    assert versions[0] == "Unreleased"
    assert __version__ in versions
    kinds = set(re.findall(r"^### (.+)$", changelog, re.M))
    assert kinds <= {
        *("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"),
        "Known limits",
    }


def test_the_workflow_runs_what_people_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step.get("run") for step in workflow["jobs"]["check"]["steps"]]
    assert ".ci/run" in steps
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_git_hooks_run_programs_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {hook["entry"].split()[0] for hook in hooks}
    assert programs == {".venv/bin/ruff", ".ci/commit_message.py", "make"}
    assert os.access(RULE, os.X_OK)
