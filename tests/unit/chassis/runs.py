"""Sees which messages of one read are published together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkaesque.gateway.queueing.publisher import Publisher


def published_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many messages went on their way together, each time that some did."""
    counts: list[int] = []
    publish_run = Publisher.publish_run

    def counted(
        self: Publisher, exchange: str, outgoing: Any, bodies: Sequence[bytes], on_sent: Any
    ) -> bool:
        is_sent = publish_run(self, exchange, outgoing, bodies, on_sent)
        if is_sent:
            counts.append(len(bodies))
        return is_sent

    monkeypatch.setattr(Publisher, "publish_run", counted)
    return counts
