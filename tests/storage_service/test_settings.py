"""Settings of a storage node: a flag overrides the environment, which overrides the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_grpc.service.settings import ServiceSettings, describe, load
from sulina.errors import Refused
from sulina.runtime.tls_files import TlsFiles


def test_nothing_set_gives_the_defaults() -> None:
    assert load({}, {"PATH": "/bin"}) == ServiceSettings()
    assert ServiceSettings().port == 6660


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('id = "from-file"\nport = 1\nhost = "h1"\nstop_seconds = 2\ndata = "d"\n')
    environment = {"SULINA_STORAGE_PORT": "2", "SULINA_STORAGE_HOST": "h2"}
    settings = load({"config": str(file), "host": "h3", "port": None}, environment)
    assert settings == ServiceSettings(
        id="from-file", port=2, host="h3", stop_seconds=2.0, data=Path("d")
    )


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("port = 7")
    assert load({}, {"SULINA_STORAGE_CONFIG": str(file)}).port == 7


def test_sizes_reach_the_journal() -> None:
    journal = ServiceSettings(journal_file_mb=8, max_entry_mb=2, max_pending_mb=3).journal
    assert journal.file_bytes == 8 << 20
    assert (journal.max_entry_bytes, journal.max_pending_bytes) == (2 << 20, 3 << 20)


def test_tls_is_set_like_everything_else() -> None:
    environment = {"SULINA_STORAGE_TLS_CERT": "node.pem", "SULINA_STORAGE_TLS_CA": "ca.pem"}
    settings = load({"tls_clients": "certificate"}, environment)
    assert settings.tls == TlsFiles(Path("ca.pem"), Path("node.pem"))
    assert ServiceSettings().tls is None


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"port": "x"}, "invalid value for --port: 'x'; it must be a whole number"),
        ({"port": "70000"}, "from 0 to 65535"),
        ({"id": "a@b"}, "invalid value for id"),
        ({"max_entry_mb": "0"}, "more than 0"),
        ({"stop_seconds": "soon"}, "--stop-seconds: 'soon'; it must be a number"),
        ({"log_level": "loud"}, "choose from debug"),
        ({"journal_file_mb": "999999"}, "invalid size of a journal file"),
        ({"config": "/nowhere/at/all.toml"}, "can't be read"),
        ({"tls_key": "node.key"}, "need tls_cert"),
        ({"tls_cert": "node.pem", "tls_clients": "certificate"}, "needs tls_ca"),
        ({"tls_cert": "node.pem", "tls_clients": "all"}, "any or certificate"),
    ],
)
def test_a_mistake_is_told_with_the_remedy(flags: dict[str, str], told: str) -> None:
    with pytest.raises(Refused, match=told):
        load(flags, {})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("prot = 1", "unknown settings in .*: prot"),
        ("port = true", "port in .*: True"),
        ("port = 1.5", "must be a whole number"),
        ("port =", "can't be read"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(content)
    with pytest.raises(Refused, match=told):
        load({"config": str(file)}, {})


def test_every_setting_has_a_help() -> None:
    assert all(text for _, text, _ in describe())


def test_every_setting_is_documented_with_its_default_and_help() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for name, text, default in describe():
        shown = "none" if default == "" else default
        assert f"| `{name}` | {shown} | {text[0].upper()}{text[1:]}. |" in page
