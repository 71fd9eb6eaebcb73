"""``sulina topic copy``, ``restore`` and ``erase`` on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sulina.cli.admin.erasure import tell
from sulina.metadata.keys.erasures import ErasureState
from sulina.operations.ledgers import TopicErasure
from tests.cli.runner import BlockingClient, SulinaCommand


def test_topic_copy_copies_and_says_what_it_copied(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "a", "b", "c")
    done = sulina("topic", "copy", topic, f"{topic}-2", "--from", "1").stdout
    assert f"copied 2 messages of {topic} to {topic}-2: offsets 1 to 2" in done
    [again] = sulina("topic", "copy", topic, f"{topic}-2", "--from", "1", "--json").json()
    assert again["records"] == 0
    assert direct.read(f"{topic}-2") == ["b", "c"]
    assert "the same topic" in sulina("topic", "copy", topic, topic, code=2).stderr


def test_topic_restore_asks_for_the_lake_and_says_if_it_has_nothing(
    sulina: SulinaCommand, topic: str, tmp_path: Path
) -> None:
    assert "--lake" in sulina("topic", "restore", topic, f"{topic}-2", code=2).stderr
    lake = tmp_path.as_uri()
    found = sulina("topic", "restore", topic, f"{topic}-2", "--lake", lake, code=1).stderr
    assert "there are no objects" in found


def test_topic_erase_says_what_it_needs(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "a")
    found = sulina("topic", "erase", topic, "--key", "a", code=1).stderr
    assert "no object store" in found and "--tier" in found


def test_a_finished_erasure_says_which_copies_outlive_the_objects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = ErasureState("done")
    day, kept = 86_400_000_000, "the bucket lake keeps versions of deleted objects for 1 days"
    done = TopicErasure("/default/a", 1, (), (), 1, 2, state, 9, 9, 3, (), "p", 1_000_000, 1, "")
    tell(replace(done, versions_gone_us=2 * day, kept=kept))
    said = capsys.readouterr().out
    assert "replaced and removed objects are deleted at 1970-01-01" in said
    assert kept in said and "versions of them are gone at 1970-01-03" in said
    assert "docs/operations.md#erase-a-key" in said
