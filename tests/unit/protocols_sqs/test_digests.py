"""Digests: by values that others have published, and by the description of the algorithm."""

import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.sqs.digests import digest_of_attributes, digest_of_body
from kafkaesque.protocols.sqs.service import MessageAttributeValue

VALUES = st.one_of(
    st.builds(
        lambda text: MessageAttributeValue(data_type="String", string_value=text),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
    ),
    st.builds(
        lambda raw: MessageAttributeValue(data_type="Binary.x", binary_value=raw),
        st.binary(min_size=1, max_size=5),
    ),
)


def _measured(part: bytes) -> bytes:
    return struct.pack(">I", len(part)) + part


def test_published_digests() -> None:
    assert digest_of_body("hello") == "5d41402abc4b2a76b9719d911017c592"
    number = MessageAttributeValue(data_type="Number", string_value="1493147359900")
    assert digest_of_attributes({"timestamp": number}) == "235c5c510d26fb653d073faed50ae77c"
    assert digest_of_attributes({}) is None


@given(attributes=st.dictionaries(st.text("abcXYZ09_-.", min_size=1, max_size=4), VALUES))
def test_a_digest_is_of_names_types_and_values_in_order(
    attributes: dict[str, MessageAttributeValue],
) -> None:
    parts = []
    for name in sorted(attributes):
        value = attributes[name]
        text = value.string_value
        raw = text.encode() if text is not None else value.binary_value or b""
        parts += [_measured(name.encode()), _measured(value.data_type.encode())]
        parts.append((b"\x01" if text is not None else b"\x02") + _measured(raw))
    wanted = hashlib.md5(b"".join(parts)).hexdigest() if attributes else None
    assert digest_of_attributes(attributes) == wanted
