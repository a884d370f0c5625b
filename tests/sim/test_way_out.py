"""A transformation on the way out of a queue holds whoever leads it and whoever is asked."""

from __future__ import annotations

from hashlib import md5

import msgspec
import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.exchange_commands import PutTransformation
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.protocols.sqs.digests import digest_of_attributes
from kafkaesque.protocols.sqs.service import MessageAttributeValue
from kafkaesque.queues.requests import Claim
from kafkaesque.routing.transformations.rules import Cast, Drop, Kind, Rule, Set
from tests.sim.queue_scenario import QUEUE, QueueScenario
from tests.sim.sqs_scenario import SqsScenario

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


def test_a_message_is_changed_on_its_way_out_with_its_digest_and_its_attributes() -> None:
    sqs = SqsScenario(3)
    rule = Rule(steps=(Drop(at="$.secret"), Set(at="headers.kind", value="public")))
    sqs.submit(PutTransformation(vhost=DEFAULT_VHOST, name="hide", rule=rule))
    url = sqs.make("jobs")
    changes: dict[str, str | None] = {"transformation.out": "hide"}
    sqs.submit(ChangeQueue(vhost=DEFAULT_VHOST, name="jobs", changes=changes))
    sqs.loop.run_for(1_000)
    client = sqs.client(sqs.follower("jobs"))
    text = {"DataType": "String", "StringValue": "private"}
    said = {"kind": text, "number": {"DataType": "Number", "StringValue": "7"}}
    for body in ('{"a":1,"secret":2}', "no JSON"):
        client.do("SendMessage", QueueUrl=url, MessageBody=body, MessageAttributes=said)
    wanted = {**said, "kind": {**text, "StringValue": "public"}}
    for _ in range(2):
        (got,) = client.receive(url, MessageAttributeNames=["All"], VisibilityTimeout=0)
        assert got["Body"] == '{"a":1}'
        assert got["MD5OfBody"] == md5(b'{"a":1}', usedforsecurity=False).hexdigest()
        assert got["MessageAttributes"] == wanted
        attributes = msgspec.convert(wanted, dict[str, MessageAttributeValue])
        assert got["MD5OfMessageAttributes"] == digest_of_attributes(attributes)
        sqs.loop.run_for(10)
    # What cannot be changed was given to nobody, and is not lost.
    assert sqs.counts("jobs").parked == 1
