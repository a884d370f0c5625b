"""Rules as they are written down: values that are replicated, exported, and tried before use.

    {"when": "properties.type = 'order'", "failures": "unconverted", "steps": [
        {"do": "rename", "at": "$.customer", "to": "$.customer_id"},
        {"do": "cast", "at": "$.total", "to": "number"},
        {"do": "template", "at": "headers.topic", "text": "orders.{headers.region}"},
        {"do": "split", "at": "headers.name", "by": " ", "into": ["$.first", "$.last"]},
        {"do": "drop", "at": "headers.internal"},
        {"do": "set", "at": "$.version", "value": 2}]}

Places are written as in selectors: `headers.NAME` (or just the name), `properties.NAME`, and paths
into the body.
"""

from enum import Enum
from typing import Annotated

import msgspec

from kafkaesque.routing.transformations.errors import BadRule

#: Of 64 bits: a rule is replicated, and brokers write no longer numbers to each other.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Step(msgspec.Struct, frozen=True, tag_field="do", kw_only=True, forbid_unknown_fields=True):
    """Base of all steps."""

    at: str


class Rename(Step, tag="rename", frozen=True, kw_only=True):
    """What is at one place is moved to another; if there is nothing, nothing changes."""

    to: str


class Kind(Enum):
    """What a value can be cast to."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    TRUTH = "truth"


class Cast(Step, tag="cast", frozen=True, kw_only=True):
    """What is there becomes a value of this kind; if there is nothing, nothing changes."""

    to: Kind


class Template(Step, tag="template", frozen=True, kw_only=True):
    """A text is put there, in which `{place}` stands for what is at a place.

    `{{` and `}}` are braces. A place with nothing gives no text.
    """

    text: str


class Drop(Step, tag="drop", frozen=True, kw_only=True):
    """What is there goes."""


class Split(Step, tag="split", frozen=True, kw_only=True):
    """A text is cut at each separator, and the pieces are put into places.

    The last place gets all that is left; places without a piece stay as they are.
    """

    by: str
    into: tuple[str, ...]


class Set(Step, tag="set", frozen=True, kw_only=True):
    """A constant is put there."""

    value: bool | Whole | float | str | None


AnyStep = Rename | Cast | Template | Drop | Split | Set


class Rule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Steps that are done one after the other."""

    #: A selector: other messages stay as they are. None: it is for all.
    when: str | None = None
    #: The queue that has messages with which a step cannot be done; empty: they go on as they are.
    failures: str = ""
    steps: tuple[AnyStep, ...]


_decoder = msgspec.json.Decoder(Rule)
_encoder = msgspec.json.Encoder()


def read_rule(text: bytes) -> Rule:
    """Return the rule that is written in JSON.

    Raises:
        BadRule: it is none.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadRule(f"the rule cannot be read: {error}") from None


def write_rule(rule: Rule) -> bytes:
    """Return a rule in JSON."""
    return _encoder.encode(rule)
