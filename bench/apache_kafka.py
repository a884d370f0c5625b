"""Apache Kafka in KRaft mode as the peer: fetched by its Maven coordinates, started, stopped.

Used as a context manager (`with ApacheKafka(brokers=1) as kafka: kafka.bootstrap_servers`) or from
the command line, to run something against it:

    python -m bench.apache_kafka --brokers 3 -- pytest tests/clients

which sets KAFKAESQUE_TEST_BOOTSTRAP for that command and stops the brokers after it. Without a
command it serves until Ctrl-C. Needs Java 17 or newer and Maven; where they, or the artifacts,
cannot be had, `PeerUnavailableError` says so and the peer is left out.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from bench.maven import (
    ALONE,
    PeerUnavailableError,
    dependency,
    fetch_jars,
    find_compiling_java,
    find_java,
    log_binding,
)
from bench.processes import BrokerProcess, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports

# The newest 4.x that is published. Its tools and Kafka Streams are one release behind: 4.4.0 has
# neither kafka-tools nor the kafka-tools-api that its server names as a dependency (and works
# without, as the tools alone use it).
SERVER_VERSION = "4.4.0"
TOOLS_VERSION = "4.3.1"
# The newest that Maven Central has; it runs on Spark 4.3, too.
SPARK_CONNECTOR_VERSION = "4.2.0"
_WITHOUT_TOOLS_API = ("org.apache.kafka", "kafka-tools-api")

FORMAT_TIMEOUT_S = 120
READY_TIMEOUT_S = 120.0

# What kafka-server-start.sh and kafka-run-class.sh give a broker.
HEAP_OPTIONS = ("-Xmx1G", "-Xms1G")
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
TOOL_HEAP_OPTIONS = ("-Xmx256M",)
PROGRAM_HEAP_OPTIONS = ("-Xmx512M",)

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}

_LOG_CONFIGURATION = """status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = stdout
"""


def fetch_server(version: str = SERVER_VERSION) -> Path:
    """Return a directory with the broker's jars, fetched unless it is there already."""
    return fetch_jars(
        f"server-{version}",
        dependency("org.apache.kafka", "kafka_2.13", version, _WITHOUT_TOOLS_API) + log_binding(),
    )


def fetch_tools(version: str = TOOLS_VERSION) -> Path:
    """Return a directory with the command-line tools' jars, fetched unless it is there already."""
    return fetch_jars(
        f"tools-{version}",
        dependency("org.apache.kafka", "kafka_2.13", version)
        + dependency("org.apache.kafka", "kafka-tools", version)
        + log_binding(),
    )


def fetch_streams(version: str = TOOLS_VERSION) -> Path:
    """Return a directory with Java's clients and Kafka Streams, fetched unless it is there."""
    return fetch_jars(
        f"streams-{version}",
        dependency("org.apache.kafka", "kafka-streams", version) + log_binding(),
    )


def fetch_spark_connector(version: str = SPARK_CONNECTOR_VERSION) -> Path:
    """Return a directory with Spark's own Kafka connector, fetched unless it is there already.

    What it needs is named one by one: its own description names a repository that not every
    network reaches, and Spark brings the rest.
    """
    return fetch_jars(
        f"spark-connector-{version}",
        "".join(dependency(*each, ALONE) for each in _spark_connector_parts(version)),
    )


def _spark_connector_parts(version: str) -> list[tuple[str, str, str]]:
    return [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    ]


def tool_command(tool: str) -> list[str]:
    """Return the command line that starts one of Apache Kafka's own tools, by its script's name."""
    jars = fetch_tools()
    logging = jars.parent / "tools-log4j2.properties"
    logging.write_text(_LOG_CONFIGURATION.format(level="warn"))
    return [
        find_java(),
        *TOOL_HEAP_OPTIONS,
        *JVM_OPTIONS,
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        f"{jars}/*",
        TOOLS[tool],
    ]


def program_command(source: Path, *more: Path) -> list[str]:
    """Return the command line that compiles and runs a Java source; what it logs goes to stderr.

    Jars of `more` directories are behind those of Kafka's clients.

    Raises:
        PeerUnavailableError: Java, its compiler, Maven or the artifacts cannot be had here.
    """
    java, jars = find_compiling_java(), fetch_streams()
    logging = jars.parent / "programs-log4j2.properties"
    target = "appender.stdout.target = SYSTEM_ERR\n"
    logging.write_text(_LOG_CONFIGURATION.format(level="warn") + target)
    options = [*PROGRAM_HEAP_OPTIONS, f"-Dlog4j2.configurationFile={logging}"]
    path = ":".join(f"{each}/*" for each in (jars, *more))
    return [java, *options, "-cp", path, str(source)]


class ApacheKafka:
    """Apache Kafka brokers in combined mode, on 127.0.0.1, in a directory of their own."""

    name = "Apache Kafka"

    def __init__(
        self,
        brokers: int = 1,
        *,
        options: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """`options` are added to each broker's server.properties; `directory` holds the data."""
        self.brokers: list[BrokerProcess] = []
        self._count = brokers
        self._options = dict(options or {})
        self._parent = directory
        self._directory: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def __enter__(self) -> Self:
        self.prepare()
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def topic_options(*, sync: bool) -> Mapping[str, str]:
        """Return the options of a topic whose acknowledgements wait, or not, for the disk."""
        return {"flush.messages": "1"} if sync else {}

    def prepare(self) -> None:
        """Fetch, configure and format; nothing runs yet.

        Raises:
            PeerUnavailableError: Java, Maven or the artifacts cannot be had here.
        """
        java, jars = find_java(), fetch_server()
        self._directory = Path(tempfile.mkdtemp(prefix="apache-kafka-", dir=self._parent))
        ports = unused_ports(2 * self._count)
        clients, controllers = ports[: self._count], ports[self._count :]
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        logging = self._directory / "log4j2.properties"
        logging.write_text(_LOG_CONFIGURATION.format(level="info"))
        for number in range(1, self._count + 1):
            home = self._directory / f"broker-{number}"
            home.mkdir()
            properties = home / "server.properties"
            properties.write_text(self._properties(number, clients, controllers, home / "data"))
            runtime = [java, *HEAP_OPTIONS, *JVM_OPTIONS]
            # Killed, it leaves its unpacked codecs behind: here they go with its data.
            runtime += [f"-Djava.io.tmpdir={home}", f"-Dlog4j2.configurationFile={logging}"]
            runtime += ["-cp", f"{jars}/*"]
            self._format(runtime, cluster_id, properties)
            gc_log = f"-Xlog:gc*:file={home}/gc.log:time,tags:filecount=10,filesize=100M"
            self.brokers.append(
                BrokerProcess(
                    [*runtime[:1], gc_log, *runtime[1:], "kafka.Kafka", str(properties)],
                    log_path=home / "server.log",
                    port=clients[number - 1],
                    directory=home,
                )
            )

    def start(self) -> None:
        """Start every broker and wait until each knows all the others."""
        for broker in self.brokers:
            broker.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until every broker that runs answers Metadata with the brokers that run."""
        running = [broker for broker in self.brokers if broker.is_running()]
        for broker in running:
            wait_until_ready(broker, brokers=len(running), timeout_s=READY_TIMEOUT_S)

    def close(self) -> None:
        """Stop the brokers and remove their data."""
        for broker in self.brokers:
            broker.kill()  # nothing of it is kept: an orderly shutdown would only take time
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.brokers = []
        self._directory = None

    def _properties(
        self, number: int, clients: Sequence[int], controllers: Sequence[int], data: Path
    ) -> str:
        client, controller = clients[number - 1], controllers[number - 1]
        copies = str(min(3, self._count))
        voters = enumerate(controllers, start=1)
        options = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(max(1, int(copies) - 1)),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": str(max(1, int(copies) - 1)),
            "group.initial.rebalance.delay.ms": "0",
            **self._options,
        }
        return "".join(f"{key}={value}\n" for key, value in options.items())

    @staticmethod
    def _format(runtime: Sequence[str], cluster_id: str, properties: Path) -> None:
        tool = [*runtime, "kafka.tools.StorageTool", "format"]
        # With "=", because an id may begin with a dash.
        tool += [f"--cluster-id={cluster_id}", "--config", str(properties)]
        done = subprocess.run(
            tool, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise PeerUnavailableError(
                f"Apache Kafka is left out: its storage tool failed:\n{done.stdout}{done.stderr}"
            )


def main() -> int:
    """Run a command, or nothing until Ctrl-C, against Apache Kafka brokers."""
    parser = argparse.ArgumentParser(prog="python -m bench.apache_kafka", description=main.__doc__)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    arguments = parser.parse_args()
    # A plain kill ends it in order, too: the brokers are processes of their own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = [word for i, word in enumerate(arguments.command) if i or word != "--"]
    try:
        with ApacheKafka(brokers=arguments.brokers) as kafka:
            print(f"Apache Kafka {SERVER_VERSION} serves at {kafka.bootstrap_servers}", flush=True)
            if command:
                environment = {"KAFKAESQUE_TEST_BOOTSTRAP": kafka.bootstrap_servers}
                return subprocess.run(
                    command, env={**os.environ, **environment}, check=False
                ).returncode
            while True:
                time.sleep(3600)
    except PeerUnavailableError as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
