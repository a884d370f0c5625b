"""The topics in a member's metadata, as far as the consumer protocol's first version tells."""

from struct import Struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def read_subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return the topics of a ConsumerProtocolSubscription, or None if it is not one.

    Every version begins with what version 0 has (a version, topics, user data), so nothing else is
    looked at. The bytes come from a client and go from client to client; they need not be valid.
    """
    try:
        return _read(metadata)
    except (IndexError, UnicodeDecodeError):
        return None


def _read(metadata: bytes) -> list[str]:
    size = len(metadata)
    position = 2
    count, position = _int32(metadata, position)
    if count < 0 or count > (size - position) // 2:
        raise IndexError
    topics = []
    for _ in range(count):
        if position + 2 > size:
            raise IndexError
        (length,) = _INT16.unpack_from(metadata, position)
        position += 2
        if length < 0 or position + length > size:
            raise IndexError
        topics.append(metadata[position : position + length].decode())
        position += length
    user_data_length, position = _int32(metadata, position)
    if user_data_length > size - position:
        raise IndexError
    return topics


def _int32(data: bytes, position: int) -> tuple[int, int]:
    if position + 4 > len(data):
        raise IndexError
    return _INT32.unpack_from(data, position)[0], position + 4
