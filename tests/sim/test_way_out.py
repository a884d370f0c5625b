"""A transformation on the way out of a queue holds whoever leads it and whoever is asked."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.exchange_commands import PutTransformation
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.queues.requests import Claim
from kafkaesque.routing.transformations.rules import Cast, Kind, Rule
from tests.sim.queue_scenario import QUEUE, QueueScenario

RULE = Rule(steps=(Cast(at="$.total", to=Kind.NUMBER),))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_redelivery_by_another_leader_is_changed_alike(seed: int) -> None:
    scenario = QueueScenario(seed)
    scenario.put(b'{"total":"1"}', b"no JSON", b'{"total":"2"}')
    scenario.submit(PutTransformation(vhost=DEFAULT_VHOST, name="t", rule=RULE))
    changes: dict[str, str | None] = {"transformation.out": "t"}
    scenario.submit(ChangeQueue(vhost=DEFAULT_VHOST, name=QUEUE, changes=changes))
    scenario.loop.run_for(1_000)
    wanted = [b'{"total":1}', b'{"total":2}']
    first = scenario.take(9, broker=scenario.follower(), lock_ms=2_000)
    assert [each.value for each in first] == wanted
    dead = scenario.queue_leader()
    scenario.kill(dead)
    scenario.loop.run_for(5_000)
    again = scenario.take(9, broker=scenario.follower(), wait_ms=5_000)
    assert [each.value for each in again] == wanted
    claims = [Claim(each.offset, each.offset + 1, each.attempt) for each in again]
    request = q.SettleMessages(log_id=scenario.queue().topic_id, claims=claims)
    scenario.ask(request, q.ClaimsResult)
    # As it came; nobody is given it any more.
    assert scenario.take(9, wait_ms=1_000) == []
    peek = q.PeekMessages(log_id=scenario.queue().topic_id, start=0, messages_max=9, bytes_max=999)
    (parked,) = scenario.ask(peek, q.PeekedMessages).messages
    assert (parked.place, parked.message.value) == ("parked", b"no JSON")
    why = b"t: the body is no JSON, or too large"
    assert dict(parked.message.headers)["x-transformation-failed"] == why
