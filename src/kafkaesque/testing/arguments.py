"""What a test asks for, checked before anything happens: a mistake is a sentence, not a fault."""

from collections.abc import Iterable, Mapping

from kafkaesque.model.options import OptionValue, write_value


def is_whole(value: object) -> bool:
    """Tell whether something is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a whole number.

    Raises:
        TypeError: it is none.
        ValueError: it is too small or too large.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {limits}, not {value}")
    return value


def positive(name: str, value: object) -> float:
    """Return a number above 0.

    Raises:
        TypeError: it is no number.
        ValueError: it is 0, negative or infinite.
    """
    if number(name, value) <= 0:
        raise ValueError(f"{name} is above 0, not {value}")
    return number(name, value)


def number(name: str, value: object) -> float:
    """Return a number that is not negative.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative or infinite.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is a number, not {value!r}")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is not negative and not infinite, not {value}")
    return value


def sides(given: Iterable[object]) -> list[list[object]]:
    """Return the sides of a partition of the network.

    Raises:
        TypeError: a side is not several brokers.
        ValueError: there is one side only or an empty one, or a broker is in two.
    """
    found: list[list[object]] = []
    for side in given:
        if isinstance(side, str) or not isinstance(side, Iterable):
            raise TypeError(f"a side is a list of brokers, as in partition([1], [2, 3]): {side!r}")
        found.append(list(side))
    if len(found) < 2:
        raise ValueError("a partition has two sides or more, as in partition([1], [2, 3])")
    if not all(found):
        raise ValueError("a side has one broker or more, as in partition([1], [2, 3])")
    seen: set[object] = set()
    for side in found:
        if both := seen.intersection(side):
            raise ValueError(f"broker {min(both, key=str)} cannot be on two sides at once")
        seen.update(side)
    return found


def values(given: Iterable[object], key: object) -> None:
    """Check what is to be produced.

    Raises:
        TypeError: a value or the key is not bytes.
        ValueError: there is no value.
    """
    found = list(given)
    if not found:
        raise ValueError("there is nothing to produce: give one value or more")
    for each in found:
        if not isinstance(each, bytes):
            raise TypeError(f"a value is bytes, not {each!r}")
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"a key is bytes or None, not {key!r}")


def options(given: Mapping[str, OptionValue]) -> dict[str, str]:
    """Return options as Kafka writes them: `2` is "2", and `True` is "true".

    Raises:
        TypeError: a name is no text, or a value neither text nor a number nor true or false.
    """
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"an option is named by text, not by {name!r}")
        if not isinstance(value, str | int | float):
            raise TypeError(f"the value of {name} is text, a number or a bool, not {value!r}")
    return {name: write_value(value) for name, value in given.items()}
