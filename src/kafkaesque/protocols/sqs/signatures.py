"""Checks of signatures, version 4, as Amazon has published the algorithm.

A signature covers the method, the path, the query, the headers that it names, and a digest of the
body. It is made with a key that is derived from the secret for one day, region and service. It
stands in the header `Authorization`, or in the query of a URL that was signed beforehand.
"""

import calendar
import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_plus

from kafkaesque.protocols.sqs.calls import HttpRequest, split_target
from kafkaesque.protocols.sqs.errors import SqsError

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "sqs"
TERMINATOR: Final = "aws4_request"
#: A signature's time and ours may be so far apart.
SKEW_MS_MAX: Final = 15 * 60 * 1000
#: A URL can be signed beforehand for so long.
EXPIRES_SECONDS_MAX: Final = 7 * 24 * 3600

#: Headers that say what is asked for: whoever brings one has signed it.
OWN_HEADERS: Final = "x-amz-"
#: The time is in what is signed, wherever it stands; and the body's digest is made anew.
_SIGNED_OTHERWISE: Final = frozenset({"x-amz-date", "x-amz-content-sha256"})

_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")
_PART: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_SPACES: Final = re.compile(r" +")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a request says of who has signed it, and when."""

    access_key_id: str
    #: Day, region, service and terminator, as the key was derived for them.
    day: str
    region: str
    #: As it was sent: `20261125T182511Z`.
    time: str
    signed_headers: tuple[str, ...]
    signature: str
    #: Of a URL that was signed beforehand: for how long it is valid.
    expires_seconds: int | None = None


def read_signature(request: HttpRequest) -> Signature | None:
    """Return what a request is signed by; None if it is not signed.

    Raises:
        SqsError: it is signed in another way, or by half.
    """
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return _read_header(authorization, request)
    fields = dict(_query_fields(request.target))
    if "X-Amz-Signature" in fields or "X-Amz-Credential" in fields:
        return _read_query(fields)
    return None


def _read_header(authorization: str, request: HttpRequest) -> Signature:
    algorithm, _, rest = authorization.partition(" ")
    found = [_PART.fullmatch(each) for each in rest.split(",")]
    parts = {each[1]: each[2] for each in found if each is not None}
    if algorithm != ALGORITHM or len(parts) != 3 or len(found) != 3:
        raise _incomplete(f"Authorization has {ALGORITHM}, Credential, SignedHeaders and Signature")
    sent = request.headers.get("x-amz-date", "")
    return _make(parts["Credential"], sent, parts["SignedHeaders"], parts["Signature"], None)


def _read_query(fields: dict[str, str]) -> Signature:
    expires = fields.get("X-Amz-Expires", "")
    if fields.get("X-Amz-Algorithm") != ALGORITHM or not re.fullmatch(r"\d{1,6}", expires):
        raise _incomplete(f"a signed query has X-Amz-Algorithm={ALGORITHM} and X-Amz-Expires")
    if int(expires) > EXPIRES_SECONDS_MAX:
        raise _incomplete(f"X-Amz-Expires is at most {EXPIRES_SECONDS_MAX}")
    return _make(
        fields.get("X-Amz-Credential", ""),
        fields.get("X-Amz-Date", ""),
        fields.get("X-Amz-SignedHeaders", ""),
        fields.get("X-Amz-Signature", ""),
        int(expires),
    )


def _make(
    credential: str, sent: str, signed_headers: str, signature: str, expires: int | None
) -> Signature:
    # The id of a key may have slashes; the scope has four parts.
    access_key_id, day, region, service, terminator = [*credential.rsplit("/", 4), *[""] * 4][:5]
    if service != SERVICE or terminator != TERMINATOR or not access_key_id or not region:
        raise _incomplete(f"Credential is KEY/DAY/REGION/{SERVICE}/{TERMINATOR}")
    if not _TIME.fullmatch(sent) or sent[:8] != day:
        raise _incomplete("X-Amz-Date is a time such as 20261125T182511Z, of the credential's day")
    names = tuple(signed_headers.split(";"))
    if "host" not in names or any(not each or each != each.lower() for each in names):
        raise _incomplete("SignedHeaders are names in small letters, and host among them")
    return Signature(
        access_key_id=access_key_id,
        day=day,
        region=region,
        time=sent,
        signed_headers=names,
        signature=signature,
        expires_seconds=expires,
    )


def check_time(signature: Signature, now_ms: int) -> None:
    """Refuse what was signed long ago, or will be.

    Raises:
        SqsError: it is too old, or of the future.
    """
    parts = _TIME.fullmatch(signature.time)
    try:
        signed_ms = calendar.timegm(tuple(map(int, parts.groups()))) * 1000 if parts else 0
    except ValueError:
        raise _incomplete("X-Amz-Date is no time") from None
    valid_ms = SKEW_MS_MAX
    if signature.expires_seconds is not None:
        valid_ms = signature.expires_seconds * 1000
    if now_ms > signed_ms + valid_ms:
        raise SqsError("RequestExpired", f"Signature expired: it was made at {signature.time}.")
    if now_ms < signed_ms - SKEW_MS_MAX:
        raise SqsError("RequestExpired", f"Signature not yet current: {signature.time}.")


def is_signed_by(signature: Signature, secret: bytes, request: HttpRequest) -> bool:
    """Tell whether somebody who knows the secret has signed this very request.

    What the service goes by is signed as well: a request with `X-Amz-Target` that is not could be
    made another one by whoever has seen it.
    """
    missing = [name for name in signature.signed_headers if name not in request.headers]
    own = {name for name in request.headers if name.startswith(OWN_HEADERS)}
    if missing or own - {*signature.signed_headers, *_SIGNED_OTHERWISE}:
        return False
    scope = f"{signature.day}/{signature.region}/{SERVICE}/{TERMINATOR}"
    canonical = _canonical(signature, request)
    digest = hashlib.sha256(canonical).hexdigest()
    signed = f"{ALGORITHM}\n{signature.time}\n{scope}\n{digest}".encode()
    key = b"AWS4" + secret
    for part in (signature.day, signature.region, SERVICE, TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    wanted = hmac.digest(key, signed, "sha256").hex()
    return hmac.compare_digest(wanted.encode(), signature.signature.encode())


def _canonical(signature: Signature, request: HttpRequest) -> bytes:
    """Return the request in the one form in which it is signed."""
    path, _ = split_target(request.target)
    fields = [
        (_encoded(name), _encoded(value))
        for name, value in _query_fields(request.target)
        if name != "X-Amz-Signature" or signature.expires_seconds is None
    ]
    headers = [
        f"{name}:{_SPACES.sub(' ', request.headers[name].strip())}\n"
        for name in sorted(signature.signed_headers)
    ]
    lines = [
        request.method,
        quote(path or "/", safe="/~"),
        "&".join(f"{name}={value}" for name, value in sorted(fields)),
        "".join(headers),
        ";".join(sorted(signature.signed_headers)),
        hashlib.sha256(request.body).hexdigest(),
    ]
    return "\n".join(lines).encode()


def _query_fields(target: str) -> Iterable[tuple[str, str]]:
    for each in split_target(target)[1].split("&"):
        if each:
            name, _, value = each.partition("=")
            yield unquote_plus(name), unquote_plus(value)


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


def _incomplete(why: str) -> SqsError:
    return SqsError("IncompleteSignature", f"The signature is incomplete: {why}.")
