"""Guessing becomes slow, and nobody is locked out by it."""

from __future__ import annotations

import pytest

from kafkaesque.access.attempts import AttemptConfig, Attempts, group_of
from kafkaesque.model.errors import ConfigError
from tests.unit.access.makers import HOST, NOW_MS

CONFIG = AttemptConfig()


def test_a_few_mistakes_cost_nothing_and_then_refusals_come_later_and_later() -> None:
    attempts, now_ms, delays = Attempts(CONFIG), NOW_MS, []
    for _ in range(12):
        delay_ms = attempts.on_failure(HOST, "alice", now_ms)
        delays.append(delay_ms)
        now_ms += delay_ms
    assert delays == [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]


def test_many_at_once_wait_one_after_the_other_and_then_are_turned_away() -> None:
    attempts = Attempts(CONFIG)
    tried = 0
    while attempts.may_try(HOST, "alice", NOW_MS):
        attempts.on_failure(HOST, "alice", NOW_MS)
        tried += 1
        assert tried < 100
    assert tried == 11
    assert attempts.on_failure(HOST, "alice", NOW_MS) > CONFIG.backlog_ms_max
    assert attempts.may_try(HOST, "alice", NOW_MS + 2 * CONFIG.backlog_ms_max)


def test_from_elsewhere_the_same_user_notices_nothing() -> None:
    attempts = Attempts(CONFIG)
    for _ in range(15):
        attempts.on_failure(HOST, "alice", NOW_MS)
    assert not attempts.may_try(HOST, "alice", NOW_MS)
    assert attempts.may_try("10.0.0.2", "alice", NOW_MS)
    assert attempts.on_failure("10.0.0.2", "alice", NOW_MS) == 0
    assert attempts.may_try(HOST, "bob", NOW_MS)


def test_an_address_that_guesses_at_many_users_is_slowed_down_too() -> None:
    attempts = Attempts(CONFIG)
    delays = [attempts.on_failure(HOST, f"user-{each}", NOW_MS) for each in range(40)]
    assert delays[:20] == [0] * 20
    assert delays[20:23] == [250, 750, 1750]
    assert not attempts.may_try(HOST, "another", NOW_MS)
    assert not attempts.may_try(HOST, "", NOW_MS)


def test_a_success_forgets_the_users_failures_and_not_the_addresss() -> None:
    attempts = Attempts(CONFIG)
    for _ in range(4):
        attempts.on_failure(HOST, "mallory", NOW_MS)
    attempts.on_success(HOST, "mallory")
    assert attempts.on_failure(HOST, "mallory", NOW_MS) == 0
    for each in range(15):
        attempts.on_failure(HOST, f"user-{each}", NOW_MS)
    attempts.on_success(HOST, "mallory")
    assert attempts.on_failure(HOST, "mallory", NOW_MS) > 0


def test_after_a_quiet_time_nothing_is_remembered() -> None:
    attempts = Attempts(CONFIG)
    for _ in range(8):
        attempts.on_failure(HOST, "alice", NOW_MS)
    assert attempts.on_failure(HOST, "alice", NOW_MS + CONFIG.forgotten_after_ms) == 0


def test_an_address_of_ipv6_is_counted_by_its_network_and_a_mapped_one_as_ipv4() -> None:
    assert group_of("2001:db8:0:1::5") == group_of("2001:db8:0:1:ffff::9")
    assert group_of("2001:db8:0:1::5") != group_of("2001:db8:0:2::5")
    assert group_of("10.0.0.1") == group_of("::ffff:10.0.0.1") != group_of("10.0.0.2")
    assert group_of("sim-client") == "sim-client"
    attempts = Attempts(CONFIG)
    for each in range(15):
        attempts.on_failure(f"2001:db8:0:1::{each:x}", "alice", NOW_MS)
    assert not attempts.may_try("2001:db8:0:1:aaaa::1", "alice", NOW_MS)


def test_the_tables_are_bounded() -> None:
    attempts = Attempts(AttemptConfig(entries_max=100))
    for each in range(1_000):
        attempts.on_failure(f"10.0.{each // 250}.{each % 250}", f"user-{each}", NOW_MS)
    assert len(attempts._addresses) == len(attempts._users) == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"delay_ms_min": 0},
        {"delay_ms_min": 31_000},
        {"entries_max": 0},
        {"free_failures": -1},
        {"backlog_ms_max": 0},
    ],
    ids=str,
)
def test_values_that_are_none_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        AttemptConfig(**changes)
