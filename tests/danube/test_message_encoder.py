"""Messages put together from encoded fields are what protocol buffers would encode."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.client_numbers import producer_number
from broker_containers.doors.danube.message_encoder import MessageEncoder
from sulina.names import TopicName
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign, parse_header

_TOPIC = TopicName.parse("/default/orders")
_URL = "http://broker:6650"

_records = st.tuples(
    st.binary(max_size=300),
    st.none() | st.text(max_size=5),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


@given(
    records=st.lists(_records, min_size=1, max_size=4),
    sequence=st.integers(0, 1 << 62),
    base=st.integers(0, 1 << 62),
    time_us=st.integers(-5, 1 << 61),
    schema=st.sampled_from([(0, 0), (7, 3)]),
    numbered=st.booleans(),
)
def test_every_field_of_a_message_can_be_read(
    records: list[tuple[bytes, str | None, dict[str, str]]],
    sequence: int,
    base: int,
    time_us: int,
    schema: tuple[int, int],
    numbered: bool,
) -> None:
    frame = bytearray(
        encode_frame(
            Origin("a producer", *schema),
            sequence,
            [payload for payload, _, _ in records],
            time_us,
            keys=[None if key is None else key.encode() for _, key, _ in records],
            attributes=[attributes for _, _, attributes in records],
        )
    )
    assign(memoryview(frame), base, 1)
    encoder = MessageEncoder(_TOPIC, _URL, numbered=numbered)
    for _ in range(2):  # the second time from what the first one remembered
        found = list(encoder.messages_of(Frame(frame, parse_header(frame)), None))
        assert [offset for offset, _ in found] == [base + n for n in range(len(records))]
        for index, (record, (offset, data)) in enumerate(zip(records, found, strict=True)):
            expected = pb.StreamMessage(
                request_id=sequence + index,
                msg_id=pb.MsgID(
                    producer_id=producer_number(str(_TOPIC), "a producer"),
                    topic_name=str(_TOPIC),
                    broker_addr=_URL,
                    topic_offset=offset if numbered else 0,
                ),
                payload=record[0],
                publish_time=max(time_us, 0) // 1000,
                producer_name="a producer",
                attributes=record[2],
                routing_key=record[1],
            )
            if schema[0]:
                expected.schema_id, expected.schema_version = schema
            assert pb.StreamMessage.FromString(data) == expected
