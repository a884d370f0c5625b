"""A line for the log: a sentence for people, and for programs the event and its fields."""

from typing import Self

FieldValue = str | int | float | bool | None


class LogLine(str):
    """A sentence that knows which event it tells of.

    It is a plain `str` for whoever only shows it. Event names are `noun.verb`, and few: they are
    listed in docs/operations.md. Fields are named as in Kafka: `partition`, `term`, `reason`.
    """

    __slots__ = ("event", "fields")

    event: str
    fields: dict[str, FieldValue]

    def __new__(cls, event: str, sentence: str, /, **fields: FieldValue) -> Self:
        """Say what has happened; fields that are None are left out."""
        line = super().__new__(cls, sentence)
        line.event = event
        line.fields = {name: value for name, value in fields.items() if value is not None}
        return line
