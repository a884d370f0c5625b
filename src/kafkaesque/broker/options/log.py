"""Topic options of Kafka's logs that stand with brokers, too: see `options.tables`."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.model.options import INT32_MAX, INT64_MAX, Option, OptionType, OptionValue

HOUR_MS: Final = 60 * 60 * 1000
_TIERED: Final = "there is no tiered storage"
_NOTHING: Final = "Taken for Kafka's tools, and without effect: "
_SYNCED: Final = (
    _NOTHING + "a write is synced before it is acknowledged, or soon after with write.caching=true."
)

#: Options in milliseconds, and where they are not set those in other units, the first one first.
UNITS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", HOUR_MS),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}


def with_units(values: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return options of a broker's file with those in milliseconds that follow from others."""
    found = dict(values)
    for name, others in UNITS.items():
        if name in values:
            continue
        for other, unit_ms in others:
            if other in values:
                value = int(values[other])
                found[name] = min(value * unit_ms, INT64_MAX) if value >= 0 else value
                break
    return found


TOPIC_LOG_OPTIONS = (
    Option(
        name="segment.jitter.ms",
        type=OptionType.LONG,
        default=0,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.roll.jitter.ms",
        broker_synonyms=("log.roll.jitter.hours",),
        doc="A partition's segments are closed up to so much before segment.ms, each partition's "
        "by another time, so that not all are closed at once.",
    ),
    Option(
        name="message.timestamp.before.max.ms",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.message.timestamp.before.max.ms",
        doc="A record whose producer gives it a time further in the past is refused.",
    ),
    Option(
        name="message.timestamp.after.max.ms",
        type=OptionType.LONG,
        default=HOUR_MS,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.message.timestamp.after.max.ms",
        doc="A record whose producer gives it a time further in the future is refused.",
    ),
    Option(
        name="flush.messages",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=1,
        maximum=INT64_MAX,
        broker_name="log.flush.interval.messages",
        doc=_SYNCED,
    ),
    Option(
        name="flush.ms",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.flush.interval.ms",
        broker_synonyms=("log.flush.scheduler.interval.ms",),
        doc=_SYNCED,
    ),
    Option(
        name="file.delete.delay.ms",
        type=OptionType.LONG,
        default=60_000,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.segment.delete.delay.ms",
        doc=_NOTHING + "files are deleted when nobody reads them any more.",
    ),
    Option(
        name="preallocate",
        type=OptionType.BOOLEAN,
        default=False,
        broker_name="log.preallocate",
        doc=_NOTHING + "segment files grow as they are written.",
    ),
    Option(
        name="segment.index.bytes",
        type=OptionType.INT,
        default=10 * 1024**2,
        minimum=4,
        maximum=INT32_MAX,
        broker_name="log.index.size.max.bytes",
        doc=_NOTHING + "index files grow with their segments.",
    ),
    *(
        Option(
            name=name,
            type=OptionType.BOOLEAN,
            default=False,
            choices=("false",),
            why=_TIERED,
            doc=f"Taken for Kafka's tools where it is false: {_TIERED}.",
        )
        for name in (
            "remote.storage.enable",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
        )
    ),
    *(
        Option(
            name=name,
            type=OptionType.LONG,
            default=-2,
            minimum=-2,
            maximum=INT64_MAX,
            broker_name=f"log.{name}",
            doc=f"{_NOTHING}{_TIERED}.",
        )
        for name in ("local.retention.ms", "local.retention.bytes")
    ),
    *(
        Option(
            name=name,
            type=OptionType.LONG,
            default=0,
            minimum=-1,
            maximum=INT64_MAX,
            doc=f"{_NOTHING}{_TIERED}.",
        )
        for name in ("remote.copy.lag.ms", "remote.copy.lag.bytes")
    ),
)

BROKER_UNIT_OPTIONS = (
    Option(
        name="log.retention.minutes",
        type=OptionType.INT,
        default=7 * 24 * 60,
        minimum=1,
        maximum=INT32_MAX,
        also=-1,
        dynamic=False,
        is_unset=True,
        doc="What log.retention.ms is where that is not set, in minutes.",
    ),
    Option(
        name="log.retention.hours",
        type=OptionType.INT,
        default=7 * 24,
        minimum=1,
        maximum=INT32_MAX,
        also=-1,
        dynamic=False,
        doc="What log.retention.ms is where neither that nor log.retention.minutes is set, in "
        "hours.",
    ),
    Option(
        name="log.roll.hours",
        type=OptionType.INT,
        default=7 * 24,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=False,
        doc="What log.roll.ms is where that is not set, in hours.",
    ),
    Option(
        name="log.roll.jitter.hours",
        type=OptionType.INT,
        default=0,
        minimum=0,
        maximum=INT32_MAX,
        dynamic=False,
        doc="What log.roll.jitter.ms is where that is not set, in hours.",
    ),
    Option(
        name="log.flush.scheduler.interval.ms",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=0,
        maximum=INT64_MAX,
        dynamic=False,
        doc=_SYNCED,
    ),
)
