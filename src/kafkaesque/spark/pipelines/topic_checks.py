"""Whether the brokers answer and have the topics that a project names, before anything runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import ConnectorError, Unavailable, WrongOption
from kafkaesque.spark.options_file import with_options_file
from kafkaesque.spark.pipelines.definitions import Definitions, TopicRead, TopicWrite
from kafkaesque.spark.pipelines.errors import BrokersAway, WrongProject
from kafkaesque.spark.sink_options import parse_sink
from kafkaesque.spark.source_options import parse_source
from kafkaesque.spark.subscription import find_partitions

#: A query tries for longer; here somebody waits to hear whether it is worth to begin.
_TIMEOUT_S = 10.0


def check_topics(found: Definitions, *, must_answer: bool) -> None:
    """Ask the brokers of all topics that are named in the definitions.

    With `must_answer` false it is right that they do not: Spark may reach them from elsewhere.

    Raises:
        BrokersAway: none answers. WrongProject: an option is wrong, or there is no such topic.
    """
    try:
        for read in found.reads:
            with _told(f"flow {read.flow}, reading from", read.options):
                _check_read(read)
        for write in found.writes:
            with _told(f"sink {write.sink}, writing to", write.options):
                _check_write(write)
    except BrokersAway:
        if must_answer:
            raise


def _check_read(read: TopicRead) -> None:
    source = parse_source(read.options, is_stream=read.is_stream)
    with Cluster(replace(source.cluster, api_timeout_s=_TIMEOUT_S)) as cluster:
        find_partitions(cluster, source)


def _check_write(write: TopicWrite) -> None:
    sink = parse_sink(write.options)
    if sink.topic is None:
        return
    with Cluster(replace(sink.cluster, api_timeout_s=_TIMEOUT_S)) as cluster:
        if not cluster.topics([sink.topic]):
            raise WrongOption(f"there is no topic {sink.topic!r}")


@contextlib.contextmanager
def _told(what: str, options: Mapping[str, str]) -> Iterator[None]:
    """Have what is found in the block told with the flow or sink that it is about."""
    servers = ""
    try:
        given = {name.lower(): value for name, value in with_options_file(options).items()}
        servers = given.get("kafka.bootstrap.servers", "")
        yield
    except Unavailable:
        raise BrokersAway(
            f"no broker answers at {servers}",
            "kafkaesque up (a cluster on this machine), or --conf kafkaesque.bootstrap.servers=…",
        ) from None
    except ConnectorError as error:
        hint = "kafkaesque topic create NAME" if "no topic" in str(error) else ""
        raise WrongProject(f"{what} {servers}: {error}", hint) from None
