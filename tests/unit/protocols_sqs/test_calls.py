"""Requests and answers of both protocols: what is written is read, and bad input is told why."""

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.sqs import service as s
from kafkaesque.protocols.sqs.calls import (
    FORM_TYPE,
    PARAMETERS_MAX,
    HttpRequest,
    read_call,
    write_answer,
    write_error,
)
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.query import NAMESPACE, write_result
from kafkaesque.protocols.sqs.service import ERRORS, FIELDS, OPERATIONS
from kafkaesque.protocols.sqs.shapes import Field, Kind, Shape

TEXT = st.text(
    st.characters(codec="utf-8", min_codepoint=0x20, exclude_characters="\x7f\x85\ufffe\uffff"),
    max_size=12,
)


def asked(
    operation: str, body: bytes, *, as_json: bool = True, target: str = "/", method: str = "POST"
) -> HttpRequest:
    headers = {"x-amz-target": f"AmazonSQS.{operation}"} if as_json else {"content-type": FORM_TYPE}
    return HttpRequest(method=method, target=target, headers=headers, body=body)


# -- values of every structure, and parameters that say the same


def values_of(name: str) -> st.SearchStrategy[dict[str, object]]:
    """Structures as JSON has them; members that need not be there are there or not."""
    return st.fixed_dictionaries(
        {each.name: _values(each) for each in FIELDS[name]},
    )


def _scalars(kind: Kind) -> st.SearchStrategy[object]:
    match kind:
        case Kind.NUMBER:
            return st.integers(-(2**31), 2**31)
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.BLOB:
            return st.sampled_from(["", "AP8=", "aGVsbG8="])
        case _:
            return TEXT


def _values(field: Field) -> st.SearchStrategy[object]:
    inner = values_of(field.struct) if field.struct else _scalars(field.inner)
    if field.kind is Kind.LIST:
        return st.lists(inner, min_size=1, max_size=3)
    if field.kind is Kind.MAP:
        return st.dictionaries(TEXT, inner, min_size=1, max_size=3)
    return _scalars(field.kind)


def parameters_of(name: str, value: dict[str, object], prefix: str = "") -> dict[str, str]:
    """The same in the words of a query."""
    found: dict[str, str] = {}
    for field in FIELDS[name]:
        at = value[field.name]
        wire = f"{prefix}{field.wire}"
        if field.kind is Kind.LIST:
            assert isinstance(at, list)
            for number, each in enumerate(at, start=1):
                found |= _parameter(field, each, f"{wire}.{number}")
        elif field.kind is Kind.MAP:
            assert isinstance(at, dict)
            for number, (key, each) in enumerate(at.items(), start=1):
                found[f"{wire}.{number}.{field.key}"] = key
                found |= _parameter(field, each, f"{wire}.{number}.{field.value}")
        else:
            found[wire] = _word(at)
    return found


def _parameter(field: Field, value: object, wire: str) -> dict[str, str]:
    if isinstance(value, dict):
        return parameters_of(field.struct, value, f"{wire}.")
    return {wire: _word(value)}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data())
def test_both_protocols_ask_the_same(name: str, data: st.DataObject) -> None:
    request = OPERATIONS[name].request
    value = data.draw(values_of(request.__name__))
    operation, by_json = read_call(asked(name, json.dumps(value).encode()))
    assert operation.name == name
    assert msgspec.json.decode(msgspec.json.encode(by_json), type=request) == by_json
    said = {"Action": name, "Version": "2012-11-05", **parameters_of(request.__name__, value)}
    body = urlencode(said).encode()
    assert read_call(asked(name, body, as_json=False))[1] == by_json
    target = f"/?{urlencode(said)}"
    by_get = asked(name, b"", as_json=False, target=target, method="GET")
    assert read_call(by_get)[1] == by_json


# -- answers


def read_xml(name: str, element: ElementTree.Element) -> dict[str, object]:
    """What an element says, as JSON has it."""
    found: dict[str, object] = {}
    for field in FIELDS[name]:
        those = element.findall(f"{{{NAMESPACE}}}{field.wire}")
        if field.kind is Kind.LIST:
            found[field.name] = [_read_xml(field, each) for each in those]
        elif field.kind is Kind.MAP:
            found[field.name] = {_text(each[0]): _read_xml(field, each[1]) for each in those}
        elif those:
            found[field.name] = _text(those[0])
    return found


def _read_xml(field: Field, element: ElementTree.Element) -> object:
    return read_xml(field.struct, element) if field.struct else _text(element)


def _text(element: ElementTree.Element) -> str:
    return element.text or ""


@pytest.mark.parametrize("name", [name for name, each in OPERATIONS.items() if each.result])
@given(data=st.data())
def test_an_answer_as_xml_says_what_it_says_as_json(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    value = data.draw(values_of(operation.result.__name__))
    result: Shape = msgspec.convert(value, operation.result)
    as_json = write_answer(operation, result, "id", as_json=True)
    assert msgspec.json.decode(as_json.body, type=operation.result) == result
    root = ElementTree.fromstring(write_result(name, result, "id"))
    found = read_xml(operation.result.__name__, root[0])
    assert msgspec.convert(found, operation.result, strict=False) == result


def test_an_answer_without_a_result() -> None:
    operation = OPERATIONS["DeleteMessage"]
    assert write_answer(operation, None, "id", as_json=True).body == b"{}"
    body = write_answer(operation, None, "id", as_json=False).body
    assert b"<DeleteMessageResponse" in body
    assert b"<RequestId>id</RequestId>" in body


def test_xml_keeps_a_carriage_return_and_shows_what_it_cannot_have() -> None:
    result = s.ReceiveMessageResult(messages=(s.Message(body="a\r\nb\x00<&>"),))
    root = ElementTree.fromstring(write_result("ReceiveMessage", result, "id"))
    (body,) = root.iter(f"{{{NAMESPACE}}}Body")
    assert body.text == "a\r\nb\ufffd<&>"


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_its_names(name: str) -> None:
    error = SqsError(name, "why <not>")
    code, status = ERRORS[name]
    as_json = write_error(error, "id", as_json=True)
    said = json.loads(as_json.body)
    assert (said["__type"], said["message"]) == (f"com.amazonaws.sqs#{name}", "why <not>")
    assert as_json.headers["x-amzn-query-error"] == f"{code};Sender"
    assert as_json.status == 400
    as_xml = write_error(error, "id", as_json=False)
    root = ElementTree.fromstring(as_xml.body)
    assert root.findtext(f".//{{{NAMESPACE}}}Code") == code
    assert root.findtext(f".//{{{NAMESPACE}}}Message") == "why <not>"
    assert as_xml.status == status


def test_a_failure_of_ours_is_not_the_senders() -> None:
    error = SqsError("ServiceUnavailable", "later")
    assert error.json_status == error.query_status == 503
    assert write_error(error, "id", as_json=True).headers["x-amzn-query-error"].endswith("Receiver")


# -- bad input


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("SendMessage", b"", "MissingParameter"),
        ("SendMessage", b"{", "SerializationException"),
        ("SendMessage", b"\xff", "SerializationException"),
        ("SendMessage", b'{"QueueUrl": "u", "MessageBody": "\\uD83d"}', "InvalidMessageContents"),
        ("SendMessage", b'{"QueueUrl": "u", "MessageBody": "\\udc00x"}', "InvalidMessageContents"),
        ("SendMessage", b'{"QueueUrl": "u", "MessageBody": "\\uD83d', "SerializationException"),
        ("SendMessage", b"[]", "InvalidParameterValue"),
        ("SendMessage", b'{"QueueUrl": 5, "MessageBody": "x"}', "InvalidParameterValue"),
        ("SendMessage", b'{"QueueUrl": "u"}', "MissingParameter"),
        (
            "SendMessage",
            b'{"QueueUrl": "u", "MessageBody": "x", "MessageAttributes": '
            b'{"a": {"DataType": "Binary", "BinaryValue": "not base64!"}}}',
            "InvalidParameterValue",
        ),
        ("SendMessages", b"{}", "InvalidAction"),
        ("", b"{}", "InvalidAction"),
    ],
)
def test_json_that_is_none_is_refused(operation: str, body: bytes, code: str) -> None:
    with pytest.raises(SqsError) as caught:
        read_call(asked(operation, body))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "MissingAction"),
        ("Action=Nothing", "InvalidAction"),
        ("Action=SendMessage&QueueUrl=u", "MissingParameter"),
        ("Action=SendMessage&QueueUrl=u&MessageBody=%ff", "MalformedQueryString"),
        ("Action=SendMessage&QueueUrl=u&MessageBody.x=1&MessageBody=x", "MalformedQueryString"),
        ("Action=SendMessage&QueueUrl=u&MessageBody=x&MessageBody.x=1", "MalformedQueryString"),
        ("Action=SendMessage&QueueUrl=u&MessageBody.x=1", "InvalidParameterValue"),
        ("Action=SendMessage&QueueUrl=u&MessageBody=x&DelaySeconds=soon", "InvalidParameterValue"),
        ("Action=TagQueue&QueueUrl=u&Tag.1.Key=a", "MissingParameter"),
        ("Action=TagQueue&QueueUrl=u&Tag.x.Key=a&Tag.x.Value=b", "InvalidParameterValue"),
        ("Action=UntagQueue&QueueUrl=u&TagKey.1.x=1", "InvalidParameterValue"),
        ("&".join(f"a{n}=1" for n in range(PARAMETERS_MAX + 1)), "MalformedQueryString"),
        (
            "Action=UntagQueue&QueueUrl=u&" + "&".join(f"TagKey.{n}=x" for n in range(101)),
            "InvalidParameterValue",
        ),
    ],
)
def test_a_query_that_is_none_is_refused(body: str, code: str) -> None:
    with pytest.raises(SqsError) as caught:
        read_call(asked("", body.encode(), as_json=False))
    assert caught.value.code == code


def test_other_methods_and_types_are_refused() -> None:
    for request in (
        asked("ListQueues", b"{}", method="PUT"),
        asked("", b"Action=ListQueues", as_json=False, method="DELETE"),
        HttpRequest(method="POST", target="/", headers={"content-type": "text/xml"}, body=b"<x/>"),
    ):
        with pytest.raises(SqsError):
            read_call(request)


def test_a_query_to_a_queues_url_is_for_that_queue() -> None:
    body = b"Action=SendMessage&MessageBody=hello"
    _, found = read_call(asked("", body, as_json=False, target="/000000000000/orders"))
    assert isinstance(found, s.SendMessageRequest)
    assert found.queue_url == "/000000000000/orders"


def test_one_element_may_come_without_a_number() -> None:
    body = b"Action=GetQueueAttributes&QueueUrl=u&AttributeName=All"
    _, found = read_call(asked("", body, as_json=False))
    assert isinstance(found, s.GetQueueAttributesRequest)
    assert found.attribute_names == ("All",)


@given(body=st.binary(max_size=64), as_json=st.booleans())
def test_whatever_comes_is_read_or_refused(body: bytes, as_json: bool) -> None:
    for name in ("SendMessageBatch", "CreateQueue"):
        request = asked(name, body, as_json=as_json)
        with contextlib.suppress(SqsError):
            read_call(request)
