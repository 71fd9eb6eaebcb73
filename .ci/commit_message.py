#!/usr/bin/env python3
"""Checks commit messages: `part: what changes` in at most 72 characters, then a blank line.

    .ci/commit_message.py FILE              # the message in a file, as a commit-msg hook gets it
    .ci/commit_message.py --range A..B      # the commits between two revisions, without merges

CONTRIBUTING.md has the rule. Needs nothing but Python and, for --range, git.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LONGEST = 72
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9_./-]*(,? [a-z0-9_./-]+)*: \S.*[^.\s]")
_GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def problem(message: str) -> str | None:
    """What is wrong with a message, as a sentence; None if nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_GENERATED):
        return None
    if len(subject) > LONGEST:
        return f"the first line has {len(subject)} characters; shorten it to {LONGEST}"
    if not _SUBJECT.fullmatch(subject):
        return "the first line is not `part: what changes` without a full stop, for example " + (
            "`journal: refuse appends when the disk is full`"
        )
    if len(lines) > 1 and lines[1].strip():
        return "the second line is not blank; separate the first line from the body"
    return None


def main(arguments: list[str]) -> int:
    """Check what the arguments name. Returns the exit code."""
    if len(arguments) == 2 and arguments[0] == "--range":
        log = ["git", "log", "--no-merges", "--format=%h%x00%B%x01", arguments[1]]
        output = subprocess.run(log, check=True, capture_output=True, text=True).stdout
        pairs = [each.strip().partition("\0") for each in output.split("\x01") if each.strip()]
        messages = {commit: text for commit, _, text in pairs}
    elif len(arguments) == 1:
        messages = {"this commit": Path(arguments[0]).read_text(encoding="utf-8")}
    else:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    failed = False
    for commit, message in messages.items():
        if found := problem(message):
            failed = True
            print(f"{commit}: {message.partition(chr(10))[0]!r}: {found}.", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
