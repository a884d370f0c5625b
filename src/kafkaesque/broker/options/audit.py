"""The options of the audit log: see `kafkaesque.broker.options.tables`."""

from typing import Final

from kafkaesque.model.options import INT64_MAX, Option, OptionType

_DAY_MS: Final = 24 * 60 * 60 * 1000

AUDIT_OPTIONS = (
    Option(
        name="audit.events",
        type=OptionType.LIST,
        default="auto",
        choices=("auto", "log-in", "refusal", "change", "key"),
        may_be_empty=True,
        dynamic=False,
        doc="What is written to the audit log. auto: everything, if a listener of this broker "
        "requires a log-in, and else nothing. Empty: nothing.",
    ),
    Option(
        name="audit.retention.ms",
        type=OptionType.LONG,
        default=90 * _DAY_MS,
        minimum=-1,
        maximum=INT64_MAX,
        dynamic=False,
        doc="The retention.ms that the topic of the audit log is created with; change it later "
        "as that topic's option. -1 is without limit.",
    ),
    Option(
        name="audit.retention.bytes",
        type=OptionType.LONG,
        default=10 * 1024**3,
        minimum=-1,
        maximum=INT64_MAX,
        dynamic=False,
        doc="The same for retention.bytes: a flood of log-ins shortens the log, and fills no disk.",
    ),
    Option(
        name="audit.topic.replication.factor",
        type=OptionType.INT,
        default=3,
        minimum=1,
        maximum=32767,
        dynamic=False,
        doc="Replicas of that topic; fewer when there are fewer brokers.",
    ),
)
