"""Whom brokers hold back or have refused: what `/why` asks, and the links made of it."""

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.access_words import word_of
from kafkaesque.admin.api.why_links import NAMES_MAX, UNKNOWN, Link


class ThrottledClient(msgspec.Struct, frozen=True, array_like=True):
    """A connection that a quota holds back at the moment."""

    host: str
    client_id: str
    user: str
    #: The topic or queue that it last published to, as far as that is known.
    published_to: str


class RefusedClient(msgspec.Struct, frozen=True, array_like=True):
    """Somebody was refused something, and would be again."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str
    at_ms: int
    because: str


class WhyClientsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What was needed: operation, type and name of the resource."""

    needs: list[tuple[int, int, str]]


class WhyClientsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those of one broker, or of all."""

    throttled: list[ThrottledClient]
    refused: list[RefusedClient]


def writer_links(clients: WhyClientsAnswer, name: str) -> Iterator[Link]:
    """Say who may have been kept from publishing to a topic or queue.

    None of it is certain: what is asked for may be somebody else's.
    """
    throttled = [each for each in clients.throttled if each.published_to == name]
    if throttled:
        who = ", ".join(f"{each.client_id or each.user} at {each.host}" for each in throttled)
        yield Link(
            name="quota",
            state=UNKNOWN,
            what=f"a quota holds back {throttled[0].client_id or throttled[0].user}, which "
            f"publishes to {name}: what it sends comes later",
            evidence=[f"held back: {who}"],
            command="kafkaesque config --help    (producer_byte_rate, request_percentage)",
        )
    yield from refused_links(clients.refused)


def refused_links(refused: Sequence[RefusedClient]) -> Iterator[Link]:
    """Say who was refused it of late; that it is the one that is waited for is not known."""
    newest = sorted(refused, key=lambda each: -each.at_ms)[:NAMES_MAX]
    if not newest:
        return
    first = newest[0]
    doing = word_of(Operation(first.operation))
    kind = word_of(ResourceType(first.resource_type))
    yield Link(
        name="denied",
        state=UNKNOWN,
        what=f"{first.principal} may not {doing} the {kind} {first.name}, and has tried",
        evidence=[f"{each.principal} at {each.host}: {each.because}" for each in newest],
        since=first.at_ms,
        command=f"kafkaesque rule create {shlex.quote(first.principal)} -o {doing} --help",
    )
