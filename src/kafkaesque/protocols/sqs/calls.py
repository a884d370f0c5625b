"""What one HTTP request asks of SQS, in either protocol, and the answer to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from kafkaesque.protocols.sqs import query
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.service import OPERATIONS
from kafkaesque.protocols.sqs.shapes import Operation, Shape

TARGET_PREFIX: Final = "AmazonSQS."
JSON_TYPE: Final = "application/x-amz-json-1.0"
XML_TYPE: Final = "text/xml"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
#: Parameters of one query: ten entries of a batch with ten attributes each have 330 and more.
PARAMETERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as it came."""

    method: str
    #: Path and query, as they were sent.
    target: str
    #: By names in lower case; of those that come more than once, all, joined by commas.
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer that is to be sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def is_json(headers: Mapping[str, str]) -> bool:
    """Tell which protocol a request speaks; errors have to be told in the same one."""
    return "x-amz-target" in headers


def read_call(request: HttpRequest) -> tuple[Operation, Shape]:
    """Return the operation, and what it is asked.

    Raises:
        SqsError: there is no such operation, or a parameter is missing or not of its kind.
    """
    if is_json(request.headers):
        return _read_json(request)
    return _read_query(request)


def _read_json(request: HttpRequest) -> tuple[Operation, Shape]:
    target = request.headers["x-amz-target"]
    operation = OPERATIONS.get(target.removeprefix(TARGET_PREFIX))
    if operation is None or not target.startswith(TARGET_PREFIX):
        raise SqsError("InvalidAction", f"The operation {target} is not known.")
    if request.method != "POST":
        raise SqsError("InvalidAction", f"{request.method} is not understood: use POST.")
    try:
        return operation, msgspec.json.decode(request.body or b"{}", type=operation.request)
    except msgspec.ValidationError as error:
        raise query.fault_of(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _has_half(request.body):
            raise SqsError(
                "InvalidMessageContents",
                "Invalid characters found: a surrogate (#xD800 to #xDFFF) without its other half.",
            ) from None
        raise SqsError("SerializationException", f"The body is not JSON: {error}.") from None


def _has_half(body: bytes) -> bool:
    """Tell whether a body is JSON but for half of a character, which SDKs escape as any other.

    The decoder takes some of them for the body's end.
    """
    if b"\\ud" not in body.lower():
        return False
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def split_target(target: str) -> tuple[str, str]:
    """Return path and query of what is asked for.

    What begins with a slash is a path, also with two of them: no host stands there.

    Raises:
        SqsError: it is no target.
    """
    if target.startswith("/"):
        path, _, query_text = target.partition("?")
        return path, query_text
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise SqsError("MalformedQueryString", f"The target is malformed: {error}.") from None
    return parts.path, parts.query


def _read_query(request: HttpRequest) -> tuple[Operation, Shape]:
    path, query_text = split_target(request.target)
    fields = [query_text]
    if request.method == "POST":
        if not request.headers.get("content-type", FORM_TYPE).lower().startswith(FORM_TYPE):
            raise SqsError(
                "MissingAction", f"A request has X-Amz-Target, or a body of the type {FORM_TYPE}."
            )
        fields.append(request.body.decode("latin-1"))
    elif request.method != "GET":
        raise SqsError("InvalidAction", f"{request.method} is not understood: use POST.")
    try:
        parameters = {
            name: value
            for each in fields
            for name, value in parse_qsl(
                each, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict"
            )
        }
    except ValueError as error:
        raise SqsError("MalformedQueryString", f"The query is malformed: {error}.") from None
    name = parameters.get("Action")
    if name is None:
        raise SqsError("MissingAction", "The request must contain the parameter Action.")
    operation = OPERATIONS.get(name)
    if operation is None:
        raise SqsError("InvalidAction", f"The action {name} is not valid for this endpoint.")
    if path.strip("/"):
        # Clients of this protocol send to the queue's URL, and need not name it once more.
        parameters.setdefault("QueueUrl", path)
    return operation, query.read_request(operation.request, parameters)


def write_answer(
    operation: Operation, result: Shape | None, request_id: str, *, as_json: bool
) -> HttpAnswer:
    """Return the answer to an operation that was done."""
    if as_json:
        body = b"{}" if result is None else msgspec.json.encode(result)
        return _answer(200, JSON_TYPE, body, request_id)
    body = query.write_result(operation.name, result, request_id)
    return _answer(200, XML_TYPE, body, request_id)


def write_error(error: SqsError, request_id: str, *, as_json: bool) -> HttpAnswer:
    """Return the answer to what was not done."""
    if not as_json:
        body = query.write_error(error, request_id)
        return _answer(error.query_status, XML_TYPE, body, request_id)
    body = msgspec.json.encode({"__type": error.json_type, "message": error.message})
    fault = "Sender" if error.is_senders else "Receiver"
    more = {"x-amzn-query-error": f"{error.code};{fault}"}
    return _answer(error.json_status, JSON_TYPE, body, request_id, more)


def _answer(
    status: int,
    content_type: str,
    body: bytes,
    request_id: str,
    more: Mapping[str, str] | None = None,
) -> HttpAnswer:
    headers = {"Content-Type": content_type, "x-amzn-RequestId": request_id, **(more or {})}
    return HttpAnswer(status=status, headers=headers, body=body)
