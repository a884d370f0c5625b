"""Fixtures of the Spark suite: a cluster of three brokers and one Spark for the session.

`scripts/test-spark` installs what these tests need and runs them; without pyspark there are none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]

#: Starting a Spark, and each first query of a kind, takes seconds; on a busy machine a minute.
SPARK_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
            # Spark's own code opens sockets and pipes that it leaves to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have every Spark of these tests run this Python, and start it fast."""
    from kafkaesque.cli.quickstart.delays_pipeline import JAVA_OPTIONS
    from kafkaesque.spark.pipelines.spark_home import make_light_home

    # Of the launcher that every JVM is started by.
    os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(make_light_home(tmp_path_factory.mktemp("spark-home")))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    with KafkaesqueCluster(brokers=3, directory=tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def bootstrap_servers(cluster: KafkaesqueCluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture(scope="session")
def topic_maker(bootstrap_servers: str) -> TopicMaker:
    return TopicMaker(bootstrap_servers)


@pytest.fixture
def make_topic(topic_maker: TopicMaker) -> TopicMaker:
    """Creates topics of unique names: `make_topic(partitions=3, **options)`."""
    return topic_maker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark in this process and its JVM; tasks are tried twice."""
    from pyspark.sql import SparkSession

    from kafkaesque.spark.java import ensure_java

    ensure_java()
    session = (
        SparkSession.builder.master("local[2,2]")
        .appName("kafkaesque-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def read(spark: Any, bootstrap_servers: str) -> Callable[..., Any]:
    """Returns a table of a batch query: `read(subscribe=topic, includeHeaders="true")`."""

    def load(**options: str) -> Any:
        reader = spark.read.format("kafkaesque").options(**options)
        return reader.option("kafka.bootstrap.servers", bootstrap_servers).load()

    return load


@pytest.fixture
def stream(spark: Any, bootstrap_servers: str) -> Callable[..., Any]:
    """Returns a table of a streaming query: `stream(subscribe=topic)`."""

    def load(**options: str) -> Any:
        reader = spark.readStream.format("kafkaesque").options(**options)
        return reader.option("kafka.bootstrap.servers", bootstrap_servers).load()

    return load
