"""The option of encryption at rest: see `kafkaesque.broker.options.tables`."""

from typing import Final

from kafkaesque.model.options import Option, OptionType

ENCRYPTION: Final = "encryption"
NONE: Final = "none"

TOPIC_ENCRYPTION_OPTIONS = (
    Option(
        name=ENCRYPTION,
        type=OptionType.STRING,
        default=NONE,
        choices=(NONE, "aes256-gcm"),
        doc="aes256-gcm: the leader seals the records of each batch before they are written, with "
        "a key of the topic's own; brokers need key.keeper.file. Batches from before stay as they "
        "are. Names, sizes, timestamps and producer ids stay visible.",
    ),
)
