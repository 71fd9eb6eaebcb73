"""The schema registry: subjects with versions, in the metadata store, the same on every broker.

Every answer is read from the store; only parsed definitions are cached, by content. Every change
is one transaction that swaps the subject's record against the revision it was based on, so brokers
that change a subject concurrently never assign a number twice, check against the same versions,
and retry when another one was faster. A write with an unknown outcome is read back; registering is
idempotent, so repeating it is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker_containers.schemas.compatibility import JsonRules, reasons_against
from broker_containers.schemas.errors import Incompatible, InvalidSchema
from broker_containers.schemas.format import Format
from broker_containers.schemas.formats import Formats, type_of
from broker_containers.schemas.protobuf import ProtoCompiler
from broker_containers.schemas.steps import compare_steps, run_bounded
from broker_containers.schemas.topics import TopicSchemas
from broker_containers.schemas.values import Registered, Remarks, Schema
from sulina.errors import NotFound, Overloaded, Refused, UnknownOutcome
from sulina.metadata.keys import record, schemas
from sulina.metadata.keys.schemas import (
    Compatibility,
    IdRecord,
    NextId,
    SchemaType,
    SubjectRecord,
    VersionRecord,
    VersionRef,
)
from sulina.metadata.store import (
    Compare,
    Delete,
    DeletePrefix,
    Get,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
)
from sulina.names import check_label
from sulina.runtime.protoc import Protoc
from sulina.runtime.seam import Clock, RunBlocking, run_inline
from sulina.runtime.threads import ThreadRunner

MAX_VERSIONS: Final = 500
"""Maximum number of versions of a subject at one time."""
_TRIES: Final = 16


class SchemaRegistry:
    """Can be used by any number of tasks, and of brokers on the same store."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        compiler: ProtoCompiler | None = None,
        run_blocking: RunBlocking = run_inline,
    ) -> None:
        """``compiler`` compiles .proto text; without it only descriptors are accepted.

        ``run_blocking`` does work that takes a while, up to seconds for the largest schemas. Its
        steps are bounded, and it ends early if the caller is cancelled.
        """
        self.clock = clock
        self._store = store
        self.run_blocking = run_blocking
        self._formats = Formats(compiler, run_blocking)
        self.before_new_subject: Callable[[], str | None] = lambda: None
        """Called before a subject is created; what it raises prevents that. Returns the creator."""
        self.json_rules: Callable[[], JsonRules] = lambda: JsonRules.EXACT
        """How versions of a JSON Schema are compared, at present."""
        self.topics = TopicSchemas(store)
        """Bindings of topics to subjects."""

    # ---- changes ----

    async def register(
        self, subject: str, kind: str, definition: bytes, remarks: Remarks | None = None
    ) -> Registered:
        """Add a version, or find an equal one. Durable when this returns.

        Raises ``InvalidSchema``, ``Incompatible`` with all reasons, ``TooLarge``, and
        ``Overloaded`` if the subject keeps changing.
        """
        _check_subject(subject)
        schema_type = type_of(kind)
        understood = await self._formats.understand(schema_type, definition)
        version = _version(schema_type, definition, understood, remarks or Remarks())
        maybe = 0
        for _ in range(_TRIES):
            item = await self._store.get(schemas.subject_key(subject))
            current = None if item is None else record.decode(SubjectRecord, item)
            same = _same(current, version)
            if current is not None and same is not None:
                new = same.number == maybe
                return Registered(current.id, same.number, same.fingerprint, new)
            if understood.unchecked:
                raise InvalidSchema(_unusable(understood))
            creator = None
            if current is None:
                creator = self.before_new_subject()
            else:
                await self._check(subject, current, understood, schema_type)
            number = 1 if current is None else current.next_version
            stamped = replace(version, number=number, created_us=self.clock.wall_us())
            try:
                made = await self._add(subject, item, current, stamped, creator)
            except UnknownOutcome:
                maybe = number  # it may be stored; the next try finds out
                continue
            if made is not None:
                return Registered(made, number, version.fingerprint, new=True)
        raise _contended(subject)

    async def _add(
        self,
        subject: str,
        item: KeyValue | None,
        current: SubjectRecord | None,
        version: VersionRecord,
        creator: str | None,
    ) -> int | None:
        """Write a version; returns the subject's id, or None if another broker was faster."""
        key = schemas.subject_key(subject)
        ref = VersionRef(version.number, version.type, version.fingerprint)
        compares: list[Compare] = [ModRevisionIs(key, 0 if item is None else item.mod_revision)]
        ops: list[Op] = [Put(schemas.version_key(subject, version.number), record.encode(version))]
        if current is None:
            counter = await self._store.get(schemas.NEXT_ID)
            number = 1 if counter is None else record.decode(NextId, counter).next
            revision = 0 if counter is None else counter.mod_revision
            compares.append(ModRevisionIs(schemas.NEXT_ID, revision))
            ops.append(Put(schemas.NEXT_ID, record.encode(NextId(number + 1))))
            changed = SubjectRecord(
                number,
                2,
                (ref,),
                tags=version.tags,
                created_us=version.created_us,
                created_by=creator,
            )
        else:
            if len(current.versions) >= MAX_VERSIONS:
                raise Refused(
                    f"the subject {subject!r} has {MAX_VERSIONS} versions: delete old ones first"
                )
            changed = replace(
                current,
                next_version=version.number + 1,
                versions=(*current.versions, ref),
                tags=version.tags,
            )
        ops += _written(subject, changed)
        return changed.id if (await self._store.txn(compares, ops)).succeeded else None

    async def set_compatibility(self, subject: str, mode: Compatibility) -> None:
        """Set the compatibility mode for new versions. Raises ``NotFound``."""
        for _ in range(_TRIES):
            item = await self._store.get(schemas.subject_key(subject))
            current = schemas.read_subject(item, subject)
            assert item is not None
            changed = record.encode(replace(current, compatibility=mode))
            swap = ModRevisionIs(item.key, item.mod_revision)
            if (await self._store.txn([swap], [Put(item.key, changed)])).succeeded:
                return
        raise _contended(subject)

    async def delete_version(self, subject: str, number: int) -> None:
        """Delete a version; its number is not reused. Deleting the last one deletes the subject.

        Messages that name the version stay, but it can no longer be looked up.
        Raises ``NotFound``; ``Refused`` for the last version while topics are bound to the subject.
        """
        for _ in range(_TRIES):
            item = await self._store.get(schemas.subject_key(subject))
            current = schemas.read_subject(item, subject)
            left = tuple(ref for ref in current.versions if ref.number != number)
            if len(left) == len(current.versions):
                raise _no_version(subject, number)
            if not left:
                await self.delete_subject(subject, only=number)
                return
            tags = current.tags
            if left[-1] != current.latest:
                latest = await schemas.list_versions(self._store, subject, left[-1:])
                tags = latest[0].tags if latest else ()
            assert item is not None
            changed = replace(current, versions=left, tags=tags)
            result = await self._store.txn(
                [ModRevisionIs(item.key, item.mod_revision)],
                [*_written(subject, changed), Delete(schemas.version_key(subject, number))],
            )
            if result.succeeded:
                return
        raise _contended(subject)

    async def delete_subject(self, subject: str, *, only: int | None = None) -> None:
        """Delete a subject with all its versions; its id is not reused.

        With ``only`` it must have exactly this version. Raises ``NotFound``; ``Refused`` while
        topics are bound to it.
        """
        for _ in range(_TRIES):
            item = await self._store.get(schemas.subject_key(subject))
            current = schemas.read_subject(item, subject)
            if only is not None and [ref.number for ref in current.versions] != [only]:
                raise Overloaded(f"the subject {subject!r} is being changed: try again")
            bound = await self.topics.bound_to(subject)
            if bound:
                raise Refused(
                    f"{bound[0]}{f' and {len(bound) - 1} more topics' if bound[1:] else ''} "
                    f"would be left without a schema: first bind it to another subject than "
                    f"{subject!r}, or delete the topic"
                )
            assert item is not None
            # Binding a topic changes the subject's revision, so none can be missed.
            result = await self._store.txn(
                [ModRevisionIs(item.key, item.mod_revision)],
                [DeletePrefix(schemas.subject_root(subject)), Delete(schemas.id_key(current.id))],
            )
            if result.succeeded:
                return
        raise _contended(subject)

    # ---- queries ----

    async def check(
        self, subject: str, kind: str, definition: bytes, mode: Compatibility | None = None
    ) -> list[str]:
        """Why a schema could not be registered; empty if it could. Changes nothing.

        ``mode`` defaults to the subject's own. Raises ``InvalidSchema`` and ``NotFound``.
        """
        schema_type = type_of(kind)
        understood = await self._formats.understand(schema_type, definition)
        current = await self.subject(subject)
        if understood.unchecked:
            return [_unusable(understood)]
        return await self._reasons(
            subject, current, understood, schema_type, mode or current.compatibility
        )

    async def find(self, subject: str, kind: str, definition: bytes) -> Registered:
        """The version that equals a definition. Raises ``NotFound``, ``InvalidSchema``."""
        schema_type = type_of(kind)
        understood = await self._formats.understand(schema_type, definition)
        current = await self.subject(subject)
        same = _same(current, _version(schema_type, definition, understood, Remarks()))
        if same is None:
            raise NotFound(f"the subject {subject!r} has no such version: register it")
        return Registered(current.id, same.number, same.fingerprint, new=False)

    async def subject(self, subject: str) -> SubjectRecord:
        """A subject. Raises ``NotFound``."""
        item = await self._store.get(schemas.subject_key(subject))
        return schemas.read_subject(item, subject)

    async def subjects(self) -> dict[str, SubjectRecord]:
        """All subjects, sorted by name."""
        return await schemas.list_subjects(self._store)

    async def versions(self, subject: str) -> list[Schema]:
        """All versions of a subject, by number. Raises ``NotFound``."""
        current = await self.subject(subject)
        found = await schemas.list_versions(self._store, subject, current.versions)
        return [Schema(current.id, subject, current.compatibility, each) for each in found]

    async def get(self, schema_id: int, number: int | None = None) -> Schema:
        """A version by its subject's id; by default the latest. Raises ``NotFound``."""
        return await self.version(await schemas.subject_of(self._store, schema_id), number)

    async def version(self, subject: str, number: int | None = None) -> Schema:
        """A version of a subject; by default the latest. Raises ``NotFound``."""
        for _ in range(_TRIES):
            current = await self.subject(subject)
            wanted = current.latest.number if number is None else number
            result = await self._store.txn(
                (),
                [Get(schemas.subject_key(subject)), Get(schemas.version_key(subject, wanted))],
            )
            current = schemas.read_subject(result.responses[0].item, subject)
            item = result.responses[1].item
            if item is not None:
                found = record.decode(VersionRecord, item)
                return Schema(current.id, subject, current.compatibility, found)
            if number is not None:
                raise _no_version(subject, number)
        raise _contended(subject)

    async def format_of(self, found: VersionRecord) -> Format:
        """A parsed stored version. Raises ``InvalidSchema`` if a library is missing."""
        return await self._formats.understand(
            found.type, found.definition_bytes, found.compiled_bytes
        )

    async def _check(
        self, subject: str, current: SubjectRecord, new: Format, kind: SchemaType
    ) -> None:
        mode = current.compatibility
        reasons = await self._reasons(subject, current, new, kind, mode)
        if reasons:
            raise Incompatible(subject, mode.value, reasons)

    async def _reasons(
        self,
        subject: str,
        current: SubjectRecord,
        new: Format,
        kind: SchemaType,
        mode: Compatibility,
    ) -> list[str]:
        if mode is Compatibility.NONE:
            return []
        refs = current.versions if mode.transitive else current.versions[-1:]
        found = await schemas.list_versions(self._store, subject, refs)
        versions = [(each.number, each.type, await self.format_of(each)) for each in found]
        return await run_bounded(
            self.run_blocking,
            compare_steps(len(versions)),
            lambda: reasons_against(new, kind, versions, mode, self.json_rules()),
        )


def _version(
    kind: SchemaType, definition: bytes, understood: Format, remarks: Remarks
) -> VersionRecord:
    compiled = understood.compiled
    return VersionRecord(
        0,
        kind,
        understood.fingerprint,
        schemas.to_text(definition),
        None if compiled is None else schemas.to_text(compiled),
        remarks.description,
        remarks.created_by,
        tags=remarks.tags,
    )


def _written(subject: str, changed: SubjectRecord) -> list[Op]:
    """A subject's record, and the part that every broker keeps in memory."""
    numbers = tuple(ref.number for ref in changed.versions)
    names = IdRecord(subject, numbers, changed.created_by)
    return [
        Put(schemas.subject_key(subject), record.encode(changed)),
        Put(schemas.id_key(changed.id), record.encode(names)),
    ]


def _same(current: SubjectRecord | None, version: VersionRecord) -> VersionRef | None:
    """The newest version that is the same schema."""
    for ref in reversed(() if current is None else current.versions):
        if ref.type is version.type and ref.fingerprint == version.fingerprint:
            return ref
    return None


def _check_subject(subject: str) -> None:
    try:
        check_label("schema subject", subject)
    except Refused as error:
        raise InvalidSchema(str(error)) from None


def _unusable(understood: Format) -> str:
    return (
        f"{understood.unchecked[0]}: brokers run patterns on RE2, which has neither lookaround nor "
        "backreferences and repeats at most 1,000 times; write the pattern differently"
    )


def _no_version(subject: str, number: int) -> NotFound:
    return NotFound(f"the subject {subject!r} has no version {number}")


def _contended(subject: str) -> Overloaded:
    return Overloaded(f"the subject {subject!r} keeps changing: try again later")


def open_registry(store: MetadataStore, clock: Clock) -> SchemaRegistry:
    """A registry with protoc and a worker thread. Needs no closing; one store may have several."""
    return SchemaRegistry(store, clock, Protoc(clock).compile, ThreadRunner())
