"""What contributors rely on: the commit rule, the changelog, the workflow and the git hooks."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sulina.version import __version__
from tests.documents.markdown import ROOT

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
            f"GIT_{who}_{what}": "x"
            for who in ("AUTHOR", "COMMITTER")
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
