"""Traces and Spark's queries in the admin API: put together from what brokers keep."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.admin.api.fan_out import FanOut, Gathered
from kafkaesque.admin.api.pipelines import SparkAnswer, SparkRow
from kafkaesque.broker.tracer import Tracer
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import CommitOffsets, OffsetToCommit
from kafkaesque.groups.results import CommitResult
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.model.sink_markers import PROGRESS_MARK, sink_id, sink_task
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api_coordinators import at_coordinator

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER = "1af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(47)
    made.create("orders", 2)
    made.create("bills", 1)
    return made


def trace(ground: ApiGround, *names: str) -> None:
    for name in names:
        broker = ground.cluster.brokers[name]
        broker.doors.activity.tracer = Tracer(broker.doors.clock, broker.doors.dice)


def traced(name: str, key: bytes = b"k") -> Record:
    header = ("traceparent", f"00-{name}-{PARENT}-01".encode())
    return Record(0, 1_790_000_000_000, key, b"v", (header,))


def test_a_trace_is_put_together_from_all_brokers(ground: ApiGround) -> None:
    trace(ground, "b1", "b2", "b3")
    ground.publish("orders", 0, traced(TRACE))
    ground.world.loop.run_for(50)
    ground.publish("orders", 1, traced(OTHER))
    ground.publish("bills", 0, traced(TRACE))
    seen = ground.get("/traces", "b2")
    assert (seen["total"], seen["off"]) == (2, [])
    newest, oldest = seen["items"]
    assert (newest["trace"], oldest["trace"]) == (OTHER, TRACE)
    assert (oldest["spans"], oldest["topics"]) == (2, ["bills", "orders"])
    assert [each["trace"] for each in ground.get("/traces", q="bills")["items"]] == [TRACE]
    assert [each["trace"] for each in ground.get("/traces", sort="spans")["items"]] == [
        OTHER,
        TRACE,
    ]
    whole = ground.get(f"/traces/{TRACE.upper()}", "b3")
    first, second = whole["spans"]
    assert (first["topic"], first["operation"], first["parent"]) == ("orders", "append", PARENT)
    assert (first["begin_us"], second["topic"], second["offset"]) == (0, "bills", 0)
    assert second["begin_us"] >= 50_000
    assert whole["duration_us"] == second["begin_us"] + second["duration_us"]
    assert ground.ask("GET", "/traces/none").status == 404


def test_a_span_is_kept_for_who_looks_when_a_collector_has_taken_it(ground: ApiGround) -> None:
    trace(ground, "b1", "b2", "b3")
    ground.publish("bills", 0, traced(TRACE))
    for broker in ground.cluster.brokers.values():
        tracer = broker.doors.activity.tracer
        assert tracer is not None
        tracer.take(100)
    assert ground.get("/traces")["total"] == 1


def test_brokers_that_do_not_look_for_traces_are_named(ground: ApiGround) -> None:
    trace(ground, "b2")
    assert ground.get("/traces")["off"] == [1, 3]
    ground.kill("b3")
    seen = ground.get("/traces")
    assert seen["off"] == [1]
    assert [each["broker"] for each in seen["sources"] if each["missing"]] == [3]


def commit(ground: ApiGround, group: str, place: str, offset: int, metadata: str = "") -> None:
    """Commit in the first partition of a topic."""
    commit_all(ground, group, {TopicPartition(place, 0): (offset, metadata)})


def commit_all(
    ground: ApiGround, group: str, offsets: dict[TopicPartition, tuple[int, str]]
) -> None:
    """Commit as a query does that is no member."""
    every = tuple(
        OffsetToCommit(where, offset, -1, said) for where, (offset, said) in offsets.items()
    )

    def step(doors: Any, on_result: Callable[[Any], None]) -> None:
        doors.groups.when_found([group], lambda: None)
        try:
            doors.groups.find(group)
        except Exception as error:
            on_result(error)
            return
        event = CommitOffsets(
            token=doors.groups.next_token(),
            group_id=group,
            generation=-1,
            member_id="",
            instance_id=None,
            offsets=every,
        )
        done = lambda said: on_result(GroupError.NONE if isinstance(said, CommitResult) else said)  # noqa: E731
        doors.groups.step(group, event, done)

    at_coordinator(ground, step)


def test_queries_of_spark_are_known_by_what_they_commit(ground: ApiGround) -> None:
    for number in range(5):
        ground.publish("orders", 0, text(f"m{number}"))
    for task, batch in ((0, 7), (1, 8)):
        words = json.dumps({"rows": 10 + task, "bytes": 100})
        commit(ground, "app-" + sink_id("q-1", task), "bills", batch, words)
    commit(ground, "flow", "orders", 2, PROGRESS_MARK)
    commit(ground, "no-spark", "orders", 2)
    seen = ground.get("/pipelines", "b3")
    source, sink = seen["items"]
    assert (source["id"], source["kind"], source["lag"]) == ("flow", "source", 3)
    assert (sink["id"], sink["kind"], sink["tasks"]) == ("q-1", "sink", 2)
    # Only what belongs to the newest micro-batch counts.
    assert (sink["batch"], sink["rows"], sink["bytes"]) == (8, 11, 100)
    assert [each["id"] for each in ground.get("/pipelines", sort="-batch")["items"]][0] == "q-1"
    one = ground.get("/pipelines/q-1", "b2")
    assert [(each["task"], each["batch"]) for each in one["tasks"]] == [(0, 7), (1, 8)]
    assert ground.get("/pipelines/flow")["tasks"] == []
    assert ground.ask("GET", "/pipelines/no-spark").status == 404


def test_a_source_that_is_called_like_a_sinks_query_is_another_one(ground: ApiGround) -> None:
    ground.publish("orders", 0, text("a"))
    commit(ground, sink_id("flow", 0), "bills", 8, json.dumps({"rows": 5, "bytes": 6}))
    commit(ground, "flow", "orders", 0, PROGRESS_MARK)
    sink, source = ground.get("/pipelines")["items"]
    assert (sink["kind"], sink["batch"], sink["topics"]) == ("sink", 8, ["bills"])
    assert (source["kind"], source["lag"], source["topics"]) == ("source", 1, ["orders"])
    assert ground.get("/pipelines/flow")["pipeline"] == sink
    assert ground.get("/pipelines/flow", kind="source")["pipeline"] == source
    assert ground.ask("GET", "/pipelines/flow", kind="other").status == 400


def test_a_group_that_two_brokers_tell_counts_once(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = sink_id("flow", 0)
    commit(ground, group, "bills", 8, json.dumps({"rows": 5, "bytes": 6}))
    whole = FanOut.ask_all

    def with_old_ones(self: FanOut, page: Any, question: Any, on_done: Any) -> None:
        """Have other brokers tell what they knew when they coordinated the group."""

        def on_gathered(told: Gathered[SparkAnswer]) -> None:
            rows = [SparkRow(group, True, ["bills"], 1, 7, 4, 5, 0, 0)]
            old = SparkAnswer(rows=rows)
            answers = {node: each if each.rows else old for node, each in told.answers.items()}
            on_done(Gathered(answers=answers, sources=told.sources))

        whole(self, page, question, on_gathered)

    monkeypatch.setattr(FanOut, "ask_all", with_old_ones)
    (sink,) = ground.get("/pipelines")["items"]
    assert (sink["tasks"], sink["batch"], sink["rows"]) == (1, 8, 5)


#: As long as the metadata of an offset may be.
NESTED = '{"x": ' + "[" * 2_000 + "]" * 2_000 + "}"


@pytest.mark.parametrize("said", [json.dumps({"rows": 10**300}), '{"rows": -1}', NESTED], ids=len)
def test_what_a_marker_says_wrongly_hides_no_other_query(ground: ApiGround, said: str) -> None:
    commit(ground, sink_id("bad", 0), "bills", 3, said)
    commit(ground, sink_id("good", 0), "bills", 4, json.dumps({"rows": 5, "bytes": 6}))
    seen = ground.get("/pipelines")
    assert [(each["id"], each["batch"], each["rows"]) for each in seen["items"]] == [
        ("bad", 3, 0),
        ("good", 4, 5),
    ]
    assert [each for each in seen["sources"] if each["missing"]] == []


@pytest.mark.parametrize("said", [json.dumps({"max_age": 10**300}), NESTED], ids=len)
def test_what_a_topic_says_wrongly_of_a_stream_hides_no_other(ground: ApiGround, said: str) -> None:
    ground.create("bad", nats_stream=said)
    ground.create("good", nats_stream='{"max_msgs": 5}')
    seen = ground.get("/streams")
    assert [(each["name"], each["messages_max"]) for each in seen["items"]] == [("good", 5)]
    assert ground.get("/streams/bad/consumers")["total"] == 0


def test_the_name_of_a_sinks_group_is_read_back() -> None:
    assert sink_task(sink_id("a-1-b", 12)) == ("a-1-b", 12)
    assert sink_task("mine." + sink_id("q", 0)) == ("q", 0)
    assert sink_task("spark-sink-q") is None
    assert sink_task("spark-sink-q-" + "1" * 30) is None
