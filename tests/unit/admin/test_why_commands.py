"""Commands that `why` names are commands, and names that clients choose stay words in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kafkaesque.admin.api.part_pages import GroupAnswer
from kafkaesque.admin.api.values import Transaction
from kafkaesque.admin.api.why_links import Link, record_links
from kafkaesque.admin.api.why_queue_links import Burial, QueueFacts, queue_links
from kafkaesque.admin.api.why_reader_links import reader_links, transaction_links
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.queue_requests import QueueCounts
from kafkaesque.cli.app import app
from tests.unit.admin.api_ground import ApiGround
from tests.unit.admin.test_why import placed

HOSTILE = "x; touch $(echo owned) 'y"


def words_of(command: str) -> list[str]:
    """Return the arguments of a command, which has to be one, with options that there are."""
    program, *words = shlex.split(command)
    assert program == "kafkaesque"
    found: Any = typer.main.get_command(app)
    context, left = found.make_context(program, list(words)), words
    while hasattr(found, "resolve_command"):
        _, found, left = found.resolve_command(context, left)
        parent, context = context, None
        parser = found.make_parser(parent)
        if not hasattr(found, "resolve_command"):
            parser.parse_args(list(left))
        context = parent
    return words


def commands_of(links: Iterator[Link]) -> list[str]:
    return [each.command for each in links if each.command is not None]


def counts(**changed: Any) -> QueueCounts:
    numbers = dict.fromkeys(
        ["ready", "delayed", "in_flight", "parked", "moving", "consumers", "oldest_ms"], 0
    )
    log = {"floor": 9, "end": 9, "log_start": 0, "log_end": 9, "log_bytes": 0}
    facts = {**numbers, **log, "has_begun": True, "arrived": 9, "removed": {}}
    return QueueCounts(**{**facts, **changed})


def queue_facts(vhost: str = DEFAULT_VHOST, **changed: Any) -> QueueFacts:
    facts = {"offset": 3, "options": {}, "replicas": (1,), "leader": 1, "counts": counts()}
    return QueueFacts(name=QueueName(vhost, HOSTILE), **{**facts, **changed})


def test_of_records() -> None:
    shown = [
        *commands_of(record_links(placed(start_offset=5), 3, "", 0)),
        *commands_of(record_links(placed(), 3, "there", 0)),
        *commands_of(record_links(placed(), 30, "", 0)),
    ]
    assert len(shown) == 3
    for each in shown:
        assert "t" in words_of(each)


def test_of_groups_and_transactions() -> None:
    found = Transaction(
        transactional_id=HOSTILE,
        state="Ongoing",
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1,
        since=None,
        coordinator=1,
        partitions=[],
    )
    answer = GroupAnswer(state="", kind="classic")
    assert commands_of(reader_links("g", answer, [], None, 0)) == ["kafkaesque group list"]
    (abort,) = commands_of(transaction_links(found, [], 0))
    assert words_of(abort) == ["txn", "abort", HOSTILE]


@pytest.mark.parametrize("vhost", [DEFAULT_VHOST, "a b"])
def test_of_queues(vhost: str) -> None:
    burial = Burial(queue="letters", reason="attempts", attempts=3, at_ms=1)
    for facts in (
        queue_facts(vhost),
        queue_facts(vhost, offset=30),
        queue_facts(vhost, burial=burial),
        queue_facts(vhost, partition=2),
    ):
        (shown,) = commands_of(queue_links(facts, 0))
        words = words_of(shown)
        assert HOSTILE in words
        assert (vhost in words) == (vhost != DEFAULT_VHOST)


def test_of_exchanges() -> None:
    ground = ApiGround(41)
    body = {"name": "hash", "type": "x-consistent-hash"}
    assert ground.ask("POST", "/exchanges", body).status == 201
    shown = ground.get("/why/exchanges/hash", key=HOSTILE)["links"][-1]["command"]
    # A key is a weight there.
    words = ["binding", "create", "hash", "--key", "1", "--queue", "NAME"]
    assert words_of(shown) == words
    shown = ground.get("/why/exchanges/amq.direct", key=HOSTILE)["links"][-1]["command"]
    assert words_of(shown) == [*words[:2], "amq.direct", "--key", HOSTILE, *words[5:]]


def test_an_offset_that_may_never_have_been_a_message_s_is_not_gone_for_certain() -> None:
    def last(**changed: Any) -> Link:
        *_, found = queue_links(queue_facts(counts=counts(**changed)), 0)
        return found

    assert last(removed={"expired": 1}).state == "blocking"
    doubtful = last(removed={"expired": 1}, arrived=8)
    assert (doubtful.name, doubtful.state) == ("expired", "unknown")
    assert "of 9 offsets 8 were messages, this one perhaps" in doubtful.evidence
    assert "none is gone: it may be no message" in last(removed={}, arrived=8).what
