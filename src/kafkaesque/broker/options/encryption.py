"""The option of encryption at rest: see `kafkaesque.broker.options.tables`."""

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

BROKER_ENCRYPTION_OPTIONS = (
    Option(
        name=INTERNAL_ENCRYPTION,
        type=OptionType.STRING,
        default=NONE,
        choices=_CHOICES,
        dynamic=False,
        doc="The encryption that __consumer_offsets, __transaction_state and __audit are created "
        "with; change it later as these topics' option. Brokers need key.keeper.file.",
    ),
)
