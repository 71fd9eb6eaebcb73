"""Memory that was freed goes back to the system, once it has been free for a while."""

from __future__ import annotations

from sulina.runtime.freed_memory import FreedMemory, GlibcHeap

_MIB = 1 << 20


class SmallHeap:
    """A heap whose figures the test sets."""

    def __init__(self) -> None:
        self.freed = self.kept = 0
        self.trims = 0

    def free(self) -> int:
        return self.freed

    def resident(self) -> int:
        return 100 * _MIB + self.kept

    def trim(self) -> None:
        self.trims += 1
        self.kept = 0


async def _look(watch: FreedMemory, heap: SmallHeap, *free_mib: int) -> None:
    for each in free_mib:
        heap.freed = heap.kept = each * _MIB
        await watch.look()


async def test_memory_that_stays_free_is_returned_once() -> None:
    heap = SmallHeap()
    watch = FreedMemory(heap)
    await _look(watch, heap, 50, 50, 50)
    assert heap.trims == 0
    await _look(watch, heap, 50)
    assert heap.trims == 1
    for _ in range(20):  # it still counts as free, but is not in memory
        await watch.look()
    assert heap.trims == 1
    await _look(watch, heap, 60, 60, 60, 60)
    assert heap.trims == 2


async def test_memory_that_is_used_again_and_again_is_kept() -> None:
    heap = SmallHeap()
    await _look(FreedMemory(heap), heap, *(50, 50, 50, 1) * 5)
    assert heap.trims == 0


async def test_a_process_without_a_free_descriptor_looks_again_later() -> None:
    class Blind(SmallHeap):
        def resident(self) -> int:
            raise OSError("too many open files")

    await FreedMemory(Blind()).look()


async def test_the_memory_of_this_process_shrinks() -> None:
    heap = GlibcHeap()
    blocks = [bytearray(100_000) for _ in range(1_000)]
    used = heap.resident()
    blocks = blocks[::10]  # what stays lies between what is freed
    watch = FreedMemory(heap)
    for _ in range(4):
        await watch.look()
    assert heap.resident() < used - 50 * _MIB
    assert len(blocks) == 100
