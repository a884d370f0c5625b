"""The messages of SCRAM: read, checked and written (RFC 5802, section 7)."""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.model.errors import RequestRefused

#: Longest message of a client; a name of 1,000 characters fits, escaped or not.
MESSAGE_BYTES_MAX: Final = 8 * 1024
#: A client's nonce, in characters.
NONCE_LENGTH_MAX: Final = 512
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z]+=[^\0]*")
#: Kafka's sign that the name is a delegation token's id (KIP-48).
TOKEN_EXTENSION: Final = "tokenauth=true"


class ScramMessageRefused(RequestRefused):
    """Not a message of SCRAM, or one that asks for what is not offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """The client's first message."""

    #: What the client's last message has to repeat, in base64.
    gs2_header: str
    #: The message without that header.
    bare: str
    name: str
    nonce: str
    is_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    """The client's last message."""

    channel_binding: bytes
    nonce: str
    proof: bytes = field(repr=False)
    without_proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    """The server's first message."""

    nonce: str
    salt: bytes
    iterations: int

    def write(self) -> str:
        """Return the message."""
        return f"r={self.nonce},s={write_base64(self.salt)},i={self.iterations}"


def read_client_first(data: bytes) -> ClientFirst:
    """Return the client's first message.

    Raises:
        ScramMessageRefused: malformed; wants channel binding; wants to act as somebody else; or has
            an extension that must not be ignored.
    """
    text = _read_text(data)
    parts = text.split(",")
    if len(parts) < 4:
        raise ScramMessageRefused("the first message has fewer than four parts")
    flag, authzid, *bare = parts
    if flag.startswith("p="):
        raise ScramMessageRefused("channel binding is not offered")
    # `y`: the client would bind, and believes that we do not; it is right.
    if flag not in ("n", "y"):
        raise ScramMessageRefused("the first message begins with no flag of GS2")
    # A mandatory extension (`m=`) would stand where the name has to.
    name = read_saslname(_value(bare[0], "n"))
    nonce = _value(bare[1], "r")
    if not _NONCE.fullmatch(nonce) or len(nonce) > NONCE_LENGTH_MAX:
        raise ScramMessageRefused("not a nonce")
    if authzid and read_saslname(_value(authzid, "a")) != name:
        raise ScramMessageRefused("acting as another user is not supported")
    if not all(_ATTRIBUTE.fullmatch(each) for each in bare[2:]):
        raise ScramMessageRefused("an extension has no name")
    return ClientFirst(
        gs2_header=f"{flag},{authzid},",
        bare=",".join(bare),
        name=name,
        nonce=nonce,
        is_token=TOKEN_EXTENSION in bare[2:],
    )


def read_client_final(data: bytes) -> ClientFinal:
    """Return the client's last message.

    Raises:
        ScramMessageRefused: malformed.
    """
    text = _read_text(data)
    without_proof, comma, last = text.rpartition(",")
    parts = without_proof.split(",")
    if not comma or len(parts) < 2:
        raise ScramMessageRefused("the last message has fewer than three parts")
    return ClientFinal(
        channel_binding=read_base64(_value(parts[0], "c")),
        nonce=_value(parts[1], "r"),
        proof=read_base64(_value(last, "p")),
        without_proof=without_proof,
    )


def read_server_first(data: bytes) -> ServerFirst:
    """Return the server's first message, for a client.

    Raises:
        ScramMessageRefused: malformed.
    """
    parts = _read_text(data).split(",")
    if len(parts) < 3:
        raise ScramMessageRefused("the server's first message has fewer than three parts")
    iterations = _value(parts[2], "i")
    if not iterations.isascii() or not iterations.isdecimal() or len(iterations) > 9:
        raise ScramMessageRefused("not a number of iterations")
    return ServerFirst(
        nonce=_value(parts[0], "r"),
        salt=read_base64(_value(parts[1], "s")),
        iterations=int(iterations),
    )


def read_server_final(data: bytes) -> bytes:
    """Return the server's signature, for a client.

    Raises:
        ScramMessageRefused: malformed, or the server has refused.
    """
    text = _read_text(data)
    if text.startswith("e="):
        raise ScramMessageRefused(f"the server has refused: {text[2:]}")
    return read_base64(_value(text.split(",")[0], "v"))


def read_saslname(text: str) -> str:
    """Return the name that is written with `=2C` for a comma and `=3D` for an equals sign.

    Raises:
        ScramMessageRefused: empty, or with another escape.
    """
    if not text:
        raise ScramMessageRefused("the name is empty")
    if text.count("=") != text.count("=2C") + text.count("=3D"):
        raise ScramMessageRefused("the name has an escape that there is not")
    return text.replace("=2C", ",").replace("=3D", "=")


def write_saslname(name: str) -> str:
    """Return a name with its commas and equals signs escaped."""
    return name.replace("=", "=3D").replace(",", "=2C")


def write_base64(data: bytes) -> str:
    """Return the bytes in base64."""
    return base64.b64encode(data).decode()


def read_base64(text: str) -> bytes:
    """Return the bytes.

    Raises:
        ScramMessageRefused: not base64, as it is written with padding.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramMessageRefused("not base64") from None


def _read_text(data: bytes) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ScramMessageRefused(f"a message of {len(data)} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ScramMessageRefused("not UTF-8") from None
    if "\0" in text:
        raise ScramMessageRefused("a NUL in the message")
    return text


def _value(part: str, name: str) -> str:
    if not part.startswith(f"{name}="):
        raise ScramMessageRefused(f"where {name}= has to stand is something else")
    return part[2:]
