"""Requests to erase: durable, continued by the next owner, exact, proven, cancellable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from broker_containers.broker.broker import Broker
from storage_grpc.tier.tier import head_of, key_of
from sulina.errors import NotFound, Refused
from sulina.lake.erasing import key_digest
from sulina.lake.layout import is_notice, parse_key
from sulina.metadata.keys import erasures, requests
from sulina.metadata.keys.erasures import MOST_OPEN, ErasureRequest, ErasureState
from sulina.runtime.tasks import stop_tasks
from tests.tier.test_compacting import SMALL, Record, Scene
from tests.tier.world import TOPIC, Stopped, make_world

K1 = [key_digest(b"k1")]


@asynccontextmanager
async def scene_with_records() -> AsyncIterator[Scene]:
    """Twelve frames in objects, and one on storage nodes."""
    scene = Scene(await make_world(settings=SMALL, row_group_bytes=300))
    await scene.start()
    for number in range(12):
        await scene.publish([(number % 3, False), (4, False), (None, False)])
    await scene.tier()
    await scene.publish([(1, False), (2, False)])
    try:
        yield scene
    finally:
        await scene.world.close()


async def carry_out(scene: Scene) -> None:
    """Work on all requests, as the tasks of a broker do."""
    topic = await scene.broker.topic(TOPIC)
    tiering = asyncio.create_task(scene.broker.tiering.run())
    try:
        if scene.log.replacement is not None:
            await scene.broker.merging.merge(scene.log)
        while scene.log.list.erasures:
            await scene.broker.erasing.carry_out(topic, scene.log.list.erasures[0])
    finally:
        await stop_tasks(tiering)


async def request(scene: Scene, *digests: str, **more: object) -> ErasureRequest:
    topic = await scene.broker.topic(TOPIC)
    return await scene.broker.erasing.request(topic, digests or K1, **more)  # type: ignore[arg-type]


async def the_only(broker: Broker) -> ErasureRequest:
    [found] = await broker.erasing.known(TOPIC)
    return found


def without(published: list[Record], gone: set[int]) -> list[Record]:
    return [
        replace(each, key=None, payload=b"") if each.offset in gone else each for each in published
    ]


def of_k1(scene: Scene) -> set[int]:
    return {each.offset for each in scene.published if each.key == b"k1"}


@pytest.mark.parametrize("moment", ["before put", "after put", "before tail", "before get"])
async def test_a_request_whose_owner_dies_is_finished_by_the_next_one(moment: str) -> None:
    async with scene_with_records() as scene:
        asked = await request(scene)
        gone = of_k1(scene)
        await scene.publish([(1, False)])  # after the request: it stays

        async def stop(now: str, what: str) -> None:
            if now == moment and not is_notice(what) and parse_key(what).generation:
                raise Stopped

        scene.world.objects.hook = stop
        with pytest.raises(Stopped):
            await carry_out(scene)
        await scene.start()
        assert await requests.topics(scene.world.metadata) == [TOPIC]
        await carry_out(scene)
        done = await the_only(scene.broker)
        assert (done.id, done.state, done.until) == (asked.id, ErasureState.DONE, 38)
        assert await scene.read() == without(scene.published, gone)
        assert not await requests.topics(scene.world.metadata)
        proofs = await scene.broker.erasing.proofs(TOPIC, asked.id)
        assert sum(each.erased for each in proofs) == len(gone)
        await scene.start()
        scene.world.clock.move(90_000.0)
        await scene.broker.object_cleanup.round()
        assert scene.world.clock.wall_us() > done.gone_us
        named = [key_of(head_of(TOPIC, ref)) for ref in scene.log.refs if ref.tiered]
        assert await scene.world.keys() == named, "nothing is left behind"


async def test_a_former_owner_shows_what_the_next_one_did() -> None:
    async with scene_with_records() as scene:
        await request(scene)
        former = scene.broker
        await scene.start()
        await carry_out(scene)
        former.erasing.begin()  # it does not know yet that it is not the owner
        await asyncio.gather(*former.erasing._tasks.values())
        assert (await the_only(former)).state is ErasureState.DONE


async def test_records_at_offsets_are_erased_and_no_others_and_again_nothing() -> None:
    async with scene_with_records() as scene:
        gone = {1, 4, 5, 6, 20, 37}
        topic = await scene.broker.topic(TOPIC)
        ranges = ((4, 6), (1, 1), (5, 5), (20, 20), (37, 90))
        asked = await scene.broker.erasing.request(topic, (), ranges)
        assert asked.offsets == ((1, 1), (4, 6), (20, 20), (37, 90))
        await carry_out(scene)
        assert await scene.read() == without(scene.published, gone)
        proofs = await scene.broker.erasing.proofs(TOPIC, 1)
        assert sum(each.erased for each in proofs) == len(gone)
        generation = scene.log.list.generation
        await scene.broker.erasing.request(topic, (), ranges)
        await carry_out(scene)
        assert scene.log.list.generation == generation, "nothing was rewritten"
        assert not await scene.broker.erasing.proofs(TOPIC, 2)


@pytest.mark.parametrize("removed", ["some", "all"])
async def test_what_is_restored_after_an_erasure_is_erased_too(removed: str) -> None:
    async with scene_with_records() as scene:
        gone = of_k1(scene)
        await scene.tier()
        if removed == "all":
            await scene.log.begin()
        oldest = scene.log.refs[:2] if removed == "some" else scene.log.refs
        await scene.log.removal.trim(oldest, keep_us=3_600_000_000)
        await request(scene)
        await carry_out(scene)
        assert scene.log.list.repeated == (1,)
        await scene.start()
        await scene.log.removal.restore()
        assert scene.log.list.erasures == (1,)
        again = await request(scene)
        assert (again.id, again.state) == (1, ErasureState.WAITING), "it is carried out again"
        await scene.publish([(1, False)])
        assert (await request(scene)).id == 2, "the first one is too old for this record"
        await carry_out(scene)
        assert await scene.read() == without(scene.published, of_k1(scene))
        proofs = await scene.broker.erasing.proofs(TOPIC, 1)
        assert sum(each.erased for each in proofs) == len(gone)


async def test_requests_are_bounded_repeated_ones_are_one_and_ended_ones_are_forgotten() -> None:
    async with scene_with_records() as scene:
        assert (await request(scene)).id == (await request(scene)).id == 1
        for number in range(2, MOST_OPEN + 1):
            assert (await request(scene, key_digest(b"%d" % number))).id == number
        with pytest.raises(Refused, match="16 erasures under way"):
            await request(scene, key_digest(b"one more"))
        topic = await scene.broker.topic(TOPIC)
        assert (await scene.broker.erasing.cancel(topic, 3)).state is ErasureState.CANCELLED
        with pytest.raises(Refused, match="it is cancelled"):
            await scene.broker.erasing.cancel(topic, 3)
        with pytest.raises(NotFound, match="no erasure 99"):
            await scene.broker.erasing.cancel(topic, 99)
        await carry_out(scene)
        for number in range(3):
            await request(scene, key_digest(b"later %d" % number))
            await carry_out(scene)
        known = await erasures.get_all(scene.world.metadata, TOPIC)
        assert [each.id for each in known] == list(range(3, 20))
        await scene.broker.deletion.delete(TOPIC)
        assert not await erasures.get_all(scene.world.metadata, TOPIC)


async def test_an_erasure_that_is_cancelled_meanwhile_ends_between_two_objects() -> None:
    async with scene_with_records() as scene:
        await request(scene)
        topic = await scene.broker.topic(TOPIC)
        proofs = scene.broker.erasing.proofs

        async def cancel(now: str, what: str) -> None:
            if now == "after put" and not is_notice(what) and parse_key(what).generation:
                with suppress(Refused):
                    await scene.broker.erasing.cancel(topic, 1)

        scene.world.objects.hook = cancel
        await carry_out(scene)
        assert (await the_only(scene.broker)).state is ErasureState.CANCELLED
        [one] = await proofs(TOPIC, 1)
        there = {each.offset for each in await scene.read() if each.key == b"k1"}
        assert of_k1(scene) - there == {
            offset for offset in of_k1(scene) if one.first_offset <= offset <= one.last_offset
        }


async def test_a_rewrite_of_objects_is_remembered_for_the_next_owner() -> None:
    async with scene_with_records() as scene:
        await scene.log.commit(lambda before: replace(before, rewrite=True))
        assert await requests.topics(scene.world.metadata) == [TOPIC]
        await scene.start()
        await scene.broker.merging.merge(scene.log)  # it has no schema: there is nothing to do
        assert not scene.log.list.rewrite
        assert not await requests.topics(scene.world.metadata)
