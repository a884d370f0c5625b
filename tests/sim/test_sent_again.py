"""What MQTT sends again, and to whom; each promise with a planted bug."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.gateway.mqtt.delivering import Delivering
from kafkaesque.gateway.mqtt.feed import Feed
from kafkaesque.gateway.mqtt.journal import Journal
from kafkaesque.gateway.mqtt.retained_feed import RetainedFeed
from kafkaesque.gateway.mqtt.retained_keeping import RetainedKeeping
from tests.sim import sent_scenario as scenarios
from tests.sim.seeds import first_of
from tests.sim.test_light_invariants import find


@pytest.mark.parametrize("seed", first_of(range(1, 17), 3))
def test_what_was_sent_comes_again_as_it_was(seed: int) -> None:
    scenarios.sent_again(seed)


def test_a_subscription_that_changes_unnoticed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "keep_as_sent", lambda _, __, on_done: on_done(None))
    find(scenarios.sent_again, [1, 2, 3], "did not come")


def test_a_retained_message_that_nobody_keeps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetainedKeeping, "begin", lambda _, __, then: then(None))
    monkeypatch.setattr(RetainedFeed, "_is_kept", lambda _, __: False)
    find(scenarios.sent_again, [1, 2, 3], "did not come again")


@pytest.mark.parametrize("seed", first_of(range(1, 9), 2))
def test_of_those_who_share_one_has_a_message_until_it_is_acknowledged(seed: int) -> None:
    scenarios.shared(seed)


def test_a_message_that_two_members_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    on_shared = Delivering._on_shared

    def give_back(delivering: Delivering, feed: Feed, subscribed: Any, messages: Any) -> None:
        on_shared(delivering, feed, subscribed, messages)
        feed.release([each.claim for each in messages])

    monkeypatch.setattr(Delivering, "_on_shared", give_back)
    find(scenarios.shared, [1, 2], "and with")


def test_an_acknowledgement_that_nobody_hears_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delivering, "_settle", lambda *_: None)
    find(scenarios.shared, [1, 2], "was acknowledged, and comes again")
