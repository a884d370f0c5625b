"""What a user says about a source is understood, or refused in one sentence with the name."""

from __future__ import annotations

import pytest

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.offsets import EARLIEST, LATEST
from kafkaesque.spark.source_options import Position, SourceOptions, parse_source

LEAST = {"kafka.bootstrap.servers": "one:9092, [::1]:9093", "subscribe": "a, b,a"}


def parse(options: dict[str, str] | None = None, *, is_stream: bool = False) -> SourceOptions:
    """Parse the least that is needed with these options; an empty one is left out."""
    given = {name: text for name, text in {**LEAST, **(options or {})}.items() if text}
    return parse_source(given, is_stream=is_stream)


def test_what_is_not_said_is_as_in_sparks_kafka_source() -> None:
    batch, stream = parse(), parse(is_stream=True)
    assert batch.cluster.bootstrap_servers == (("one", 9092), ("::1", 9093))
    assert batch.topics == ("a", "b")
    assert batch.starting.everywhere == EARLIEST
    assert batch.ending.everywhere == LATEST
    assert stream.starting.everywhere == LATEST
    assert batch.columns == (
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    )
    assert batch.fails_on_data_loss
    assert batch.is_read_committed
    assert batch.group_id is None


def test_names_are_known_in_any_case_and_kafkas_own_are_passed_over() -> None:
    found = parse(
        {
            "INCLUDEHEADERS": "TRUE",
            "kafka.fetch.min.bytes": "5",
            "kafkaConsumer.pollTimeoutMs": "512",
            "KAFKA.isolation.level": "read_uncommitted",
        }
    )
    assert found.columns[-1] == "headers"
    assert not found.is_read_committed


def test_times_count_before_offsets() -> None:
    offsets = {"startingOffsets": '{"a":{"0":5}}'}
    times = {"startingOffsetsByTimestamp": '{"a":{"0":1000}}'}
    assert parse(offsets).starting == Position(offsets={("a", 0): 5})
    assert parse({**offsets, **times}).starting == Position(timestamps={("a", 0): 1000})
    found = parse({**offsets, **times, "startingTimestamp": "7"})
    assert found.starting == Position(timestamp=7)


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [("15m", 900_000), ("250ms", 250), ("2 hours", 7_200_000), ("30s", 30_000), ("9", 9)],
)
def test_times_have_units(text: str, wanted_ms: int) -> None:
    assert parse({"maxTriggerDelay": text}).trigger_delay_ms_max == wanted_ms


def test_the_group_is_named_by_the_user_or_begins_as_the_user_says() -> None:
    assert parse({"kafka.group.id": "mine"}).group_id == "mine"
    assert parse({"groupIdPrefix": "team"}).group_id == "team-a-b-a"


REFUSED = [
    ({"subscribe": ""}, "none is set"),
    ({"assign": '{"a":[0]}'}, "assign and subscribe is set"),
    ({"kafka.bootstrap.servers": ""}, "the option kafka.bootstrap.servers is missing"),
    ({"kafka.bootstrap.servers": "nohost"}, "HOST:PORT"),
    ({"kafka.bootstrap.servers": "host:0"}, "HOST:PORT"),
    ({"kafka.bootstrap.servers": "host:99999"}, "HOST:PORT"),
    ({"subscribe": " , "}, "the option subscribe is empty"),
    ({"startingOffset": "earliest"}, "no option startingoffset; the nearest is startingOffsets"),
    ({"startingOffsets": "soon"}, "JSON object"),
    ({"startingOffsets": "{}"}, "names no partition"),
    ({"startingOffsetsByTimestamp": "{}"}, "startingOffsetsByTimestamp names no partition"),
    ({"endingOffsetsByTimestamp": '{"a":{}}'}, "endingOffsetsByTimestamp names no partition"),
    ({"startingOffsets": '{"a":{"0":-3}}'}, "-3 for partition 0 of 'a'"),
    ({"startingOffsets": '{"a":{"0":true}}'}, "True for partition 0 of 'a'"),
    ({"startingOffsets": '{"a":{"x":1}}'}, "JSON object"),
    ({"startingOffsets": '{"a":7}'}, "JSON object"),
    ({"startingOffsets": "latest"}, "cannot be the latest"),
    ({"startingOffsets": '{"a":{"0":-1}}'}, "cannot be the latest"),
    ({"endingOffsets": "earliest"}, "cannot be the earliest"),
    ({"endingOffsets": '{"a":{"0":-2}}'}, "at least -1"),
    ({"startingTimestamp": "yesterday"}, "a whole number"),
    ({"minPartitions": "0"}, "from 1 to"),
    ({"maxRecordsPerPartition": "x"}, "the option maxRecordsPerPartition is a whole number"),
    ({"failOnDataLoss": "perhaps"}, "true or false, not 'perhaps'"),
    ({"columns": "value,size"}, "names 'size'"),
    ({"columns": ","}, "is empty"),
    ({"maxTriggerDelay": "a while"}, "a time such as"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than"),
    ({"minBytesPerTrigger": "9", "maxBytesPerTrigger": "8"}, "is more than maxBytesPerTrigger"),
    ({"maxBytesPerTrigger": "64m"}, "a whole number"),
    ({"pushFilters": "true"}, "no option pushfilters"),
    ({"kafka.isolation.level": "serializable"}, "read_committed or read_uncommitted"),
    ({"kafka.sasl.mechanism": "PLAIN"}, "of no use with kafka.security.protocol=PLAINTEXT"),
    ({"kafka.security.protocol": "TLS"}, "ssl or sasl_plaintext or sasl_ssl, not 'TLS'"),
    ({"kafka.auto.offset.reset": "latest"}, "the connector decides it"),
    ({"subscribePattern": "(", "subscribe": ""}, "no regular expression"),
    ({"assign": '{"a":[-1]}', "subscribe": ""}, "JSON object"),
    ({"assign": "{}", "subscribe": ""}, "JSON object"),
    ({"assign": '{"a":[true]}', "subscribe": ""}, "JSON object"),
    ({"assign": '{"a":["0"]}', "subscribe": ""}, "JSON object"),
    ({"assign": '{"a":"01"}', "subscribe": ""}, "JSON object"),
    ({"assign": '{"a":0}', "subscribe": ""}, "JSON object"),
    ({"path": "flights"}, "named by the option subscribe, not by a path such as that of load(…)"),
    ({"provider": "kafkaesque", "location": "/w/t", "path": "/w/t"}, "CREATE TEMPORARY VIEW … "),
]


@pytest.mark.parametrize("case", REFUSED, ids=[f"case-{n}" for n in range(len(REFUSED))])
def test_what_is_wrong_is_told_in_one_sentence(case: tuple[dict[str, str], str]) -> None:
    options, words = case
    with pytest.raises(WrongOption) as refused:
        parse(options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(WrongOption, match="a stream has no end"):
        parse({"endingOffsets": "latest"}, is_stream=True)
    found = parse({"startingOffsets": "latest"}, is_stream=True)
    assert found.starting.everywhere == LATEST
