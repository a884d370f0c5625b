"""Requests to other brokers that cannot be written."""

import pytest

from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_requests import SeekCursor
from kafkaesque.model.ids import NodeId, TopicId
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
