"""``sulina security``, and the options that make a broker ask for tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_containers.commands.auth_options import (
    ROOT_VARIABLE,
    auth_settings,
    read_root,
    security_warning,
)
from sulina.errors import Refused
from tests.auth.broker import ROOT, Guarded
from tests.support.shell import CommandResult, Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as running:
        yield running


async def test_a_token_is_created_used_listed_and_revoked(
    guarded: Guarded, shell: Shell, name: str
) -> None:
    async def sulina(*words: str, token: str = ROOT, code: int = 0) -> CommandResult:
        return await shell(
            "--url", guarded.server.addresses.url, "--token", token, *words, code=code
        )

    made = await sulina(
        *("security", "token", "create", name, "--grant", f"produce:/default/{name}"),
        *("--expires", "2h", "--note", "for a test"),
    )
    token = made.stdout.strip()
    assert "expires: 20" in made.stderr and "yet" not in made.stderr
    await sulina("produce", f"/default/{name}", "hello", token=token)
    denied = await sulina("peek", f"/default/{name}", token=token, code=1)
    assert f"sulina security grant {name} consume:/default/{name}" in denied.stderr
    allowed = await sulina("security", "grant", name, f"consume:/default/{name}")
    assert allowed.stdout == f"grants of {name}: produce:/default/{name}, consume:/default/{name}\n"
    assert (await sulina("peek", f"/default/{name}", token=token)).stdout == "hello\n"
    rows: list[dict[str, Any]] = (await sulina("security", "token", "list", "--json")).json()
    [row] = [row for row in rows if row["principal"] == name]
    assert token not in str(rows) and row["note"] == "for a test"
    assert name in (await sulina("security", "list")).stdout
    await sulina("security", "withdraw", name, f"consume:/default/{name}")
    await sulina("security", "token", "revoke", row["id"])
    refused = await sulina("produce", f"/default/{name}", "again", token=token, code=1)
    assert "wrong, or was revoked" in refused.stderr
    assert "there is no token" in (await sulina("security", "token", "revoke", "x", code=1)).stderr
    made = await sulina("security", "role", "create", name, "--permissions", "Consume, Replicate")
    assert made.stdout == f"role {name} permits Consume, Replicate\n"
    where = ("--scope", "namespace", "--resource", "default")
    bind = ("security", "binding", "create", name, "--principal", name, "--roles", name, *where)
    assert (await sulina(*bind)).stdout == f"{name} has {name} on the namespace default\n"
    listed = "".join((await sulina("security", "list")).stdout.split())
    assert f"binding{name}ofthenamespacedefault:{name}" in listed
    rows = (await sulina("security", "list", "--json")).json()
    [row] = [row for row in rows if row["principal"] == name]
    assert row["grants"] == [f"produce:/default/{name}"]
    assert row["bindings"][0]["grants"] == ["consume:/default/*"]
    for kind in ("role", "binding"):
        assert name in (await sulina("security", kind, "list")).stdout
    await sulina("security", "binding", "delete", name, *where)
    gone = await sulina("security", "binding", "delete", name, *where, code=1)
    assert "there is no binding" in gone.stderr
    await sulina(*bind)
    await sulina("security", "role", "delete", name)
    await sulina("security", "delete", name, "--yes")
    assert name not in (await sulina("security", "list")).stdout
    wrong = await sulina("security", "grant", name, "own:everything", code=1)
    assert "is not a grant" in wrong.stderr


async def test_without_a_token_the_error_says_how_to_get_one(
    guarded: Guarded, shell: Shell
) -> None:
    said = (await shell("--url", guarded.server.addresses.url, "topic", "list", code=1)).stderr
    assert "requires a token" in said and "sulina security token create" in said


def test_the_root_token_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "root"
    root = read_root(file)
    assert len(root) >= 32 and read_root(file) == root
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused, match="--auth"):
        read_root(tmp_path / "no-folder" / "root")


def test_without_options_no_token_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ROOT_VARIABLE not in os.environ
    assert auth_settings(None, None) is None
    key = tmp_path / "key"
    key.write_text("a key that is long enough\n")
    found = auth_settings(tmp_path / "root", key)
    assert found is not None and found.jwt_key == b"a key that is long enough"
    assert found.root not in repr(found)
    monkeypatch.setenv(ROOT_VARIABLE, "given by the environment")
    found = auth_settings(None, None)
    assert found is not None and found.root == "given by the environment"


def test_starting_a_broker_prints_who_can_use_it() -> None:
    assert "FULL ACCESS" in security_warning("0.0.0.0", required=False, secure=True)
    assert "--auth" in security_warning("127.0.0.1", required=False, secure=False)
    assert "--tls-cert" in security_warning("10.0.0.1", required=True, secure=False)
    assert security_warning("10.0.0.1", required=True, secure=True) == ""
