"""Messages as people write them and as they are shown to them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import PUBLISH
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
    "text",
    ["UA1545 is late", "42", '"quoted"', "[1, 2]", "null", "a {", "(" * 100_000, "[" * 100_000],
)
def test_what_begins_with_no_brace_is_the_body_as_it_stands(text: str) -> None:
    assert read_message(text) == TextMessage(value=text.encode())


@pytest.mark.parametrize(
    ("text", "what", "example"),
    [
        ('{"Body": "unclosed', "is not JSON: it ends too early", PUBLISH),
        ('{"Body": 1,}', "is not JSON: trailing comma in object (byte 11)", PUBLISH),
        ('{"Body": 1} more', "is not JSON: trailing characters (byte 13)", PUBLISH),
        ('{"Body": "\\ud800"}', "is not JSON: half a character is escaped in it", PUBLISH),
        ('{"Body": ' + "[" * 100_000, "is not JSON: it is nested too deeply", PUBLISH),
        ("{" * 100_000, "is not JSON: object keys must be strings (byte 1)", PUBLISH),
        ("{a, b}", "is not JSON: object keys must", 'PUBS flights {"Body": "{a, b}"}'),
        ('{"a" b}', "is not JSON: ", 'PUBS flights {"Body": "{\\"a\\" b}"}'),
        ("{", "is not JSON: it ends too early", 'PUBS flights {"Body": "{"}'),
        ("{}", 'the message has no "Body"', 'PUBS flights {"Body": {}}'),
        ('{"Key": "UA1545"}', 'the message has no "Body"', PUBLISH),
        (
            '{"Body": 1, "Extra": 2}',
            'a message has Header, Key and Body, and no field "Extra"',
            'PUBS flights {"Body": {"Body": 1, "Extra": 2}}',
        ),
        (
            '{"delay": 11}',
            'a message has Header, Key and Body, and no field "delay"',
            'PUBS flights {"Body": {"delay": 11}}',
        ),
        ('{"body": "x"}', 'no field "body" (did you mean "Body"?)', PUBLISH),
        ('{"Body": 1, "header": {}}', '(did you mean "Header"?)', PUBLISH),
        (
            '{"\\n\\u001b[2J": 1}',
            'no field "\\n\\u001b[2J"',
            'PUBS flights {"Body": {"\\n\\u001b[2J": 1}}',
        ),
        ('{"%s": 1}' % ("n" * 999), '"' + "n" * 57 + '..."', PUBLISH),
    ],
    ids=lambda each: each[:30],
)
def test_what_begins_with_a_brace_is_a_message_or_an_error_that_says_what_to_write(
    text: str, what: str, example: str
) -> None:
    with pytest.raises(BadCommand) as caught:
        read_message(text, "flights")
    assert what in caught.value.what
    assert caught.value.example == example
    shown = caught.value.example.removeprefix("PUBS flights ")
    assert read_message(shown).value is not None


@pytest.mark.parametrize("text", ["{", "{a, b}", '{"a" b}', '{"Body": "unclosed'])
def test_a_plain_text_may_begin_with_a_brace(text: str) -> None:
    assert read_message(json.dumps({"Body": text})) == TextMessage(value=text.encode())


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
