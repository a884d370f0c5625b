"""Options of queues and topics, as Python has them and as brokers do."""

from collections.abc import Mapping

from kafkaesque.client.errors import InvalidArgument

OptionValue = str | int | bool


def write_options(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """Return options as brokers have them: `max_length=5` is `max.length=5`.

    Raises:
        InvalidArgument: a value is no text, number or truth value.
    """
    return {_name(name): _value(name, value) for name, value in options.items()}


def write_changes(options: Mapping[str, OptionValue | None]) -> dict[str, str | None]:
    """Return changes of options; None sets one back.

    Raises:
        InvalidArgument: a value is no text, number or truth value.
    """
    return {
        _name(name): None if value is None else _value(name, value)
        for name, value in options.items()
    }


def _name(name: str) -> str:
    return name.replace("_", ".")


def _value(name: str, value: OptionValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise InvalidArgument(f"option {name} is a text, a number or a truth value, not {value!r}")
    return str(value)
