"""Whose options a command is about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic, a broker, or all brokers where both are None."""

    topic: str | None
    broker: int | None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        return "all brokers" if self.broker is None else f"broker {self.broker}"
