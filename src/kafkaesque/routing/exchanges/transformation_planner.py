"""Decides what is asked for of transformations."""

from typing import Final

from kafkaesque.model import message_properties
from kafkaesque.model.errors import OverBound
from kafkaesque.model.message_headers import OF_GATEWAYS, PREFIX
from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.exchanges.errors import BadArgument, NoSuchQueue, TransformationInUse
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    TransformationPut,
    TransformationRemoved,
)
from kafkaesque.routing.exchanges.topology import Topology, Vhost
from kafkaesque.routing.selectors.selector import read_selector
from kafkaesque.routing.transformations.errors import BadRule
from kafkaesque.routing.transformations.places import Part
from kafkaesque.routing.transformations.rules import Rule, write_rule
from kafkaesque.routing.transformations.transformation import Transformation

#: Of one virtual host.
TRANSFORMATIONS_MAX: Final = 1_000
NAME_BYTES_MAX: Final = 255
RULE_BYTES_MAX: Final = 64 * 1024
#: Properties that a rule may change. By the others the message was routed, given its life and its
#: place in the queue, or its publisher was checked.
PROPERTIES: Final = (
    "app_id",
    "content_encoding",
    "content_type",
    "correlation_id",
    "message_id",
    "reply_to",
    "timestamp",
    "type",
)
#: Headers that are the other properties in messages that no client of AMQP has published.
_FIXED_HEADERS: Final = frozenset(
    each.header for each in message_properties.PROPERTIES if each.amqp not in PROPERTIES
)


def check_rule(rule: Rule) -> Transformation:
    """Return a rule, compiled.

    Raises:
        BadArgument: it cannot be used on messages.
    """
    try:
        text = write_rule(rule)
        made = Transformation(rule)
        _check_as_given_now(made)
    except (BadRule, UnicodeEncodeError) as error:
        raise BadArgument(f"the rule cannot be used: {error}") from None
    if len(text) > RULE_BYTES_MAX:
        raise BadArgument(f"a rule has at most {RULE_BYTES_MAX} bytes")
    if not rule.steps:
        raise BadArgument("a rule without a step changes nothing: give it steps")
    for place in made.written:
        if place.part is Part.PROPERTIES and place.name not in PROPERTIES:
            raise BadArgument(
                f"a rule does not change {place.text}; it may change {', '.join(PROPERTIES)}"
            )
        is_own = place.name.startswith(PREFIX) or place.name in OF_GATEWAYS
        if place.part is Part.HEADERS and is_own:
            raise BadArgument(f"a rule does not change {place.text}: brokers keep their own there")
        if place.part is Part.HEADERS and place.name in _FIXED_HEADERS:
            raise BadArgument(
                f"a rule does not change {place.text}: where another protocol than AMQP publishes,"
                " it is a property that rules do not change"
            )
    return made


def _check_as_given_now(made: Transformation) -> None:
    """Refuse what was taken before, and means nothing.

    Raises:
        BadRule: what `when` says is no condition, or a name needs quotes.
    """
    for place in made.places:
        if place.lacks_quotes:
            raise place.no_place()
    if made.rule.when is not None:
        try:
            read_selector(made.rule.when)
        except BadSelector as error:
            raise BadRule(f"when: {error}") from None


def put_transformation(topology: Topology, wanted: TransformationPut) -> list[AnyRoutingRecord]:
    """Return the record of a transformation that is new or changed; none if it is so already.

    Raises:
        NoSuchVhost: there is none of this name.
        NoSuchQueue: the queue for failures does not exist.
        BadArgument: its name or rule cannot be.
        OverBound: there are too many.
    """
    vhost = topology.vhost(wanted.vhost)
    _check_name(wanted.name)
    check_rule(wanted.rule)
    _check_failures(vhost, wanted.rule.failures)
    known = vhost.transformations.get(wanted.name)
    if known is not None and known.rule == wanted.rule:
        return []
    if known is None and len(vhost.transformations) >= TRANSFORMATIONS_MAX:
        raise OverBound(f"vhost '{vhost.name}' has {TRANSFORMATIONS_MAX} transformations already")
    return [wanted]


def remove_transformation(topology: Topology, vhost_name: str, name: str) -> list[AnyRoutingRecord]:
    """Return the record of a transformation's end; none if there is none of the name.

    Raises:
        NoSuchVhost: there is none of this name.
        TransformationInUse: a binding names it.
    """
    vhost = topology.vhost(vhost_name)
    if name not in vhost.transformations:
        return []
    count = vhost.bindings_with(name)
    if count:
        raise TransformationInUse(
            f"{count} bindings in vhost '{vhost_name}' name transformation '{name}': end them first"
        )
    return [TransformationRemoved(vhost=vhost_name, name=name)]


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BadArgument("the name of a transformation has to be UTF-8") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise BadArgument(f"the name of a transformation has 1 to {NAME_BYTES_MAX} bytes")


def _check_failures(vhost: Vhost, name: str) -> None:
    if name and name not in vhost.queues:
        raise NoSuchQueue(f"no queue '{name}' in vhost '{vhost.name}'")
    if name in vhost.streams:
        raise BadArgument(f"failures go to a queue, and '{name}' is a stream")
