"""`kafkaesque txn` against a cluster: what is open is seen, and what hangs is ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from kafkaesque.cli.commands.txn import _abort_hanging
from kafkaesque.cli.transaction_requests import (
    ANY_DURATION,
    ListedTransaction,
    Partition,
    Transactions,
)
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from tests.clients.kafka_helpers import Sent, TopicMaker, produce, unique
from tests.clients.raw_transactions import Raw, RawProducer, settled
from tests.clients.test_cli import Cli, cli
from tests.clients.transactional_clients import Contents, read_all
from tests.waiting import eventually

__all__ = ["cli"]

E = ErrorCode
STATE = 1


@pytest.fixture(scope="module")
def raw(bootstrap_servers: str) -> Iterator[Raw]:
    with Raw(bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(make_topic: TopicMaker) -> str:
    return make_topic(partitions=2)


@pytest.fixture
def producer(raw: Raw, topic: str) -> RawProducer:
    """A producer with a transaction open in both partitions, and a record in one."""
    made = RawProducer(raw, unique("cli"))
    assert settled(made.init) is E.NONE
    assert settled(lambda: max(made.add({topic: [0, 1]}))) is E.NONE
    assert settled(lambda: made.send(topic, 0, b"open")) is E.NONE
    return made


def facts(output: str) -> dict[str, str]:
    return dict(line.split("\t") for line in output.split("\n\n")[0].splitlines()[2:])


def test_open_transactions_are_listed(cli: Cli, producer: RawProducer) -> None:
    rows = {row[0]: row for row in cli("txn", "list").rows}
    assert rows["TRANSACTIONAL-ID"][STATE] == "STATE"
    coordinator = rows[producer.transactional_id][3]
    assert rows[producer.transactional_id][1:3] == ["Ongoing", str(producer.producer_id)]
    found = {
        "transactional_id": producer.transactional_id,
        "state": "Ongoing",
        "producer_id": producer.producer_id,
        "coordinator": int(coordinator),
    }
    assert found in cli("txn", "list", "--state", "ongoing", "--json").document
    assert found not in cli("txn", "list", "--state", "Empty", "--json").document
    assert found not in cli("txn", "list", "--open-for", "3600", "--json").document
    time.sleep(0.2)
    assert found in cli("txn", "list", "--open-for", "0.1", "--json").document


def test_what_is_committed_is_consumed(
    cli: Cli, producer: RawProducer, topic: str, bootstrap_servers: str
) -> None:
    """Unless something else is asked for; `producer` holds partition 0 with an open transaction."""
    ended = RawProducer(producer.raw, unique("cli"))
    assert settled(ended.init) is E.NONE
    for value, is_commit in ((b"aborted", False), (b"committed", True)):
        assert settled(lambda: max(ended.add({topic: [0, 1]}))) is E.NONE
        for partition in (0, 1):
            assert settled(partial(ended.send, topic, partition, value)) is E.NONE
        assert settled(partial(ended.end, is_commit=is_commit)) is E.NONE
    ends: Contents = {0: [], 1: [b"committed"]}
    eventually(lambda: read_all(bootstrap_servers, topic) == ends, "the markers")
    words = ["consume", topic, "--from-beginning", "--until-end"]
    assert cli(*words).output.split() == ["committed"]
    everything = cli(*words, "--isolation", "read_uncommitted").output.split()
    assert sorted(everything) == ["aborted", "aborted", "committed", "committed", "open"]
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
    eventually(
        lambda: sorted(cli(*words).output.split()) == ["committed", "committed", "open"],
        "the commit",
    )


def test_an_open_transaction_is_described(cli: Cli, producer: RawProducer, topic: str) -> None:
    done = cli("txn", "describe", producer.transactional_id)
    seen = facts(done.output)
    assert seen["state"] == "Ongoing"
    assert seen["producer"] == str(producer.producer_id)
    assert seen["epoch"] == str(producer.epoch)
    assert seen["timeout-ms"] == "60000"
    assert seen["begun"].startswith("20")
    written = next(row for row in done.rows if row[:2] == [topic, "0"])
    assert written[3:6] == [str(producer.producer_id), str(producer.epoch), "0"]
    assert written[-1] == "0"  # the offset where it begins
    assert [topic, "1", *["-"] * 7] in done.rows
    document = cli("txn", "describe", producer.transactional_id, "--json").document
    (partition,) = document["partitions"]
    assert (partition["start_offset"], partition["last_sequence"]) == (0, 0)
    assert document["unwritten"] == [{"topic": topic, "partition": 1}]
    assert document["start_ms"] > 0


def test_producers_of_a_topic_are_shown(cli: Cli, producer: RawProducer, topic: str) -> None:
    (row,) = cli("txn", "producers", topic, "--json").document
    assert row["producer_id"] == producer.producer_id
    assert row["start_offset"] == 0
    assert cli("txn", "producers", f"{topic}:1", "--json").document == []
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
    eventually(
        lambda: cli("txn", "producers", topic, "--open", "--json").document == [], "the commit"
    )
    rows = cli("txn", "producers", topic, "--json").document
    assert {row["partition"] for row in rows} == {0, 1}
    assert {row["start_offset"] for row in rows} == {None}


def test_a_transaction_is_aborted_and_its_producer_shut_out(
    cli: Cli, bootstrap_servers: str, producer: RawProducer, topic: str
) -> None:
    done = cli("txn", "abort", producer.transactional_id)
    assert done.output.startswith(f"aborted the transaction of {producer.transactional_id}")
    assert settled(lambda: producer.end(is_commit=True)) is E.PRODUCER_FENCED
    assert settled(lambda: producer.send(topic, 0, b"late")) is E.INVALID_PRODUCER_EPOCH
    assert read_all(bootstrap_servers, topic) == {0: [], 1: []}
    again = cli("txn", "abort", producer.transactional_id, code=1)
    assert "has no transaction open (it is Empty)" in again.errors
    # Whoever begins anew, may.
    assert settled(producer.init) is E.NONE
    assert settled(lambda: max(producer.add({topic: [0]}))) is E.NONE
    assert settled(lambda: producer.send(topic, 0, b"next")) is E.NONE
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
    eventually(lambda: read_all(bootstrap_servers, topic)[0] == [b"next"], "the commit")


def test_what_does_not_exist_is_named(cli: Cli, topic: str) -> None:
    for words in (["describe", "nobody"], ["abort", "nobody"]):
        errors = cli("txn", *words, code=1).errors
        assert "transactional id nobody does not exist" in errors
        assert "kafkaesque txn list" in errors
    assert "topic nowhere does not exist" in cli("txn", "producers", "nowhere", code=1).errors
    assert "has no partition 7" in cli("txn", "producers", f"{topic}:7", code=1).errors
    place = ["--topic", topic, "--partition", "0", "--start-offset", "5"]
    assert "has no open transaction that begins" in cli("txn", "abort", *place, code=1).errors


class Forgetful(Transactions):
    """Its coordinators know of no transaction."""

    def find(
        self, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int = ANY_DURATION
    ) -> tuple[list[ListedTransaction], list[str]]:
        return [], []


def test_what_hangs_in_a_partition_is_aborted(
    bootstrap_servers: str, producer: RawProducer, topic: str
) -> None:
    produce(bootstrap_servers, topic, [Sent(value=b"after", partition=0)])
    assert read_all(bootstrap_servers, topic) == {0: [], 1: []}
    row = _abort_hanging(Forgetful(bootstrap_servers), Partition(topic, 0), 0)
    assert row.producer_id == producer.producer_id
    assert read_all(bootstrap_servers, topic) == {0: [b"after"], 1: []}


def test_what_its_coordinator_knows_does_not_hang(
    cli: Cli, producer: RawProducer, topic: str
) -> None:
    place = ["--topic", topic, "--partition", "0", "--start-offset", "0"]
    errors = cli("txn", "abort", *place, code=1).errors
    assert f"kafkaesque txn abort {producer.transactional_id}" in errors
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
