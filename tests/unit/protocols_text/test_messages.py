"""Messages as people write them and as they are shown to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.messages import TextMessage, read_message, write_message

payloads = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
    st.sampled_from(
        [
            b"",
            b"null",
            b"true",
            b"0",
            b"-1.50e3",
            b"1e999",
            b'{"a":1,"a":2}',
            b'{"a": 1}',
            b"[1,2]",
            b'"text"',
            b'{"a":"\\ud800"}',
            b'1,"x":2',
            b"1}",
            b"tru",
            b"[" * 2000 + b"]" * 2000,
            b'{"Body":"x"}',
        ]
    ),
)
messages = st.builds(
    TextMessage,
    headers=st.lists(st.tuples(st.text(max_size=5), payloads), max_size=4).map(tuple),
    key=payloads,
    value=payloads,
)


@given(message=messages)
def test_what_is_shown_can_be_published_again_and_is_the_same(message: TextMessage) -> None:
    line = write_message(message)
    assert b"\n" not in line
    assert b"\r" not in line
    assert read_message(line.decode()) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("UA1545 is late", b"UA1545 is late"),
        ("42", b"42"),
        ('"quoted"', b'"quoted"'),
        ("[1, 2]", b"[1, 2]"),
        ('{"delay": 11}', b'{"delay": 11}'),
        ('{"Body": 1, "Subject": 2}', b'{"Body": 1, "Subject": 2}'),
        ('{"Body": "never closed}', b'{"Body": "never closed}'),
        ("{}", b"{}"),
        ("null", b"null"),
        ('{"Body": "half a character: \\ud800"}', b'{"Body": "half a character: \\ud800"}'),
        ('{"body": "small"}', b'{"body": "small"}'),
        ("{" * 100_000, b"{" * 100_000),
        ('{"Body": ' + "[" * 100_000, b'{"Body": ' + b"[" * 100_000),
    ],
)
def test_any_other_text_is_the_body_as_it_stands(text: str, value: bytes) -> None:
    assert read_message(text) == TextMessage(value=value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"Body": "late"}', TextMessage(value=b"late")),
        ('{"Body": "\\u00e9\\n"}', TextMessage(value="é\n".encode())),
        ('{"Body": {"a" : [1.10, 2]} }', TextMessage(value=b'{"a":[1.10,2]}')),
        ('{"Body": 12345678901234567890123}', TextMessage(value=b"12345678901234567890123")),
        ('{"Body": false}', TextMessage(value=b"false")),
        ('{"Body": null, "Key": "k"}', TextMessage(key=b"k", value=None)),
        ('{"Body": "", "Key": ""}', TextMessage(key=b"", value=b"")),
        ('{"Key": 1545, "Body": "x"}', TextMessage(key=b"1545", value=b"x")),
        ('{"Key": null, "Body": "x"}', TextMessage(value=b"x")),
        ('{"KeyBase64": "/w==", "BodyBase64": "AP8="}', TextMessage(key=b"\xff", value=b"\0\xff")),
        (
            '{"Header": {"a": "x", "b": null, "c": 1, "d": {"e": 2}}, "Body": "x"}',
            TextMessage(
                headers=(("a", b"x"), ("b", None), ("c", b"1"), ("d", b'{"e":2}')), value=b"x"
            ),
        ),
        (
            '{"Header": [["a", "x"], ["a", {"Base64": "/w=="}]], "Body": "x"}',
            TextMessage(headers=(("a", b"x"), ("a", b"\xff")), value=b"x"),
        ),
        ('{"Header": null, "Body": "x"}', TextMessage(value=b"x")),
    ],
)
def test_messages_are_read(text: str, expected: TextMessage) -> None:
    assert read_message(text) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"Key": "k"}', 'no "Body"'),
        ('{"Key": {"a": 1}, "Body": "x"}', '"Key" must be a string or a number'),
        ('{"Key": [1], "Body": "x"}', '"Key" must be a string or a number'),
        ('{"Key": true, "Body": "x"}', '"Key" must be a string or a number'),
        ('{"Header": 5, "Body": "x"}', '"Header" must be an object'),
        ('{"Header": "x", "Body": "x"}', '"Header" must be an object'),
        ('{"Header": [1], "Body": "x"}', '"Header" must be an object'),
        ('{"Body": "x", "BodyBase64": "eA=="}', "not both"),
        ('{"Key": "x", "KeyBase64": "eA==", "Body": ""}', "not both"),
        ('{"BodyBase64": "###"}', "is not base64"),
        ('{"BodyBase64": 5}', "is not base64"),
        ('{"BodyBase64": "\\u00e9"}', "is not base64"),
        ('{"Header": {"h": {"Base64": "#"}}, "Body": "x"}', "is not base64"),
    ],
)
def test_messages_that_cannot_be(text: str, what: str) -> None:
    with pytest.raises(BadCommand) as caught:
        read_message(text)
    assert what in caught.value.what
    assert caught.value.example.startswith("PUBS ")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (TextMessage(value=b"late"), '{"Body":"late"}'),
        (TextMessage(value=None), '{"Body":null}'),
        (TextMessage(value=b"\xff"), '{"BodyBase64":"/w=="}'),
        (TextMessage(key=b"\xff", value=b"7"), '{"KeyBase64":"/w==","Body":7}'),
        (TextMessage(key=b"7", value=b'{"a":1}'), '{"Key":"7","Body":{"a":1}}'),
        (TextMessage(value=b'{"a": 1}'), '{"Body":"{\\"a\\": 1}"}'),
        (TextMessage(headers=(("a", b"1"),), value=b""), '{"Header":{"a":"1"},"Body":""}'),
        (
            TextMessage(headers=(("a", b"1"), ("a", b"\xff")), value=b""),
            '{"Header":[["a","1"],["a",{"Base64":"/w=="}]],"Body":""}',
        ),
    ],
)
def test_messages_are_shown(message: TextMessage, line: str) -> None:
    assert write_message(message).decode() == line
