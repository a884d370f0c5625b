"""The connector to Spark with Apache Kafka itself, over TLS and SCRAM: `scripts/peers --secured`.

Three brokers of Apache Kafka with a listener for SASL_SSL; tables are written and read with both
guarantees and a stream is copied exactly once, over that listener alone. Needs Java 17, openssl,
the extra `spark`, and Maven Central on the first run; where one of them is missing it says so, and
the exit code is 3.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.apache_kafka import SERVER_VERSION, ApacheKafka
from bench.maven import PeerUnavailableError
from kafkaesque.cli.broker_ports import unused_ports
from tests.spark.secured_relay import Certificates

SKIPPED = 3
_HOST = "127.0.0.1"
_BROKERS, _ROWS, _TIMEOUT_S = 3, 1000, 60.0
_USER, _PASSWORD = "ann", "hidden-word"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafka(ApacheKafka):
    """Brokers that have a listener for SASL_SSL with SCRAM-SHA-512 beside the one in the clear."""

    def __init__(self, brokers: int, *, key_and_certificate: Path) -> None:
        super().__init__(brokers)
        self._keystore = key_and_certificate
        self._ports = unused_ports(brokers)

    @property
    def secured_servers(self) -> str:
        return ",".join(f"{_HOST}:{port}" for port in self._ports)

    def _properties(
        self, number: int, clients: Sequence[int], controllers: Sequence[int], data: Path
    ) -> str:
        secured = f"SECURED://{_HOST}:{self._ports[number - 1]}"
        plain = f"PLAINTEXT://{_HOST}:{clients[number - 1]}"
        # Of a name that stands there twice the last counts.
        options = {
            "listeners": f"{plain},{secured},CONTROLLER://{_HOST}:{controllers[number - 1]}",
            "advertised.listeners": f"{plain},{secured}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL"
            ),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{_MODULE} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore),
        }
        more = "".join(f"{name}={value}\n" for name, value in options.items())
        return super()._properties(number, clients, controllers, data) + more


def prepare_cluster(kafka: SecuredKafka, topics: Sequence[str]) -> None:
    """Make the user and the topics, over the listener in the clear."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    user = UserScramCredentialUpsertion(_USER, credential, _PASSWORD.encode())
    wanted = [NewTopic(topic, 3, _BROKERS) for topic in topics]
    for futures in (admin.alter_user_scram_credentials([user]), admin.create_topics(wanted)):
        for future in futures.values():
            future.result(_TIMEOUT_S)


def use_connector(spark: Any, options: dict[str, str], topics: Sequence[str], home: Path) -> None:
    """Write, read and copy.

    Raises:
        AssertionError: what was read is not what was written.
    """
    sent = Counter(range(_ROWS))
    rows = spark.range(_ROWS).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    for topic, guarantee in zip(topics, ("exactly-once", "at-least-once"), strict=False):
        writer = rows.write.format("kafkaesque").mode("append").options(**options)
        writer.options(topic=topic, deliveryGuarantee=guarantee).save()
        _compare(f"a table, {guarantee}", _read(spark, options, topic), sent)
    for attempt in ("a stream, exactly-once", "the same, its last micro-batch repeated"):
        for commit in home.glob("checkpoint/commits/*"):
            commit.unlink()
        reader = spark.readStream.format("kafkaesque").options(**options)
        table = reader.options(subscribe=topics[0], startingOffsets="earliest").load()
        writer = table.select("key", "value").writeStream.format("kafkaesque").options(**options)
        writer = writer.options(topic=topics[2], checkpointLocation=str(home / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        _compare(attempt, _read(spark, options, topics[2]), sent)


def _read(spark: Any, options: dict[str, str], topic: str) -> Counter[int]:
    table = spark.read.format("kafkaesque").options(**options).option("subscribe", topic).load()
    return Counter(int(row.value) for row in table.select("value").collect())


def _compare(what: str, found: Counter[int], sent: Counter[int]) -> None:
    if found != sent:
        raise AssertionError(f"{what}: {found.total()} rows of {sent.total()}, or other ones")
    print(f"{what}: {found.total()} rows of {sent.total()}", flush=True)


def run() -> None:
    """Do all of it.

    Raises:
        PeerUnavailableError: what it needs is not to be had here.
    """
    if find_spec("pyspark") is None:
        raise PeerUnavailableError("PySpark is not installed (scripts/test-spark does it)")
    if shutil.which("openssl") is None:
        raise PeerUnavailableError("there is no openssl to make certificates with")
    from pyspark.sql import SparkSession

    from kafkaesque.spark.java import ensure_java

    topics = ("first", "second", "third")
    with tempfile.TemporaryDirectory(prefix="secured-peer-") as folder:
        home = Path(folder)
        certificates = Certificates(home, _HOST)
        keystore = home / "keystore.pem"
        keystore.write_text((home / "server.key").read_text() + (home / "server.crt").read_text())
        with SecuredKafka(_BROKERS, key_and_certificate=keystore) as kafka:
            print(f"Apache Kafka {SERVER_VERSION}, SASL_SSL at {kafka.secured_servers}", flush=True)
            prepare_cluster(kafka, topics)
            options = {
                "kafka.bootstrap.servers": kafka.secured_servers,
                "kafka.security.protocol": "SASL_SSL",
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(certificates.authority),
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": (
                    f'{_MODULE} required username="{_USER}" password="{_PASSWORD}";'
                ),
            }
            ensure_java()
            os.environ["PYSPARK_PYTHON"] = sys.executable
            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.ui.showConsoleProgress", "false")
            spark = builder.config("spark.driver.bindAddress", _HOST).getOrCreate()
            try:
                spark.sparkContext.setLogLevel("ERROR")
                use_connector(spark, options, topics, home)
            finally:
                spark.stop()


def main() -> int:
    """Run it, and say how it went."""
    try:
        run()
    except PeerUnavailableError as error:
        print(f"the connector with a secured Apache Kafka is skipped: {error}", file=sys.stderr)
        return SKIPPED
    print("the connector works with Apache Kafka over SASL_SSL with SCRAM-SHA-512")
    return 0


if __name__ == "__main__":
    sys.exit(main())
