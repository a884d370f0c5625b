"""Options of groups: what there is, what is allowed, and what a consumer group goes by.

Names, types, defaults and bounds are Apache Kafka's (KIP-848, KIP-932, KIP-1071, KIP-1240). What
is said of one group goes before the broker option behind it. Options of streams groups are checked,
kept and shown; there are no such groups yet that would go by them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkaesque.groups.consumer.config import ConsumerTimes
from kafkaesque.model.errors import ConfigError, InvalidRequest
from kafkaesque.model.options import (
    INT32_MAX,
    Option,
    OptionTable,
    OptionType,
    OptionValue,
    Order,
    write_value,
)

#: Groups that have options of their own. Each is in the memory of every broker.
GROUPS_MAX: Final = 10_000
#: Characters of a group's name, and of a value.
NAME_LENGTH_MAX: Final = 1_000
VALUE_LENGTH_MAX: Final = 1_000

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
OFFSET_RESET: Final = "share.auto.offset.reset"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"

#: Those whose bounds are broker options: `group.consumer.min.…` and `group.consumer.max.…`.
_BOUNDED: Final = {
    name: tuple(name.replace("consumer.", f"group.consumer.{end}.", 1) for end in ("min", "max"))
    for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
}
#: The longest time back that a share group may begin at: 285,000 years.
DURATION_MS_MAX: Final = 2**53
_DURATION: Final = re.compile(
    r"by_duration:P(?=[0-9T])(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?"
    r"(?:(?P<seconds>[0-9]+(?:\.[0-9]{1,9})?)S)?)?"
)

OptionOf = Callable[[str], OptionValue]


def _times(kind: str, whose: str, note: str = "") -> list[Option]:
    """Return the options that share and streams groups have in common, with Kafka's bounds."""
    return [
        Option(
            name=f"{kind}.session.timeout.ms",
            type=OptionType.INT,
            default=45_000,
            minimum=45_000,
            maximum=60_000,
            doc=f"A member of a {whose} group that has not been heard of for this long has "
            f"left.{note}",
        ),
        Option(
            name=f"{kind}.heartbeat.interval.ms",
            type=OptionType.INT,
            default=5_000,
            minimum=5_000,
            maximum=15_000,
            doc=f"How often members of a {whose} group send heartbeats.{note}",
        ),
        Option(
            name=f"{kind}.assignment.interval.ms",
            type=OptionType.INT,
            default=1_000,
            minimum=0,
            maximum=15_000,
            doc=f"Time between two assignments of a {whose} group.{note}",
        ),
    ]


_CONSUMER: Final = [
    Option(
        name=SESSION_TIMEOUT,
        type=OptionType.INT,
        default=45_000,
        minimum=1,
        maximum=INT32_MAX,
        broker_name=f"group.{SESSION_TIMEOUT}",
        doc="A consumer of the new protocol that has not been heard of for this long has left. "
        "From group.consumer.min.session.timeout.ms to group.consumer.max.session.timeout.ms, and "
        "above the interval of heartbeats. Members of the classic protocol bring their own.",
    ),
    Option(
        name=HEARTBEAT_INTERVAL,
        type=OptionType.INT,
        default=5_000,
        minimum=1,
        maximum=INT32_MAX,
        broker_name=f"group.{HEARTBEAT_INTERVAL}",
        doc="How often consumers of the new protocol are told to send heartbeats. From "
        "group.consumer.min.heartbeat.interval.ms to group.consumer.max.heartbeat.interval.ms.",
    ),
    Option(
        name=ASSIGNMENT_INTERVAL,
        type=OptionType.INT,
        default=0,
        minimum=0,
        maximum=15_000,
        doc="After the coordinator has assigned the partitions of a group of the new protocol it "
        "does not do so again for this long. Kafka's default is 1000; 0 assigns at once.",
    ),
]
_SHARE: Final = [
    *_times("share", "share"),
    Option(
        name=OFFSET_RESET,
        type=OptionType.STRING,
        default="latest",
        doc="Where a share group begins: earliest, latest, or by_duration: with an ISO 8601 "
        "duration, such as by_duration:PT1H.",
    ),
    Option(
        name="share.isolation.level",
        type=OptionType.STRING,
        default="read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
        doc="Whether a share group gets records of transactions that are not committed. It never "
        "does here: they come when they are committed.",
    ),
    Option(
        name="share.record.lock.duration.ms",
        type=OptionType.INT,
        default=30_000,
        minimum=15_000,
        maximum=60_000,
        doc="How long a consumer of a share group has a record for itself.",
    ),
    Option(
        name="share.delivery.count.limit",
        type=OptionType.INT,
        default=5,
        minimum=2,
        maximum=10,
        doc="How often a share group gets a record.",
    ),
    Option(
        name="share.partition.max.record.locks",
        type=OptionType.INT,
        default=2_000,
        minimum=100,
        maximum=4_000,
        doc="Records of one partition that consumers of a share group may have at a time.",
    ),
    Option(
        name="share.renew.acknowledge.enable",
        type=OptionType.BOOLEAN,
        default=True,
        doc="Whether consumers of a share group may keep a record for longer.",
    ),
    Option(
        name=DEAD_LETTER_TOPIC,
        type=OptionType.STRING,
        default="",
        doc="The topic for records that a share group gives up, with headers that say why; it must "
        "exist, and not begin with two underscores.",
    ),
    Option(
        name="errors.deadletterqueue.copy.record.enable",
        type=OptionType.BOOLEAN,
        default=False,
        doc="Whether such a record is copied there, or only told of.",
    ),
]
_STREAMS: Final = [
    *_times("streams", "streams", " There are no streams groups yet."),
    Option(
        name="streams.initial.rebalance.delay.ms",
        type=OptionType.INT,
        default=3_000,
        minimum=0,
        maximum=INT32_MAX,
        doc="How long the first members of a streams group are waited for. There are no streams "
        "groups yet.",
    ),
    Option(
        name="streams.num.standby.replicas",
        type=OptionType.INT,
        default=0,
        minimum=0,
        maximum=2,
        doc="Copies of each task's state. There are no streams groups yet.",
    ),
    Option(
        name="streams.assignor.name",
        type=OptionType.STRING,
        default="sticky",
        choices=("sticky",),
        doc="How tasks are assigned. There are no streams groups yet.",
    ),
    Option(
        name="streams.rack.aware.assignment.tags",
        type=OptionType.LIST,
        default="",
        doc="Tags of clients over which copies of a task's state are spread. There are no streams "
        "groups yet.",
    ),
]

GROUP_OPTIONS: Final = OptionTable(
    "group",
    [*_CONSUMER, *_SHARE, *_STREAMS],
    orders=[
        Order(
            low=f"{kind}.heartbeat.interval.ms",
            high=f"{kind}.session.timeout.ms",
            is_strict=True,
        )
        for kind in ("consumer", "share", "streams")
    ],
)


class ShareSettings(NamedTuple):
    """What a share group goes by."""

    lock_ms: int
    delivery_limit: int
    #: Records of one partition that may be locked at a time.
    locks_max: int
    #: `earliest`, `latest`, or how many milliseconds before now.
    reset: str | int
    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int
    renews: bool
    dead_letter_topic: str
    #: Whether records are copied there; else only their headers.
    copies_dead_letters: bool


def share_settings(configs: Mapping[str, str]) -> ShareSettings:
    """Return what is set for a share group, and the defaults of what is not."""
    values = {**GROUP_OPTIONS.defaults(), **GROUP_OPTIONS.parse_stored(configs)[0]}
    reset = str(values[OFFSET_RESET])
    return ShareSettings(
        lock_ms=int(values["share.record.lock.duration.ms"]),
        delivery_limit=int(values["share.delivery.count.limit"]),
        locks_max=int(values["share.partition.max.record.locks"]),
        reset=reset if reset in ("earliest", "latest") else _duration_ms(reset),
        session_ms=int(values["share.session.timeout.ms"]),
        heartbeat_ms=int(values["share.heartbeat.interval.ms"]),
        assignment_interval_ms=int(values["share.assignment.interval.ms"]),
        renews=bool(values["share.renew.acknowledge.enable"]),
        dead_letter_topic=str(values[DEAD_LETTER_TOPIC]),
        copies_dead_letters=bool(values["errors.deadletterqueue.copy.record.enable"]),
    )


def _duration_ms(reset: str) -> int:
    """Return the milliseconds of `by_duration:` and a duration of ISO 8601."""
    found = _DURATION.fullmatch(reset)
    if found is None:
        return 0
    units = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
    parts = found.groupdict(default="0")
    total_ms = sum(float(parts[name]) * unit_ms for name, unit_ms in units.items())
    # Digits without end make infinity.
    return int(min(total_ms, DURATION_MS_MAX))


def check_group_name(name: str) -> None:
    """Check the name of a group that is to have options.

    Raises:
        InvalidRequest: it is empty or too long.
    """
    if not name:
        raise InvalidRequest("the name of the group is empty: there are no options of all groups")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidRequest(f"the name of the group is longer than {NAME_LENGTH_MAX}")


def check_group_options(configs: Mapping[str, str], broker_option: OptionOf) -> None:
    """Check all options that a group is to have, against the broker's and one another.

    Raises:
        ConfigError: one is unknown or not allowed, or two contradict each other.
    """
    for name, text in configs.items():
        if len(text) > VALUE_LENGTH_MAX:
            raise ConfigError(f"{name} is longer than {VALUE_LENGTH_MAX} characters")
    given = GROUP_OPTIONS.parse(configs)
    for name, value in given.items():
        low, high = _bounds(name, broker_option)
        if name in _BOUNDED and not low <= int(value) <= high:
            raise ConfigError(f"{name} = {value} is not allowed: it must be from {low} to {high}")
    reset = str(given.get(OFFSET_RESET, "latest"))
    if reset not in ("earliest", "latest") and not _DURATION.fullmatch(reset):
        raise ConfigError(
            f"{OFFSET_RESET} = {reset!r} is not allowed: it must be earliest, latest or "
            "by_duration: with an ISO 8601 duration"
        )
    if str(given.get(DEAD_LETTER_TOPIC, "")).startswith("__"):
        raise ConfigError(f"{DEAD_LETTER_TOPIC} must not begin with two underscores")
    values = {**group_defaults(broker_option), **given}
    GROUP_OPTIONS.check_orders(values.__getitem__, given)


def group_defaults(broker_option: OptionOf) -> dict[str, OptionValue]:
    """Return what holds for a group that has no options of its own."""
    return {
        option.name: option.default
        if option.broker_name is None
        else broker_option(option.broker_name)
        for option in GROUP_OPTIONS
    }


def _bounds(name: str, broker_option: OptionOf) -> tuple[int, int]:
    if name not in _BOUNDED:
        return 0, INT32_MAX
    low, high = _BOUNDED[name]
    return int(broker_option(low)), int(broker_option(high))


def consumer_times(
    configs: Mapping[str, str], broker_option: OptionOf
) -> tuple[ConsumerTimes, list[str]]:
    """Return the times that a consumer group goes by, and what of its options does not hold.

    What is stored fitted the broker's bounds when it was set. A value that is beyond them now is
    brought within, as Apache Kafka does.
    """
    own, refused = GROUP_OPTIONS.parse_stored(configs)
    told = list(refused.values())
    values = group_defaults(broker_option)
    for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL):
        if name in own:
            low, high = _bounds(name, broker_option)
            values[name] = max(low, min(high, int(own[name])))
            if values[name] != own[name]:
                told.append(
                    f"{name} = {write_value(own[name])} is taken for {values[name]}: it must be "
                    f"from {low} to {high}"
                )
    session, interval = int(values[SESSION_TIMEOUT]), int(values[HEARTBEAT_INTERVAL])
    if session <= interval:
        told.append(f"{SESSION_TIMEOUT} = {session} is not above {HEARTBEAT_INTERVAL} = {interval}")
        values.update(group_defaults(broker_option))
    return (
        ConsumerTimes(
            session_timeout_ms=int(values[SESSION_TIMEOUT]),
            heartbeat_interval_ms=int(values[HEARTBEAT_INTERVAL]),
            assignment_interval_ms=int(values[ASSIGNMENT_INTERVAL]),
        ),
        told,
    )
