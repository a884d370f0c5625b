"""The options of both ends, checked once; their names are those of Spark's own Kafka source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkaesque.spark.errors import WrongOption

Value = TypeVar("Value")

#: Client settings that mean something here.
KAFKA_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.request.timeout.ms",
    "kafka.sasl.jaas.config",
    "kafka.sasl.mechanism",
    "kafka.security.protocol",
    "kafka.ssl.enabled.protocols",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.ssl.key.password",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.keystore.key",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.password",
    "kafka.ssl.keystore.type",
    "kafka.ssl.protocol",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.password",
    "kafka.ssl.truststore.type",
)
#: Settings that would break what the source promises; Spark's own source refuses them, too.
_FORBIDDEN = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.key.deserializer",
    "kafka.key.serializer",
    "kafka.value.deserializer",
    "kafka.value.serializer",
)
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)?")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionReader:
    """Takes options one by one; what a user sets wrongly is told with its name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def has(self, name: str) -> bool:
        """Whether the user has set it."""
        return name.lower() in self._options

    def text(self, name: str) -> str | None:
        """Return a value as it was given, None where it is not set."""
        return self._options.get(name.lower())

    def first_with(self, prefix: str) -> str | None:
        """Return a name that is set and begins so, in lower case; None: there is none."""
        return min((name for name in self._options if name.startswith(prefix)), default=None)

    def required(self, name: str) -> str:
        """Return a value that has to be there.

        Raises:
            WrongOption: it is not.
        """
        value = self.text(name)
        if not value or not value.strip():
            raise WrongOption(f"the option {name} is missing")
        return value

    def number(self, name: str, *, least: int, most: int, default: int) -> int:
        """Return a whole number."""
        found = self.maybe_number(name, least=least, most=most)
        return default if found is None else found

    def maybe_number(self, name: str, *, least: int, most: int) -> int | None:
        """Return a whole number, None where it is not set."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d{1,19}", text.strip()) or not least <= int(text) <= most:
            raise WrongOption(
                f"the option {name} is a whole number from {least} to {most}, not {text!r}"
            )
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, words: Iterable[str], default: str) -> str:
        """Return one of the words, in whatever case it was given."""
        text = self.text(name)
        if text is None:
            return default
        wanted = list(words)
        if text.strip().lower() not in wanted:
            raise WrongOption(f"the option {name} is {' or '.join(wanted)}, not {text!r}")
        return text.strip().lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time such as 500ms, 30s or 15m."""
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None:
            raise WrongOption(f"the option {name} is a time such as 30s or 15m, not {text!r}")
        unit = found[2] or "ms"
        short = "ms" if unit.startswith(("ms", "milli")) else unit[0]
        return int(found[1]) * _UNITS_MS[short]

    def words(self, name: str, text: str) -> tuple[str, ...]:
        """Return the words of a list with commas.

        Raises:
            WrongOption: there is none.
        """
        found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
        if not found:
            raise WrongOption(f"the option {name} is empty")
        return found

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Accept `known` and what is a setting of Kafka's clients.

        Raises:
            WrongOption: a name is none of them, or promises what is not kept.
        """
        names = {name.lower(): name for name in (*known, *KAFKA_OPTIONS)}
        for given in self._options:
            if given in names:
                continue
            if given in _FORBIDDEN:
                raise WrongOption(f"the option {given} cannot be set: the connector decides it")
            # Of what secures a connection nothing is passed over.
            if given.startswith("kafka.") and not given.startswith(("kafka.ssl.", "kafka.sasl.")):
                continue
            near = difflib.get_close_matches(given, names, n=1)
            hint = f"; the nearest is {names[near[0]]}" if near else ""
            raise WrongOption(f"there is no option {given}{hint}")


def first_set(
    options: OptionReader, parsers: Mapping[str, Callable[[str], Value]], default: Value
) -> Value:
    """Return what the first option that is set says, in the order given."""
    for name, parse in parsers.items():
        text = options.text(name)
        if text is not None:
            return parse(text)
    return default
