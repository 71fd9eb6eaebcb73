"""Which ledgers and objects make up a topic, when the metadata does not know any more."""

from __future__ import annotations

from dataclasses import replace

from broker_containers.rebuild.plan import CopiedLedger, OnGap, TopicPlan, plan_topics
from broker_containers.rebuild.survey import FoundLedger, StorageSurvey
from sulina.lake.summary import ObjectSummary
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.names import TopicName

TOPIC = TopicName("default", "orders")


def found(ledger: int, first: int, end: int, epoch: int = 1) -> FoundLedger:
    return FoundLedger(ledger, TOPIC, first, end, epoch, entries=1 + end - first)


def stored(ledger: int, first: int, end: int) -> ObjectSummary:
    return ObjectSummary(TOPIC, ledger, first, end - 1, end - first, 1, 2, "digest", 10, 9)


def closed(ledger: int, first: int, end: int) -> LedgerRef:
    return LedgerRef(ledger, first, end - 1, LedgerState.CLOSED, last_entry=end - first)


def plan(
    *ledgers: FoundLedger,
    objects: tuple[ObjectSummary, ...] = (),
    known: tuple[LedgerRef, ...] = (),
    on_gap: OnGap = OnGap.STOP,
) -> TopicPlan:
    survey = StorageSurvey(tuple(ledgers), (), objects, ())
    lists = {TOPIC: LedgerList(3, known)} if known else {}
    (only,) = plan_topics(survey, lists, on_gap)
    return only


def extents(made: TopicPlan) -> list[tuple[int, int, int]]:
    """Ledger, first offset and end of each piece."""
    return [
        (piece.ledger, piece.first_offset, piece.end)
        if isinstance(piece, CopiedLedger)
        else (piece.id, piece.first_offset, (piece.last_offset or 0) + 1)
        for piece in made.pieces
    ]


def test_ledgers_of_a_topic_that_nobody_knows_follow_each_other() -> None:
    made = plan(found(7, 100, 130), found(4, 0, 100))
    assert extents(made) == [(4, 0, 100), (7, 100, 130)]
    assert made.end == 130
    assert made.changed


def test_what_nobody_confirmed_ends_where_the_next_owner_began() -> None:
    assert extents(plan(found(1, 0, 120, 1), found(2, 100, 150, 2)))[0] == (1, 0, 100)


def test_of_two_that_begin_together_the_newer_epoch_counts() -> None:
    assert extents(plan(found(1, 0, 9, 1), found(2, 0, 5, 2))) == [(2, 0, 5)]


def test_a_copy_that_an_interrupted_rebuild_left_does_not_hide_the_whole_ledger() -> None:
    assert extents(plan(found(1, 0, 9, 1), found(33, 0, 4, 1))) == [(1, 0, 9)]


def test_what_the_list_closed_stays_as_it_is() -> None:
    made = plan(found(1, 0, 50), found(2, 50, 60), known=(closed(1, 0, 50),))
    assert made.pieces[0] == closed(1, 0, 50)
    assert extents(made) == [(1, 0, 50), (2, 50, 60)]
    assert made.epoch == 4


def test_a_list_that_is_complete_is_not_changed() -> None:
    made = plan(found(1, 0, 50), known=(closed(1, 0, 50),))
    assert not made.changed


def test_the_ledger_that_was_open_when_the_metadata_was_copied_is_found_again() -> None:
    known = (closed(1, 0, 50), LedgerRef(2, 50))
    assert extents(plan(found(1, 0, 50), found(2, 50, 90), known=known))[-1] == (2, 50, 90)


def test_a_ledger_that_became_an_object_since_is_read_from_there() -> None:
    made = plan(objects=(stored(1, 0, 50),), known=(closed(1, 0, 50),))
    (ref,) = made.pieces
    assert isinstance(ref, LedgerRef)
    assert ref.tiered == TieredRef(9, "digest", local=False)


def test_an_object_stands_for_its_ledger_also_where_nodes_have_copies() -> None:
    made = plan(found(1, 0, 50), objects=(stored(1, 0, 50),))
    assert [type(piece) for piece in made.pieces] == [LedgerRef]


def test_what_retention_deleted_since_is_not_missed() -> None:
    made = plan(found(2, 50, 90), known=(closed(1, 0, 50), closed(2, 50, 90)))
    assert extents(made) == [(2, 50, 90)]
    assert not made.gaps


def test_a_topic_with_a_gap_is_left_alone_unless_somebody_decides() -> None:
    pieces = found(1, 0, 50), found(3, 80, 90)
    stopped = plan(*pieces)
    assert stopped.gaps == ((50, 80),)
    assert not stopped.changed
    assert extents(plan(*pieces, on_gap=OnGap.OLDER)) == [(1, 0, 50)]
    newer = plan(*pieces, on_gap=OnGap.NEWER)
    assert extents(newer) == [(3, 80, 90)]
    assert newer.left_aside == ("ledger 1 with offsets 0 to 49",)


def test_what_begins_within_the_list_is_left_aside() -> None:
    made = plan(found(1, 0, 50), found(9, 0, 70), known=(closed(1, 0, 50),))
    assert extents(made) == [(1, 0, 50)]
    assert made.left_aside == ("ledger 9 with offsets 0 to 69",)


def joined(ledger: int, first: int, end: int, generation: int = 1) -> ObjectSummary:
    return replace(stored(ledger, first, end), generation=generation)


def generations(made: TopicPlan) -> list[int]:
    return [
        ref.tiered.generation for ref in made.pieces if isinstance(ref, LedgerRef) and ref.tiered
    ]


def test_of_objects_and_the_one_that_replaced_them_only_the_newest_counts() -> None:
    objects = stored(1, 0, 10), stored(2, 10, 20), stored(3, 20, 30), joined(2, 0, 20, 4)
    made = plan(objects=objects)
    assert extents(made) == [(2, 0, 20), (3, 20, 30)]
    assert generations(made) == [4, 0] and made.generation == 4


def test_a_list_from_before_a_replacement_gets_the_newest_object() -> None:
    known = closed(1, 0, 10), closed(2, 10, 20), closed(3, 20, 30)
    objects = stored(2, 10, 20), stored(3, 20, 30), joined(2, 0, 20)  # one old one is gone
    made = plan(objects=objects, known=known)
    assert extents(made) == [(2, 0, 20), (3, 20, 30)] and generations(made) == [1, 0]


def test_entries_that_a_node_kept_do_not_displace_the_object_that_replaced_theirs() -> None:
    made = plan(found(2, 10, 20), found(3, 30, 40), objects=(joined(9, 0, 30),))
    assert extents(made) == [(9, 0, 30), (3, 30, 40)]


def test_an_object_that_was_given_up_does_not_hide_what_later_ones_replaced() -> None:
    objects = stored(1, 0, 10), stored(2, 10, 20), joined(2, 0, 20, 1), joined(1, 0, 10, 2)
    assert extents(plan(objects=objects)) == [(1, 0, 10), (2, 10, 20)]
