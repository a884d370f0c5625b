"""What flows read and sinks write is checked as what it is, and told with their names."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.pipelines")

from pyspark.sql.connect.proto import Relation

from kafkaesque.spark.pipelines.definitions import Definitions, TopicRead, TopicWrite, reads_of
from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.topic_checks import check_topics

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def reading(topic: str, *, is_stream: bool = False, form: str = "kafkaesque") -> Relation:
    found = Relation()
    found.read.is_streaming = is_stream
    found.read.data_source.format = form
    found.read.data_source.options["subscribe"] = topic
    return found


def test_each_reading_in_a_plan_is_found_with_its_kind() -> None:
    inner = Relation()
    inner.filter.input.CopyFrom(reading("b"))
    plan = Relation()
    plan.join.left.CopyFrom(reading("a", is_stream=True))
    plan.join.right.set_op.left_input.CopyFrom(inner)
    plan.join.right.set_op.right_input.CopyFrom(reading("c", form="lakehouse"))
    assert reads_of("f", plan) == [
        TopicRead(flow="f", options={"subscribe": "a"}, is_stream=True),
        TopicRead(flow="f", options={"subscribe": "b"}, is_stream=False),
    ]


@pytest.mark.parametrize(
    ("option", "text", "is_stream", "words"),
    [
        ("where", "offset < 10", True, "the option where is for batch queries"),
        ("endingOffsets", "latest", True, "the option endingOffsets is for batch queries"),
        ("startingOffsets", "latest", False, "of a batch query cannot be the latest"),
    ],
    ids=["where", "end", "latest"],
)
def test_a_flow_may_say_what_its_kind_of_query_may(
    option: str, text: str, is_stream: bool, words: str
) -> None:
    options = {**SERVERS, "subscribe": "t", option: text}
    read = TopicRead(flow="late", options=options, is_stream=is_stream)
    with pytest.raises(WrongProject, match=f"flow late, reading from 127.0.0.1:1: .*{words}"):
        check_topics(Definitions(reads=[read]), must_answer=False)
    other = TopicRead(
        flow="late", options={**options, "minPartitions": "x"}, is_stream=not is_stream
    )
    with pytest.raises(WrongProject, match="the option minPartitions is a whole number"):
        check_topics(Definitions(reads=[other]), must_answer=False)


def test_a_sink_is_named() -> None:
    write = TopicWrite(sink="shouted", options={**SERVERS, "topik": "t"})
    words = "sink shouted, writing to 127.0.0.1:1: there is no option topik"
    with pytest.raises(WrongProject, match=words):
        check_topics(Definitions(writes=[write]), must_answer=False)
