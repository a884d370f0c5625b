"""What the doctor says of queues, from facts that are made up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafkaesque.cli.doctor import queue_probe
from kafkaesque.cli.doctor.facts import Facts, QueueFacts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity
from kafkaesque.cli.doctor.queue_probe import facts_of
from kafkaesque.protocols.kafka.messages.describe_exchanges_response import (
    DescribedExchange,
    DescribedVhost,
)
from kafkaesque.protocols.kafka.messages.describe_queues_response import (
    DescribedQueue,
    QueueCount,
    QueueOption,
)
from tests.unit.cli.made_up_facts import checks_of, facts
from tests.unit.project.test_documentation import ROOT

NOW_MS = 1_800_000_000_000


def queue(
    name: str = "mails",
    *,
    leader: int = 1,
    options: Mapping[str, str] | None = None,
    oldest_s: float | None = 10.0,
    newest_s: float | None = 1.0,
    **counts: int,
) -> QueueFacts:
    return QueueFacts(
        vhost="/",
        name=name,
        leader=leader,
        options=options or {},
        counts=counts,
        oldest_s=oldest_s,
        newest_s=newest_s,
    )


def found_in(*queues: QueueFacts, limits: Limits | None = None) -> dict[str, Finding]:
    found: Facts = replace(facts(), queues=list(queues))
    return checks_of(found, limits)


#: One queue, or a queue and its queue for dead letters.
CASES: Mapping[str, list[QueueFacts]] = {
    "queue-leaderless": [queue(leader=-1)],
    "dead-letter-target-missing": [queue(options={"dead.letter.queue": "dead"})],
    "dead-letter-exchange-missing": [
        replace(queue(options={"dead.letter.exchange": "dlx"}), lacks_exchange=True)
    ],
    "queue-in-flight-limit": [queue(ready=1, in_flight=5, in_flight_max=5)],
    "queue-without-consumers": [queue(ready=1, oldest_s=301, unwanted_ms=301_000)],
    "queue-head-old": [queue(in_flight=1, oldest_s=301)],
    "dead-letters": [queue(options={"dead.letter.queue": "dead"}), queue("dead", ready=1)],
    "queue-parked": [queue(parked=1)],
}


@pytest.mark.parametrize("check", CASES)
def test_each_trouble_is_one_finding_that_is_documented_with_its_level(check: str) -> None:
    found = found_in(*CASES[check])
    assert list(found) == [check]
    finding = found[check]
    assert finding.cause
    assert finding.command
    page = (ROOT / "docs" / "operations.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{check}`"))
    assert finding.severity.value in row.split("|")[2]


#: One of each that is counted.
ONES: Mapping[str, list[QueueFacts]] = {
    **CASES,
    "queue-in-flight-limit": [queue(ready=1, in_flight=1, in_flight_max=1)],
    "queue-head-old": [
        queue(in_flight=1, oldest_s=301, head_failures=1, held_by_message=1, log_bytes=1)
    ],
}


@pytest.mark.parametrize("check", ONES)
def test_one_of_something_is_told_as_one(check: str) -> None:
    finding = found_in(*ONES[check])[check]
    said = f"{finding.what}; {finding.cause}; {finding.command}"
    assert not re.search(r"\b1 (?!waits)[a-z]+s\b|\b1 (wait|stay|are|have|were)\b", said), said


def test_what_waits_for_a_client_of_mqtt_that_is_away_is_no_finding() -> None:
    session = {"mqtt.session": '{"client_id":"lamp"}'}
    # The second one: its leader has been so for a moment.
    for unwanted_ms in (301_000, 10):
        away = queue(ready=1, oldest_s=301, unwanted_ms=unwanted_ms, options=session)
        assert found_in(away) == {}
    stuck = queue(ready=1, in_flight=1, oldest_s=301, consumers=1, options=session)
    assert list(found_in(stuck)) == ["queue-head-old"]


def test_queues_at_work_are_no_findings() -> None:
    busy = queue(ready=5, in_flight=3, in_flight_max=10, unwanted_ms=200)
    idle = queue("idle", oldest_s=None, newest_s=None, unwanted_ms=9_000_000)
    to_dead = queue("orders", options={"dead.letter.queue": "dead"})
    dead = queue("dead", ready=3, oldest_s=90_000, newest_s=80_000, unwanted_ms=90_000_000)
    assert found_in(busy, idle, to_dead, dead) == {}


def test_a_queue_that_nobody_leads_is_critical() -> None:
    finding = found_in(queue(), queue("orders", leader=-1, oldest_s=None))["queue-leaderless"]
    assert finding.severity is Severity.CRITICAL
    assert finding.names == ["orders"]
    assert "kafkaesque queue describe orders" in finding.command


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"dead.letter.queue": "dead"}, "queue create dead"),
        ({"dead.letter.topic": "graves"}, "topic create graves"),
    ],
)
def test_a_target_of_dead_letters_that_is_missing_is_named(
    options: Mapping[str, str], missing: str
) -> None:
    finding = found_in(queue(options=options))["dead-letter-target-missing"]
    assert finding.names == ["mails"]
    assert finding.command.startswith(f"kafkaesque {missing}")
    there = queue(options={"dead.letter.topic": "orders"})
    assert found_in(there) == {}, "there is such a topic"


def test_a_queue_at_its_limit_in_flight_gives_out_nothing() -> None:
    finding = found_in(queue(ready=7, in_flight=5, in_flight_max=5))["queue-in-flight-limit"]
    assert "5 messages" in finding.cause
    assert "7 wait" in finding.cause
    assert found_in(queue(ready=0, in_flight=5, in_flight_max=5)) == {}
    assert found_in(queue(ready=7, in_flight=5)) == {}


def test_messages_that_nobody_asks_for_want_consumers() -> None:
    waiting = queue(ready=7, oldest_s=400, unwanted_ms=400_000)
    found = found_in(waiting)
    assert found.keys() == {"queue-without-consumers"}
    assert "400 s old" in found["queue-without-consumers"].cause
    for served in (
        replace(waiting, counts={**waiting.counts, "unwanted_ms": 100}),
        replace(waiting, counts={**waiting.counts, "consumers": 1}),
    ):
        assert found_in(served).keys() == {"queue-head-old"}
    assert found_in(waiting, limits=Limits(lag_s=500)) == {}


def test_a_head_that_fails_again_and_again_is_told_with_what_it_holds() -> None:
    poison = queue(
        ready=9, oldest_s=4_000, head_failures=12, held_by_message=1, log_bytes=70_000_000
    )
    finding = found_in(poison)["queue-head-old"]
    assert "failed 12 times" in finding.cause
    assert "70000000 bytes" in finding.cause
    assert "delivery.limit" in finding.command
    assert "peek mails --count 1" in finding.command


def test_a_head_that_is_delayed_is_old_on_purpose() -> None:
    late = queue(ready=9, oldest_s=4_000, head_delayed=1)
    assert found_in(late) == {}


def test_new_dead_letters_are_told_and_old_ones_are_not() -> None:
    source = queue("orders", options={"dead.letter.queue": "dead"})
    dead = queue("dead", ready=3, oldest_s=90_000, newest_s=60)
    finding = found_in(source, dead)["dead-letters"]
    assert finding.names == ["dead"]
    assert "redrive dead" in finding.command
    assert found_in(source, replace(dead, newest_s=7_200)) == {}
    assert found_in(dead).keys() == {"queue-head-old"}, "nobody sends dead letters there"


def test_parked_messages_are_told() -> None:
    finding = found_in(queue(parked=4), queue("orders", parked=1))["queue-parked"]
    assert finding.what == "5 messages were given up and stay in 2 queues: mails, orders"
    assert "mails has 4 of them" in finding.cause
    one = found_in(queue(parked=1))["queue-parked"]
    assert one.what == "1 message was given up and stays in 1 queue: mails"
    assert one.cause.startswith("mails has it, because")
    assert "(tries it again;" in one.command


def test_ages_are_told_of_what_was_counted() -> None:
    listed = DescribedQueue(
        vhost="v", queue="mails", leader_id=2, options=[QueueOption("delay.ms", "5", True)]
    )
    counted = DescribedQueue(
        vhost="v",
        queue="mails",
        counts=[QueueCount("oldest_ms", NOW_MS - 5_000), QueueCount("newest_ms", 0)],
    )
    silent = DescribedQueue(vhost="v", queue="other", error_code=5)
    known, unknown = facts_of([listed, silent], [counted, silent], NOW_MS)
    assert (known.oldest_s, known.newest_s, known.leader) == (5.0, None, 2)
    assert (known.options, str(known)) == ({"delay.ms": "5"}, "v:mails")
    assert unknown.counts == {}


@pytest.mark.parametrize(
    ("exchange", "is_missing"),
    [("dlx", True), ("logs", False), ("amq.default", False), ("", False)],
)
def test_an_exchange_for_dead_letters_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, exchange: str, is_missing: bool
) -> None:
    found = [DescribedVhost("/", [DescribedExchange("logs")])]
    monkeypatch.setattr(queue_probe, "describe_exchanges", lambda *_: found)
    options = {"dead.letter.exchange": exchange} if exchange else {}
    (each,) = queue_probe._with_exchanges("-", [queue(options=options)], [])
    assert each.lacks_exchange == is_missing
