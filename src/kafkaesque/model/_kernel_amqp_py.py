"""AMQP's hot path in pure Python: frames of publishes and acknowledgements that came as a whole.

`_kernel.pyx` has the same functions. Whatever is not a whole and plain one is left to the codec
(`kafkaesque.protocols.amqp`), which reads frame by frame and says what is wrong.
"""

from struct import Struct

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, 0xCE
#: Head of a frame, and its end.
_HEAD_BYTES, _OVERHEAD_BYTES = 7, 8
_BASIC = 60
_PUBLISH_ID = 0x003C0028
_ACK_ID = 0x003C0050
_HEAD = Struct(">BHI")
_METHOD_HEAD = Struct(">BHII")
#: Head of a frame; class, weight, size of the body.
_HEADER_HEAD = Struct(">BHIHHQ")
_CONTENT_HEAD_BYTES = 12
_ACK_FRAME = Struct(">BHIIQBB")
_ACK_PAYLOAD_BYTES = 13
#: Method with empty names, header without properties, body of one byte.
_WHOLE_BYTES_MIN = 9 + 14 + 1 + 3 * _OVERHEAD_BYTES

_Publish = tuple[int, int, bytes, bytes, bytes]


def cut_publishes(
    data: bytes, at: int, frame_bytes_max: int, body_bytes_max: int, /
) -> tuple[int, int, bytes, bytes, list[bytes]] | None:
    """Return what begins at a place: messages that say the same, and differ in their bodies.

    That is the end, the channel, the payload of the method (which is not looked into), raw
    properties, and bodies, each of which has come in one frame. None: no such message begins there.
    """
    found = _cut_publish(data, at, frame_bytes_max, body_bytes_max)
    if found is None:
        return None
    end, channel, method, properties, body = found
    bodies = [body]
    while (found := _cut_publish(data, end, frame_bytes_max, body_bytes_max)) is not None:
        if found[1:4] != (channel, method, properties):
            break
        end = found[0]
        bodies.append(found[4])
    return end, channel, method, properties, bodies


def _cut_publish(
    data: bytes, at: int, frame_bytes_max: int, body_bytes_max: int
) -> _Publish | None:
    if len(data) - at < _WHOLE_BYTES_MIN:
        return None
    kind, channel, size, ids = _METHOD_HEAD.unpack_from(data, at)
    header_at = at + _OVERHEAD_BYTES + size
    if kind != _METHOD or ids != _PUBLISH_ID or len(data) - header_at < _HEADER_HEAD.size:
        return None
    kind, header_channel, header_size, class_id, _, body_size = _HEADER_HEAD.unpack_from(
        data, header_at
    )
    body_at = header_at + _OVERHEAD_BYTES + header_size
    end = body_at + _OVERHEAD_BYTES + body_size
    payload_max = frame_bytes_max - _OVERHEAD_BYTES
    if (
        kind != _HEADER
        or header_channel != channel
        or class_id != _BASIC
        or header_size < _CONTENT_HEAD_BYTES + 2
        or not 0 < body_size <= min(payload_max, body_bytes_max)
        or max(size, header_size) > payload_max
        or end > len(data)
        or _HEAD.unpack_from(data, body_at) != (_BODY, channel, body_size)
        or not data[header_at - 1] == data[body_at - 1] == data[end - 1] == _END
    ):
        return None
    return (
        end,
        channel,
        data[at + _HEAD_BYTES : header_at - 1],
        data[header_at + _HEAD_BYTES + _CONTENT_HEAD_BYTES : body_at - 1],
        data[body_at + _HEAD_BYTES : end - 1],
    )


def cut_acks(data: bytes, at: int, /) -> tuple[int, int, int, int, bool] | None:
    """Return end, channel, first and last tag, and `multiple` of acknowledgements at a place.

    Those of single messages are one result if their tags follow one another. None: none begins
    there.
    """
    found = _cut_ack(data, at)
    if found is None:
        return None
    end, channel, first, multiple = found
    last = first
    while not multiple and (found := _cut_ack(data, end)) is not None:
        if found[1:] != (channel, last + 1, False):
            break
        end, last = found[0], last + 1
    return end, channel, first, last, multiple


def _cut_ack(data: bytes, at: int) -> tuple[int, int, int, bool] | None:
    if len(data) - at < _ACK_FRAME.size:
        return None
    kind, channel, size, ids, tag, flags, end = _ACK_FRAME.unpack_from(data, at)
    if ids != _ACK_ID or kind != _METHOD or size != _ACK_PAYLOAD_BYTES or end != _END:
        return None
    return at + _ACK_FRAME.size, channel, tag, flags & 1 != 0
