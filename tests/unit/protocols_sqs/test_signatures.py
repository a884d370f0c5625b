"""Signatures of version 4: what botocore signs is believed, and nothing else."""

import string
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.sqs.calls import HttpRequest
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.signatures import (
    SKEW_MS_MAX,
    Signature,
    check_time,
    is_signed_by,
    read_signature,
)

KEY, SECRET = "KFQEXAMPLE", "a-secret/of+many=signs"
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TOKEN = st.text(string.ascii_letters + string.digits + "-_.~", min_size=1, max_size=8)
#: What a header may have; signing trims it and folds its spaces.
VALUE = st.text(string.ascii_letters + string.digits + ' ;:,"/=', max_size=20)


def signed(
    *,
    method: str = "POST",
    path: str = "/",
    fields: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
    expires: int = 0,
    secret: str = SECRET,
) -> HttpRequest:
    """A request as botocore signs it."""
    request = AWSRequest(
        method=method,
        url=f"http://localhost:9324{path}",
        params=fields or {},
        headers=headers or {},
        data=body,
    )
    credentials = Credentials(KEY, secret)
    if expires:
        SigV4QueryAuth(credentials, "sqs", "eu-west-1", expires=expires).add_auth(request)
    else:
        SigV4Auth(credentials, "sqs", "eu-west-1").add_auth(request)
    prepared = request.prepare()
    parts = urlsplit(prepared.url)
    return HttpRequest(
        method=method,
        target=parts.path + (f"?{parts.query}" if parts.query else ""),
        headers={
            "host": parts.netloc,
            **{
                name.lower(): (value.decode() if isinstance(value, bytes) else value).strip()
                for name, value in prepared.headers.items()
            },
        },
        body=body,
    )


def signature_of(request: HttpRequest) -> Signature:
    found = read_signature(request)
    assert found is not None
    return found


def is_believed(request: HttpRequest, secret: str = SECRET) -> bool:
    return is_signed_by(signature_of(request), secret.encode(), request)


@given(
    path=st.lists(TOKEN.filter(lambda part: part.strip(".") != ""), max_size=3).map(
        lambda parts: "/" + "/".join(parts)
    ),
    fields=st.dictionaries(TEXT.filter(bool), TEXT, max_size=4),
    headers=st.dictionaries(TOKEN.map(lambda name: f"x-{name}"), VALUE, max_size=4),
    body=st.binary(max_size=64),
    method=st.sampled_from(["GET", "POST"]),
)
def test_what_botocore_signs_is_believed(
    path: str, fields: dict[str, str], headers: dict[str, str], body: bytes, method: str
) -> None:
    request = signed(path=path, fields=fields, headers=headers, body=body, method=method)
    assert is_believed(request)
    assert not is_believed(request, "another secret")


@given(fields=st.dictionaries(TEXT.filter(bool), TEXT, max_size=4))
def test_a_url_that_was_signed_beforehand_is_believed(fields: dict[str, str]) -> None:
    request = signed(method="GET", fields={"Action": "ListQueues", **fields}, body=b"", expires=60)
    assert is_believed(request)
    assert not is_believed(replace(request, target=request.target + "&Action=DeleteQueue"))


@pytest.mark.parametrize(
    "altered",
    [
        {"method": "GET"},
        {"target": "/000000000000/others"},
        {"target": "/?Action=DeleteQueue"},
        {"body": b'{"QueueUrl": "another"}'},
    ],
    ids=["method", "path", "query", "body"],
)
def test_what_was_altered_is_not_believed(altered: dict[str, object]) -> None:
    request = signed()
    assert is_believed(request)
    assert not is_believed(replace(request, **altered))  # type: ignore[arg-type]


def test_a_signed_header_that_was_altered_or_removed_is_not_believed() -> None:
    request = signed(headers={"x-amz-target": "AmazonSQS.ListQueues"})
    other = {**request.headers, "x-amz-target": "AmazonSQS.DeleteQueue"}
    assert not is_believed(replace(request, headers=other))
    without = {name: value for name, value in request.headers.items() if name != "x-amz-target"}
    assert not is_believed(replace(request, headers=without))


def test_no_signature_is_none() -> None:
    assert read_signature(replace(signed(), headers={"host": "localhost"})) is None


@pytest.mark.parametrize(
    "change",
    [
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
        ("SignedHeaders=", "Headers="),
        ("/sqs/", "/s3/"),
        ("/aws4_request", "/aws5_request"),
        ("host;", ""),
        ("Credential=KFQEXAMPLE", "Credential="),
        (", Signature=", ", Signature=a, Signature="),
    ],
    ids=lambda change: change[0],
)
def test_half_a_signature_is_refused(change: tuple[str, str]) -> None:
    request = signed()
    authorization = request.headers["authorization"]
    assert change[0] in authorization
    altered = {**request.headers, "authorization": authorization.replace(*change, 1)}
    with pytest.raises(SqsError) as caught:
        read_signature(replace(request, headers=altered))
    assert caught.value.code == "IncompleteSignature"


@pytest.mark.parametrize("date", ["", "yesterday", "20261325T000000Z", "19990101T000000Z"])
def test_a_time_that_is_none_or_of_another_day_is_refused(date: str) -> None:
    request = signed()
    with pytest.raises(SqsError):
        read_signature(replace(request, headers={**request.headers, "x-amz-date": date}))


def test_a_signature_is_of_its_time() -> None:
    at = replace(signature_of(signed()), time="20261125T182511Z", day="20261125")
    signed_ms = 1_795_631_111_000
    for offset_ms in (-SKEW_MS_MAX, 0, SKEW_MS_MAX):
        check_time(at, signed_ms + offset_ms)
    for offset_ms in (-SKEW_MS_MAX - 1, SKEW_MS_MAX + 1):
        with pytest.raises(SqsError) as caught:
            check_time(at, signed_ms + offset_ms)
        assert caught.value.code == "RequestExpired"
    beforehand = replace(at, expires_seconds=3600)
    check_time(beforehand, signed_ms + 3_600_000)
    with pytest.raises(SqsError):
        check_time(beforehand, signed_ms + 3_600_001)
    with pytest.raises(SqsError):
        check_time(replace(at, time="20261325T182511Z"), signed_ms)


def test_what_says_what_is_asked_for_is_signed_as_well() -> None:
    """Whoever has seen a request could have another one made of it, with the same signature."""
    request = signed()
    assert is_believed(request)
    for name in ("x-amz-target", "x-amz-security-token", "x-amz-anything"):
        more = replace(request, headers={**request.headers, name: "AmazonSQS.PurgeQueue"})
        assert not is_believed(more), name
        again = signed(headers={name: "AmazonSQS.SendMessage"})
        assert is_believed(again), name
    url = signed(method="GET", fields={"Action": "ListQueues"}, body=b"", expires=60)
    assert is_believed(url)
    more = replace(url, headers={**url.headers, "x-amz-target": "AmazonSQS.PurgeQueue"})
    assert not is_believed(more)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Action=ListQueues", "Action=ListQueues&Action=PurgeQueue"),
        ("Action=ListQueues", "Action=PurgeQueue"),
        ("X-Amz-Expires=60", "X-Amz-Expires=600000"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Expires=600000"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Date=20300101T000000Z"),
        ("/?", "/other?"),
    ],
)
def test_a_url_is_believed_as_it_was_signed(old: str, new: str) -> None:
    url = signed(method="GET", fields={"Action": "ListQueues"}, body=b"", expires=60)
    assert is_believed(url)
    altered = replace(url, target=url.target.replace(old, new, 1))
    assert altered != url
    try:
        believed = is_believed(altered)
    except SqsError:
        believed = False
    assert not believed
