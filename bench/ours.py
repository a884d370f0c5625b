"""Kafkaesque's own brokers as a side of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.clients.cluster import KafkaesqueCluster


class Kafkaesque(KafkaesqueCluster):
    """A cluster of ours, started as the client suite starts it."""

    name = "Kafkaesque"

    @staticmethod
    def topic_options(*, sync: bool) -> Mapping[str, str]:
        """Return the options of a topic whose acknowledgements wait, or not, for the disk."""
        return {"write.caching": "false" if sync else "true"}


def of_checkout(checkout: Path) -> type[Kafkaesque]:
    """Return the brokers of another checkout, which has a .venv of its own.

    Raises:
        ValueError: it has none.
    """
    interpreter = checkout.absolute() / ".venv" / "bin" / "python"
    if not interpreter.exists():
        raise ValueError(f"there is no {interpreter}: run ./scripts/test --install-only there")

    class Before(Kafkaesque):
        """As it was in the other checkout."""

        name = "before"
        python = str(interpreter)

    return Before
