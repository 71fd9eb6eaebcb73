"""Protobuf schemas: .proto text, or a compiled ``FileDescriptorSet``.

The schema is the first message of the file (of the last file in a set). A payload is that message
in Protobuf's binary encoding. Text is compiled once, when it is registered; the descriptors are
stored with it, so that other brokers need no compiler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.schemas import protobuf_comparison
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.format import MAX_DEFINITION, fingerprint_of, lacking
from sulina.errors import Refused, TooLarge

ProtoCompiler = Callable[[bytes], Awaitable[bytes]]
"""Compiles .proto text to a ``FileDescriptorSet`` with its imports; raises ``Refused``."""


async def descriptors_of(definition: bytes, compiler: ProtoCompiler | None) -> bytes:
    """The ``FileDescriptorSet`` of a definition. Raises ``InvalidSchema``.

    Waits for the compiler if the definition is text.
    """
    if not definition:
        raise InvalidSchema("the Protobuf schema is empty: send .proto text or descriptors")
    if _is_text(definition):
        if compiler is None:
            raise lacking("grpcio-tools", ".proto text (it accepts compiled descriptors)")
        try:
            return await compiler(definition)
        except Refused as error:
            raise InvalidSchema(str(error)) from None
    return definition


def _is_text(definition: bytes) -> bool:
    # Descriptors start with the tag and length of their first file, .proto text with a word.
    try:
        text = definition.decode()
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter.isspace() for letter in text) and "{" in text


class Protobuf:
    """A message type. Two are the same if their descriptors are, comments aside."""

    unchecked = ()

    def __init__(self, descriptors: bytes) -> None:
        """Raises ``InvalidSchema``."""
        files = _files(descriptors)
        self.compiled = files.SerializeToString(deterministic=True)
        if len(self.compiled) > MAX_DEFINITION:
            raise TooLarge(
                f"a compiled schema may have at most {MAX_DEFINITION} bytes, this one has "
                f"{len(self.compiled)}"
            )
        self.fingerprint = fingerprint_of(self.compiled)
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file)
            last = pool.FindFileByName(files.file[-1].name)
            self.message = last.message_types_by_name[files.file[-1].message_type[0].name]
            self._class = GetMessageClass(self.message)
        except Exception as error:  # the pool raises several types
            raise InvalidSchema(f"the Protobuf descriptors are invalid: {_short(error)}") from None

    def unreadable(self, writer: Protobuf) -> list[str]:
        return protobuf_comparison.unreadable(writer.message, self.message)

    def check(self, payload: bytes) -> None:
        self.read(payload)

    def read(self, payload: bytes) -> Message:
        """The message. Raises ``InvalidPayload``."""
        message = self._class()
        try:
            message.ParseFromString(payload)
            return message
        except DecodeError as error:
            raise InvalidPayload(
                f"the payload is not a {self.message.full_name} of Protobuf: {_short(error)}"
            ) from None


def _files(descriptors: bytes) -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
    except DecodeError:
        raise InvalidSchema(
            "the Protobuf schema is neither .proto text nor a FileDescriptorSet as written by "
            "protoc with --include_imports --descriptor_set_out"
        ) from None
    if not files.file or not files.file[-1].message_type:
        raise InvalidSchema("the Protobuf schema has no message: add the message that is sent")
    for file in files.file:
        file.ClearField("source_code_info")
    return files


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
