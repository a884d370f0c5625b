"""Whether the brokers answer and have the topics that a project names, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import ConnectorError, Unavailable, WrongOption
from kafkaesque.spark.pipelines.definitions import Definitions
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
        for options in found.reads:
            _check(options, is_sink=False)
        for options in found.writes:
            _check(options, is_sink=True)
    except BrokersAway:
        if must_answer:
            raise


def _check(options: Mapping[str, str], *, is_sink: bool) -> None:
    what = "writing to" if is_sink else "reading from"
    servers = options.get("kafka.bootstrap.servers", "")
    try:
        if is_sink:
            sink = parse_sink(options)
            if sink.topic is None:
                return
            with Cluster(replace(sink.cluster, api_timeout_s=_TIMEOUT_S)) as cluster:
                if not cluster.topics([sink.topic]):
                    raise WrongOption(f"there is no topic {sink.topic!r}")
        else:
            source = parse_source(options, is_stream=True)
            with Cluster(replace(source.cluster, api_timeout_s=_TIMEOUT_S)) as cluster:
                find_partitions(cluster, source)
    except Unavailable:
        raise BrokersAway(
            f"no broker answers at {servers}",
            "kafkaesque up (a cluster on this machine), or --conf kafkaesque.bootstrap.servers=…",
        ) from None
    except ConnectorError as error:
        hint = "kafkaesque topic create NAME" if "no topic" in str(error) else ""
        raise WrongProject(f"{what} {servers}: {error}", hint) from None
