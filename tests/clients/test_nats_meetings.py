"""Clients meet at nats-server and at three brokers of ours, and are sent the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.nats_meetings import check_meetings
from kafkaesque.gateway.nats.subscriptions import Subscriptions
from tests.clients.nats_server import nats_server

MEETINGS = 5


def test_meetings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nats_server(tmp_path) as port:
        found = check_meetings(port, 1, range(MEETINGS))
        assert not found, "\n".join(found)
        # The same steps tell a broker apart that ends no subscription after its messages.
        limit = Subscriptions.limit

        def only_now(own: Subscriptions, sid: str, messages_max: int) -> None:
            if not messages_max:
                limit(own, sid, messages_max)

        monkeypatch.setattr(Subscriptions, "limit", only_now)
        assert check_meetings(port, 1, range(MEETINGS)), "a planted bug makes no difference"
