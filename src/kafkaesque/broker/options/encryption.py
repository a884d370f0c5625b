"""The option of encryption at rest: see `kafkaesque.broker.options.tables`."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.model.options import Option, OptionType

ENCRYPTION: Final = "encryption"
INTERNAL_ENCRYPTION: Final = "internal.topics.encryption"
NONE: Final = "none"
_CHOICES: Final = (NONE, "aes256-gcm")

TOPIC_ENCRYPTION_OPTIONS = (
    Option(
        name=ENCRYPTION,
        type=OptionType.STRING,
        default=NONE,
        choices=_CHOICES,
        doc="aes256-gcm: the leader seals the records of each batch before they are written, with "
        "a key of the topic's own; brokers need key.keeper.file. Batches from before stay as they "
        "are. Names, sizes, timestamps and producer ids stay visible.",
    ),
)

QUEUE_ENCRYPTION_OPTION = Option(
    name=ENCRYPTION,
    type=OptionType.STRING,
    default=NONE,
    choices=_CHOICES,
    doc="aes256-gcm: the leader seals messages before they are written, with a key of the queue's "
    "own; brokers need key.keeper.file. Sizes, times, priorities, and hashes of groups and ids "
    "stay visible. Dead letters and redriven messages go to encrypted queues and topics only.",
)

BROKER_ENCRYPTION_OPTIONS = (
    Option(
        name=INTERNAL_ENCRYPTION,
        type=OptionType.STRING,
        default=NONE,
        choices=_CHOICES,
        dynamic=False,
        doc="The encryption that the brokers' own topics are created with, such as "
        "__consumer_offsets and __audit; change it later as these topics' option. Brokers need "
        "key.keeper.file.",
    ),
)


def is_encrypted(configs: Mapping[str, str]) -> bool:
    """Tell whether a topic, or a queue's log, with these options is sealed."""
    return configs.get(ENCRYPTION, NONE) != NONE
