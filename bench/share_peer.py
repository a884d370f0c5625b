"""Java's share consumers, and Apache Kafka's tools for share groups, unchanged.

The consumers say what they are given and what brokers confirm (`bench/java/Shares.java`), while a
broker is killed, and one of them. What all of them said is judged in the end (`share_ledger.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.java_clients import (
    BEGUN,
    JavaClients,
    Program,
    WrongResultError,
    check_equal,
    unique,
    wait_until,
)
from bench.share_ledger import SLOW, ShareLedger
from bench.tools import ToolError, Tools

LINES: Final = 2_000
#: What is in doubt comes again when its lock has ended, which lasts for 15 s.
QUIET_S: Final = 20.0
GROUP_TIMEOUT_S: Final = 30.0
SHOWN_MAX: Final = 5
_ONE: Final = ("--max-messages", "1", "--timeout-ms", "60000")
_READ: Final = ("--max-messages", "10", "--timeout-ms", "60000")


class Consumer:
    """One of Java's share consumers, as a process, and who reads what it says."""

    def __init__(self, name: str, ledger: ShareLedger, mode: str, *arguments: str) -> None:
        self.name: Final = name
        self._ledger: Final = ledger
        self._program: Final = Program("Shares", mode, *arguments)
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._program.lines():
            # Who is killed may have said half of a line.
            if line.count("\t") == 4:
                self._ledger.note(self.name, line)

    def finish(self) -> None:
        """Let it end in order; raises WrongResultError if it does not."""
        self._program.finish()
        self._reader.join()

    def kill(self) -> None:
        """End it with SIGKILL; harmless if it has ended."""
        self._program.kill()
        self._reader.join()


def set_group(bootstrap_servers: str, group: str, options: Mapping[str, str]) -> None:
    """Set options of a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in options.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(GROUP_TIMEOUT_S)


def make_group(bootstrap_servers: str) -> str:
    """Return the name of a group that begins at the start, with the shortest locks."""
    group = unique("java-shares")
    options = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.record.lock.duration.ms": "15000",
        "share.renew.acknowledge.enable": "true",
    }
    set_group(bootstrap_servers, group, options)
    return group


def lag_of(tools: Tools, group: str) -> int | None:
    """Return how many records of a group are not done with, as kafka-share-groups shows it."""
    printed = tools.run("kafka-share-groups", "--describe", "--group", group)
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    lags = [row[4] for row in rows]
    return sum(map(int, lags)) if lags and all(each.isdigit() for each in lags) else None


def use_share_consumers(clients: JavaClients) -> str:
    """Java's share consumers: accept, release, reject, renew, implicitly; broker and one killed."""
    servers = clients.bootstrap_servers
    topic, group, ledger = clients.make_topic("shared"), make_group(servers), ShareLedger()
    # What is kept longest is given first, so that its lock is renewed across the outage.
    lines = [SLOW, *(f"line {number}" for number in range(LINES))]
    consumers: list[Consumer] = []

    def start(mode: str) -> Consumer:
        name = f"{mode} {len(consumers) + 1}"
        consumers.append(Consumer(name, ledger, mode, servers, topic, group))
        return consumers[-1]

    producing = None
    try:
        for mode in ("explicit", "explicit", "implicit"):
            start(mode)
        producing = clients.produce(topic, lines)
        wait_until(lambda: ledger.count_given() >= BEGUN, f"{BEGUN} records are given")
        with clients.outage() as said:
            pass
        victim = start("implicit")
        wait_until(lambda: ledger.has_given(victim.name) or _is_all(ledger), "one more has some")
        ledger.note_killed(victim.name)
        victim.kill()
        producing.result()
        wait_until(lambda: _is_all(ledger), f"{len(lines):,} records are given")
        wait_until(lambda: ledger.is_over(QUIET_S), "nothing of the group is left")
        for each in consumers:
            if each is not victim:
                each.finish()
    finally:
        for each in consumers:
            each.kill()
        if producing is not None:
            producing.kill()
    wrong = ledger.check(lines)
    if wrong:
        raise WrongResultError(f"{len(wrong)} things are wrong: {wrong[:SHOWN_MAX]}")
    return f"ok, {ledger.tally()}; {said}, one consumer killed"


def _is_all(ledger: ShareLedger) -> bool:
    return ledger.count_given() >= LINES + 1


def use_share_tools(clients: JavaClients) -> str:
    """kafka-console-share-consumer, kafka-share-groups, kafka-groups, the performance test."""
    servers = clients.bootstrap_servers
    tools, topic, group = Tools(servers), clients.make_topic("tools-shared"), make_group(servers)
    lines = [f"line {number}" for number in range(30)]
    tools.run("kafka-console-producer", "--topic", topic, text="".join(f"{x}\n" for x in lines))
    read = ("kafka-console-share-consumer", "--topic", topic, "--group", group)
    found = [line for _ in range(3) for line in tools.run(*read, *_READ).splitlines()]
    check_equal(found, lines, "kafka-console-share-consumer")
    tools.expect("kafka-share-groups", "--list", says=group)
    tools.expect("kafka-share-groups", "--list", "--state", says="Empty")
    tools.expect("kafka-groups", "--list", "--group-type", "share", says=group)
    named = ("--group", group)
    tools.expect("kafka-share-groups", "--describe", *named, "--state", says="Empty")
    tools.run("kafka-share-groups", "--describe", *named, "--members")
    _expect_lag(tools, group, 0)
    reset = ("--reset-offsets", *named, "--topic", topic)
    tools.expect("kafka-share-groups", *reset, "--to-earliest", "--dry-run", says=topic)
    _expect_lag(tools, group, 0)
    tools.expect("kafka-share-groups", *reset, "--to-earliest", "--execute", says=topic)
    _expect_lag(tools, group, len(lines))
    count = ("--topic", topic, "--group", group, "--num-records", str(len(lines)))
    tools.run("kafka-share-consumer-perf-test", *count, "--timeout", "60000")
    _expect_lag(tools, group, 0)
    other, left = clients.make_topic("tools-left"), ("--group", make_group(servers))
    for name in (topic, other):
        tools.run("kafka-console-producer", "--topic", name, text="one more\n")
        tools.run("kafka-console-share-consumer", "--topic", name, *left, *_ONE)
    tools.run("kafka-share-groups", "--delete-offsets", *left, "--topic", topic)
    described = tools.expect("kafka-share-groups", "--describe", *left, says=other)
    if topic in described:
        raise ToolError(f"the group still has offsets of {topic}: {described}")
    tools.expect("kafka-share-groups", "--delete", *named, says="success")
    if group in tools.run("kafka-share-groups", "--list").split():
        raise ToolError("the group is still listed after its deletion")
    return "ok"


def _expect_lag(tools: Tools, group: str, wanted: int) -> None:
    """Wait until so much of a group is not done with: acknowledgements may be on their way."""
    deadline = time.monotonic() + GROUP_TIMEOUT_S
    while (lag := lag_of(tools, group)) != wanted:
        if time.monotonic() > deadline:
            raise ToolError(f"kafka-share-groups says that the lag is {lag}, not {wanted}")
