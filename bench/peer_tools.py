"""Apache Kafka's own tools, clients and Kafka Streams, unchanged, against a cluster of ours.

    scripts/peers                       start three brokers of ours, use every tool, then Java's
                                        transactional clients, Kafka Streams (exactly_once_v2) and
                                        share consumers, under which brokers are killed
    scripts/peers --share               of these only share groups: Java's share consumers, and
                                        kafka-share-groups with the other tools for them
    scripts/peers --tokens              kafka-acls and kafka-delegation-tokens with a broker where
                                        clients log in, and a producer that logs in by a token
    scripts/peers --up-secure           the console clients, kafka-acls and kafka-configs with
                                        `kafkaesque up --secure` (bench/secure_tools.py)
    scripts/peers TOOL [ARGUMENT ...]   run one tool, such as kafka-topics, as its script would
    scripts/peers --secured             the other way round: our connector to Spark with Apache
                                        Kafka over SASL_SSL (bench/secured_peer.py)

Outside of the suite, as it needs a JDK of version 17 and, once, Maven. Where they cannot be had it
says so and ends with 3. With KAFKAESQUE_TEST_BOOTSTRAP set the first form uses that cluster
instead, of which no broker is killed; that is how it is proven against Apache Kafka itself:

    python -m bench.apache_kafka --brokers 3 -- scripts/peers
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from bench.apache_kafka import TOOLS, tool_command
from bench.java_clients import JavaClients, WrongResultError, use_streams, use_transactions
from bench.maven import PeerUnavailableError
from bench.ours import Kafkaesque
from bench.share_peer import use_share_consumers, use_share_tools
from bench.tools import TOOL_TIMEOUT_S, ToolError, Tools
from kafkaesque.cli.broker_ports import unused_ports

EXIT_FAILED = 1
EXIT_UNAVAILABLE = 3
RECORDS = 20_000
#: Bytes a second that replicas move with: they take some seconds, and can be seen to move.
THROTTLE = 300_000


def use_topics(tools: Tools, topic: str) -> None:
    """kafka-topics: create, list, describe, alter; kafka-configs; kafka-get-offsets."""
    create = ("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    tools.expect("kafka-topics", *create, says="Created topic")
    tools.expect("kafka-topics", "--list", says=topic)
    tools.expect("kafka-topics", "--describe", "--topic", topic, says="PartitionCount: 3")
    tools.run("kafka-topics", "--alter", "--topic", topic, "--partitions", "4")
    tools.expect("kafka-topics", "--describe", "--topic", topic, says="PartitionCount: 4")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    change = ("--alter", "--add-config", "retention.ms=3600000")
    tools.expect("kafka-configs", *entity, *change, says="Completed updating config")
    tools.expect("kafka-configs", *entity, "--describe", says="retention.ms=3600000")
    entity = ("--entity-type", "groups", "--entity-name", topic)
    change = ("--alter", "--add-config", "consumer.session.timeout.ms=50000")
    tools.expect("kafka-configs", *entity, *change, says="Completed updating config")
    tools.expect("kafka-configs", *entity, "--describe", says="consumer.session.timeout.ms=50000")
    tools.expect("kafka-get-offsets", "--topic", topic, says=f"{topic}:3:0")


def use_console(tools: Tools, topic: str) -> None:
    """kafka-console-producer and kafka-console-consumer, with keys and in a group."""
    lines = [f"k{i}:line {i}" for i in range(100)]
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    text = "".join(f"{line}\n" for line in lines)
    tools.run("kafka-console-producer", "--topic", topic, *keyed, text=text)
    options = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "60000")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    group = ("--group", f"{topic}-group")
    printed = tools.run("kafka-console-consumer", "--topic", topic, *group, *options, *shown)
    if sorted(printed.splitlines()) != sorted(lines):
        raise ToolError(f"the consumer printed {printed[:500]}")


def use_groups(tools: Tools, topic: str) -> None:
    """kafka-consumer-groups: list, describe, reset offsets, delete."""
    group = f"{topic}-group"
    tools.expect("kafka-consumer-groups", "--list", says=group)
    tools.expect("kafka-consumer-groups", "--describe", "--group", group, says=topic)
    tools.expect("kafka-consumer-groups", "--describe", "--group", group, "--state", says="Empty")
    reset = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    tools.expect("kafka-consumer-groups", "--group", group, *reset, says=topic)
    described = tools.run("kafka-consumer-groups", "--describe", "--group", group)
    lags = [line.split()[5] for line in described.splitlines() if line.startswith(group)]
    if sum(map(int, lags)) != 100:
        raise ToolError(f"after the reset the lag is not 100: {described}")
    tools.expect("kafka-consumer-groups", "--delete", "--group", group, says="was successful")


def use_perf_tests(tools: Tools, topic: str) -> None:
    """kafka-producer-perf-test, idempotent and compressed, then kafka-consumer-perf-test."""
    load = ("--topic", topic, "--num-records", str(RECORDS), "--record-size", "200")
    properties = ("acks=all", "enable.idempotence=true", "compression.type=zstd")
    options = ("--throughput", "-1", "--command-property", *properties)
    tools.expect("kafka-producer-perf-test", *load, *options, says=f"{RECORDS} records sent")
    read = ("--topic", topic, "--num-records", str(RECORDS), "--timeout", "60000")
    tools.run("kafka-consumer-perf-test", *read)


def use_reassignments(tools: Tools, topic: str) -> None:
    """kafka-reassign-partitions: execute with a throttle, list, verify until it is done."""
    moved = f"{topic}-moved"
    tools.run("kafka-topics", "--create", "--topic", moved, "--replica-assignment", "1:2,1:2")
    load = ("--topic", moved, "--num-records", str(RECORDS), "--record-size", "200")
    options = ("--throughput", "-1", "--command-property", "acks=all")
    tools.expect("kafka-producer-perf-test", *load, *options, says=f"{RECORDS} records sent")
    wanted = [
        {"topic": moved, "partition": number, "replicas": [3, 2], "log_dirs": ["any", "any"]}
        for number in range(2)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
        json.dump({"version": 1, "partitions": wanted}, plan)
        plan.flush()
        named = ("--reassignment-json-file", plan.name)
        tools.expect(
            "kafka-reassign-partitions",
            *("--execute", *named, "--throttle", str(THROTTLE)),
            says="Successfully started partition reassignments",
        )
        tools.expect("kafka-reassign-partitions", "--list", says=f"{moved}-1: replicas")
        _await_reassigned(tools, named, moved)
    described = tools.run("kafka-topics", "--describe", "--topic", moved)
    if described.count("Replicas: 3,2") != 2:
        raise ToolError(f"the replicas are elsewhere: {described}")
    for kind, name in (("brokers", "3"), ("topics", moved)):
        entity = ("--entity-type", kind, "--entity-name", name)
        left = tools.run("kafka-configs", *entity, "--describe")
        if f".throttled.rate={THROTTLE}" in left or "throttled.replicas=" in left:
            raise ToolError(f"the throttle is still there: {left}")
    tools.run("kafka-topics", "--delete", "--topic", moved)


def _await_reassigned(tools: Tools, named: Sequence[str], topic: str) -> None:
    deadline = time.monotonic() + TOOL_TIMEOUT_S
    while time.monotonic() < deadline:
        printed = tools.run("kafka-reassign-partitions", "--verify", *named)
        if all(f"Reassignment of partition {topic}-{n} is completed" in printed for n in (0, 1)):
            return
    raise ToolError(f"the replicas still move: {printed}")


def use_features(tools: Tools, topic: str) -> None:
    """kafka-features: describe."""
    printed = tools.expect("kafka-features", "describe", says="FinalizedVersionLevel")
    if "Feature:" not in printed:
        raise ToolError(f"no feature is described: {printed}")


def use_quorum(tools: Tools, topic: str) -> None:
    """kafka-metadata-quorum: who votes, and how far behind everybody is."""
    tools.expect("kafka-metadata-quorum", "describe", "--status", says="LeaderId:")
    replicas = tools.expect("kafka-metadata-quorum", "describe", "--replication", says="Leader")
    if "Follower" not in replicas and "Observer" not in replicas:
        raise ToolError(f"only the leader is there: {replicas}")


def use_inspection(tools: Tools, topic: str) -> None:
    """kafka-log-dirs, kafka-leader-election, kafka-broker-api-versions; the topic's end."""
    tools.expect("kafka-log-dirs", "--describe", "--topic-list", topic, says=f"{topic}-0")
    where = ("--topic", topic, "--partition", "0")
    tools.run("kafka-leader-election", "--election-type", "preferred", *where)
    # Nothing is given up where there is a leader.
    tools.expect("kafka-leader-election", "--election-type", "unclean", *where, says="already")
    tools.expect("kafka-broker-api-versions", says="Produce(0)")
    tools.run("kafka-topics", "--delete", "--topic", topic)
    if topic in tools.run("kafka-topics", "--list").split():
        raise ToolError("the topic is still listed after its deletion")


STEPS: tuple[Callable[[Tools, str], None], ...] = (
    use_topics,
    use_console,
    use_groups,
    use_perf_tests,
    use_reassignments,
    use_features,
    use_quorum,
    use_inspection,
)


USER, PASSWORD = "job", "a password for tests"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def use_tokens() -> int:
    """Make, show, renew and end a delegation token by Kafka's tool, and log in by it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        secret = directory / "secret"
        secret.write_text("a secret of the cluster, long enough\n")
        secret.chmod(0o600)
        (port,) = unused_ports(1)
        os.environ["KAFKAESQUE_CLUSTER_SECRET_FILE"] = str(secret)
        listener = f'\n[[listener]]\nname = "log-in"\nport = {port}\naccess = "required"\n'
        with Kafkaesque(brokers=1, sections=lambda _: listener) as cluster:
            _TokenSteps(directory, cluster.bootstrap_servers, f"127.0.0.1:{port}").go()
    return 0


class _TokenSteps:
    """One user, one topic that it may write to, one token."""

    def __init__(self, directory: Path, inside: str, outside: str) -> None:
        self._directory = directory
        self._inside = Tools(inside)
        self._outside = Tools(outside)

    def go(self) -> None:
        """Do all steps, and print what was done."""
        inside, topic = self._inside, "by-token"
        create = ("--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
        inside.expect("kafka-topics", *create, says="Created topic")
        added = f"SCRAM-SHA-256=[iterations=4096,password={PASSWORD}]"
        entity = ("--entity-type", "users", "--entity-name", USER)
        inside.expect("kafka-configs", *entity, "--alter", "--add-config", added, says="Completed")
        allowed = ("--allow-principal", f"User:{USER}", "--operation", "Write", "--topic", topic)
        inside.expect("kafka-acls", "--add", *allowed, says="Adding ACLs")
        inside.expect("kafka-acls", "--list", "--topic", topic, says=f"User:{USER}")
        print("kafka-configs, kafka-acls: a user and a rule", flush=True)
        log_in = ("--command-config", self._properties("user", USER, PASSWORD, is_token=False))
        token_id, hmac = self._create(log_in)
        describe = ("--describe", "--owner-principal", f"User:{USER}", *log_in)
        shown = self._tokens(*describe, says=token_id)
        if hmac in shown:
            raise ToolError(f"the secret is shown again: {shown}")
        self._tokens("--renew", "--renew-time-period", "-1", "--hmac", hmac, *log_in, says="renew")
        print("kafka-delegation-tokens: created, described, renewed", flush=True)
        config = self._properties("token", token_id, hmac, is_token=True)
        produce = ("kafka-console-producer", "--topic", topic, "--command-config", config)
        self._outside.run(*produce, text="by token\n")
        self._tokens("--expire", "--expiry-time-period", "-1", "--hmac", hmac, *log_in, says="xpir")
        read = ("--topic", topic, "--from-beginning", "--max-messages", "1")
        inside.expect("kafka-console-consumer", *read, says="by token")
        print("kafka-console-producer: logged in by the token", flush=True)
        gone = self._tokens(*describe, says="")
        if token_id in gone:
            raise ToolError(f"the token is still there: {gone}")
        print("kafka-delegation-tokens: ended", flush=True)

    def _tokens(self, *arguments: str, says: str) -> str:
        return self._outside.expect("kafka-delegation-tokens", *arguments, says=says)

    def _create(self, log_in: tuple[str, str]) -> tuple[str, str]:
        words = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:other")
        printed = self._tokens(*words, *log_in, says="TOKENID")
        row = printed.splitlines()[-1].split()
        return row[0], row[1]

    def _properties(self, name: str, user: str, password: str, *, is_token: bool) -> str:
        path = self._directory / f"{name}.properties"
        end = ' tokenauth="true"' if is_token else ""
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={_MODULE} required username="{user}" password="{password}"{end};\n'
        )
        return str(path)


CLIENT_STEPS: tuple[Callable[[JavaClients], str], ...] = (use_transactions, use_streams)
SHARE_STEPS: tuple[Callable[[JavaClients], str], ...] = (use_share_tools, use_share_consumers)


def use_all(bootstrap_servers: str, cluster: Kafkaesque | None, *, only_shares: bool) -> int:
    """Do every step, print what became of each, and return how many failed."""
    tools, topic = Tools(bootstrap_servers), f"tools-{uuid.uuid4().hex[:8]}"
    clients = JavaClients(bootstrap_servers, cluster)
    steps: list[tuple[str | None, Callable[[], str | None]]] = []
    if not only_shares:
        steps += [(step.__doc__, partial(step, tools, topic)) for step in STEPS]
        steps += [(step.__doc__, partial(step, clients)) for step in CLIENT_STEPS]
    steps += [(step.__doc__, partial(step, clients)) for step in SHARE_STEPS]
    failures = 0
    for what, step in steps:
        start = time.monotonic()
        try:
            verdict = step() or "ok"
        except (ToolError, WrongResultError, subprocess.TimeoutExpired) as error:
            failures += 1
            verdict = f"FAILED: {error}"
        print(f"{what}  {verdict}  ({time.monotonic() - start:.1f} s)", flush=True)
    return failures


def main() -> int:
    """Run one tool, or use them all."""
    words = sys.argv[1:]
    try:
        if words and words[0] in TOOLS:
            return subprocess.run([*tool_command(words[0]), *words[1:]], check=False).returncode
        if words == ["--tokens"]:
            return use_tokens()
        only_shares = words == ["--share"]
        if words and not only_shares:
            print(f"{__doc__}\nTools: {', '.join(TOOLS)}")
            return 0 if words[0] in ("-h", "--help") else 2
        for tool in TOOLS:
            tool_command(tool)
        JavaClients.prepare()
        given = os.environ.get("KAFKAESQUE_TEST_BOOTSTRAP")
        with nullcontext() if given else Kafkaesque(brokers=3) as cluster:
            servers = given or (cluster.bootstrap_servers if cluster else "")
            failures = use_all(servers, cluster, only_shares=only_shares)
            return EXIT_FAILED if failures else 0
    except PeerUnavailableError as error:
        print(error, file=sys.stderr)
        return EXIT_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
