"""What a client's library says of itself, in the words of an anomaly."""

import json

from confluent_kafka import Consumer

from bench.chaos.insight import Insight
from tests.waiting import eventually


def test_it_names_the_state_of_each_partition_and_connection() -> None:
    insight = Insight()
    assert insight.describe([("t", 0)]) == "its library has told nothing yet"
    partition = {"fetch_state": "validate-epoch-wait", "next_offset": 7, "ls_offset": 9}
    told = {
        "brokers": {"h:1/2": {"name": "h:1/2", "state": "UP", "waitresp_cnt": 3, "txidle": 4e6}},
        "topics": {"t": {"partitions": {"0": partition}}},
    }
    insight.take(json.dumps(told))
    text = insight.describe([("t", 0), ("t", 5)])
    assert "t-0 is validate-epoch-wait at 7 of 9" in text
    assert "t-5 is not known" in text
    assert "h:1/2 is UP, 3 answers due" in text
    assert "sent nothing for 4 s" in text


def test_the_library_tells_it() -> None:
    insight = Insight()
    # Nobody listens there, and nobody has to.
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
    consumer = Consumer({**nowhere, **insight.settings, "statistics.interval.ms": 50})
    try:

        def is_told() -> bool:
            consumer.consume(1, 0.1)
            return "127.0.0.1:1/bootstrap is" in insight.describe([])

        eventually(is_told, lambda: insight.describe([]))
    finally:
        consumer.close()
