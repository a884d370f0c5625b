"""Requests to other brokers that cannot be written."""

import pytest

from kafkaesque.broker.requests.caller import RemoteCaller, read_outcome, write_outcome
from kafkaesque.broker.requests.commands import Done, FetchResult
from kafkaesque.broker.requests.queue_requests import SeekCursor
from kafkaesque.model.ids import NodeId, TopicId
from kafkaesque.model.record_errors import KeyShredded
from tests.sim.scenario import Scenario


def test_what_cannot_be_written_is_told_at_once_and_not_again_later() -> None:
    scenario = Scenario(1)
    scenario.write(1)
    broker = scenario.broker(scenario.running()[0])
    peer = next(each for each in broker.state.brokers if each != broker.node)
    caller = RemoteCaller(scenario.env.clock, broker.peers)
    request = SeekCursor(log_id=TopicId(bytes(16)), offset=2**64)
    with pytest.raises(OverflowError):
        caller.ask(NodeId(peer), request, Done, 1_000, lambda _: None)
    scenario.loop.run_for(2_000)


def test_a_queue_hears_that_nobody_can_read_what_another_broker_has() -> None:
    """Else it would ask for the body again and again, before all that come after it."""
    refused = read_outcome(write_outcome(KeyShredded("the key is gone", 7, 2)), FetchResult)
    assert isinstance(refused, KeyShredded)
    assert str(refused) == "the key is gone"
