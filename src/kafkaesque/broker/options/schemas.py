"""The option by which a topic takes only records that name a registered schema."""

from typing import Final

from kafkaesque.model.options import Option, OptionType

VALIDATION: Final = "schema.validation"
NONE: Final = "none"
KEY: Final = "key"
VALUE: Final = "value"
BOTH: Final = "both"

TOPIC_SCHEMA_OPTIONS: Final = (
    Option(
        name=VALIDATION,
        type=OptionType.STRING,
        default=NONE,
        choices=(NONE, KEY, VALUE, BOTH),
        doc="Which parts of a record have to name a schema that is registered for the topic: keys "
        "one of the subject TOPIC-key, values one of TOPIC-value, in the five bytes that "
        "Confluent's serializers put before the data. Other records are refused (INVALID_RECORD); "
        "nulls are taken. Whether the data fit the schema is not looked at. See "
        "[Schema registry](schema-registry.md#topics-that-refuse).",
    ),
)


def validated_subjects(topic: str, validation: str) -> dict[str, bool]:
    """Return the subjects that a topic's records have to name, and whether their keys do."""
    found = {}
    if validation in (KEY, BOTH):
        found[f"{topic}-key"] = True
    if validation in (VALUE, BOTH):
        found[f"{topic}-value"] = False
    return found
