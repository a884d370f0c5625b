"""Whose options a command is about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic, a broker, a group, or all brokers where all are None."""

    topic: str | None = None
    broker: int | None = None
    group: str | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        if self.group is not None:
            return f"group {self.group}"
        return "all brokers" if self.broker is None else f"broker {self.broker}"
