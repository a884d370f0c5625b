"""What PerfTest is told, and what is read of what it prints."""

from __future__ import annotations

import pytest

from bench.amqp import LOADS, arguments_of
from bench.amqp_clients import ClientError, Figures, Shape, perf_test_options, read_perf_test

PRINTED = """\
id: test-1, time 8.001 s, sent: 5073 msg/s, confirmed: 5073 msg/s, nacked: 0 msg/s, received: 5074 \
msg/s, min/median/75th/95th/99th consumer latency: 260263/340905/378896/417908/434825 µs, confirm \
latency: 656/6996/10040/25224/55057 µs
test stopped (Reached time limit)
id: test-1, sending rate avg: 2490 msg/s
id: test-1, receiving rate avg: 2376 msg/s
id: test-1, consumer latency min/median/75th/95th/99th 1337/362857/408462/470886/490491 µs
id: test-1, confirm latency min/median/75th/95th/99th 811/11153/20550/45430/75926 µs
"""


def test_figures_are_read() -> None:
    assert read_perf_test(PRINTED) == Figures(
        confirmed=2490.0,
        received=2376.0,
        confirm_p50=11.153,
        confirm_p99=75.926,
        delivery_p50=362.857,
        delivery_p99=490.491,
    )


@pytest.mark.parametrize(
    "word", ["sending", "receiving", "id: test-1, consumer", "id: test-1, con"]
)
def test_figures_that_are_missing_are_an_error(word: str) -> None:
    lines = [each for each in PRINTED.splitlines() if word not in each]
    with pytest.raises(ClientError, match="no figures"):
        read_perf_test("\n".join(lines))


def test_several_queues_are_a_fanout() -> None:
    one = perf_test_options(Shape(name="one"), "load", 20.0)
    several = perf_test_options(Shape(name="fanout", consumers=10, queues=10), "load", 20.0)
    assert one[-2:] == ["--queue", "load-0"]
    assert "--quorum-queue" in one
    assert several[several.index("--queue-pattern-to") + 1] == "9"
    assert "x-quorum-initial-group-size=1" in one
    assert several[several.index("--type") + 1] == "fanout"


def test_three_brokers_have_the_rows_with_loads() -> None:
    assert tuple(arguments_of(["--brokers", "3"]).only) == LOADS
    with pytest.raises(SystemExit):
        arguments_of(["--brokers", "3", "--only", "one,backlog"])
