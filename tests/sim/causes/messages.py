"""Causes at queues, over the brokers' own requests, AMQP, STOMP and SQS."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.protocols.amqp import methods as m
from tests.sim.causes.ground import NAMES, CauseGround
from tests.sim.causes.table import HEALTHY, Case, injects

#: Longer than nobody has to ask for messages before it counts.
UNWANTED_MS = 3_000


def of_message(cause: str, queue: QueueState, offset: int, says: str = "", **more: Any) -> Case:
    """Return a case about a message."""
    path = f"queues/{queue.queue.name}"
    return Case(cause=cause, path=path, query={"message": offset}, says=says, **more)


def put_some(ground: CauseGround, queue: QueueState, random: Random, least: int = 1) -> list[int]:
    """Put some messages."""
    count = random.randrange(least, least + 4)
    return ground.send(queue, *(NewMessage(value=b"a") for _ in range(count)))


# -- nothing


@injects(HEALTHY)
def a_message_was_just_put(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("fresh")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    return of_message("", queue, offset)


# -- nobody consumes


@injects("lagging consumer")
def nobody_consumes_a_queue(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("unread")
    offsets = put_some(ground, queue, random)
    ground.wait(UNWANTED_MS + random.randrange(10_000))
    return of_message("consumers", queue, random.choice(offsets), "nobody consumes")


@injects("lagging consumer")
def a_message_is_not_put_yet(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("quiet")
    last = put_some(ground, queue, random)[-1]
    return of_message("written", queue, last + 1 + random.randrange(9))


# -- poison keys


def failing(ground: CauseGround, random: Random, **more: str) -> tuple[QueueState, int, list[int]]:
    """Fail the first message of a group; return its queue, it, and those behind it."""
    queue = ground.queue("fifo", ordered_groups="true", delivery_limit="9", **more)
    group = b"customer-%d" % random.randrange(9)
    first, *behind = ground.send(
        queue, *(NewMessage(value=b"a", group=group) for _ in range(random.randrange(2, 5)))
    )
    ground.send(queue, NewMessage(value=b"b", group=b"another"))
    return queue, first, behind


@injects("poison key")
def which_is_tried_again_at_once(ground: CauseGround, random: Random) -> Case:
    queue, first, behind = failing(ground, random)
    for _ in range(random.randrange(1, 4)):
        taken = ground.take(queue)
        claims = [each.claim for each in taken]
        ground.do(queue, q.ReleaseMessages, q.ClaimsResult, claims=claims, is_failed=True)
    ground.take(queue)
    return of_message("order", queue, random.choice(behind), f"message {first}")


@injects("poison key")
def which_waits_for_its_next_attempt(ground: CauseGround, random: Random) -> Case:
    queue, first, behind = failing(ground, random, delayed_retry_min_ms="60000")
    (taken,) = ground.take(queue)
    ground.do(queue, q.ReleaseMessages, q.ClaimsResult, claims=[taken.claim], is_failed=True)
    ground.wait(random.randrange(UNWANTED_MS))
    return of_message("order", queue, random.choice(behind), f"message {first}")


@injects("poison key")
def over_sqs(ground: CauseGround, random: Random) -> Case:
    name = f"{ground.name('orders')}.fifo"
    client = ground.sqs(random.choice(NAMES))
    made = client.do("CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"})
    url = made["QueueUrl"]
    for number in range(3):
        client.do(
            "SendMessage",
            QueueUrl=url,
            MessageBody=f"{number}",
            MessageGroupId="eva",
            MessageDeduplicationId=f"{number}",
        )
    (got,) = client.do("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1)["Messages"]
    if random.random() < 0.5:
        client.do(
            "ChangeMessageVisibility",
            QueueUrl=url,
            ReceiptHandle=got["ReceiptHandle"],
            VisibilityTimeout=0,
        )
        client.do("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1)
    queue = ground.found(name)
    first, *behind = (each.message.offset for each in ground.peeked(queue))
    return of_message("order", queue, random.choice(behind), f"message {first}")


# -- credit


@injects("exhausted credit")
def a_queue_gives_out_no_more(ground: CauseGround, random: Random) -> Case:
    most = random.randrange(1, 4)
    queue = ground.queue("bounded", max_in_flight=str(most))
    offsets = put_some(ground, queue, random, most + 1)
    ground.take(queue, most)
    ground.wait(random.randrange(10_000))
    return of_message("credit", queue, offsets[-1], f"max.in.flight={most}")


@injects("exhausted credit")
def a_consumer_of_amqp_takes_no_more(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    name, most = queue.queue.name, random.randrange(1, 4)
    client = ground.amqp(random.choice(NAMES))
    client.call(m.BasicQos(prefetch_count=most), m.BasicQosOk)
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    offsets = put_some(ground, queue, random, most + 1)
    for _ in range(most):
        client.delivery()
    waited_ms = random.choice([50, 500, UNWANTED_MS, 20_000])
    ground.wait(waited_ms)
    # A consumer that works asks again in a moment.
    return of_message("credit", queue, offsets[-1], is_doubtful=waited_ms < UNWANTED_MS)


@injects("exhausted credit")
def a_consumer_of_stomp_takes_no_more(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    name, most = queue.queue.name, random.randrange(1, 4)
    client = ground.stomp.stomp(random.randrange(1, 4))
    client.subscribe(f"/queue/{name}", ack="client-individual", prefetch_count=str(most))
    offsets = put_some(ground, queue, random, most + 1)
    for _ in range(most):
        client.message()
    waited_ms = random.choice([50, 500, UNWANTED_MS, 20_000])
    ground.wait(waited_ms)
    # A consumer that works asks again in a moment.
    return of_message("credit", queue, offsets[-1], is_doubtful=waited_ms < UNWANTED_MS)


# -- locks


@injects("lock not ended")
def somebody_has_it(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work", visibility_timeout_ms="600000")
    put_some(ground, queue, random)
    taken = ground.take(queue, 3)
    ground.wait(random.randrange(20_000))
    return of_message("lock", queue, random.choice(taken).offset, "a consumer has it")


@injects("lock not ended")
def a_client_of_amqp_has_not_acknowledged_it(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    client = ground.amqp(random.choice(NAMES))
    if random.random() < 0.5:
        client.get(queue.queue.name)
    else:
        consume = m.BasicConsume(queue=queue.queue.name, consumer_tag="c")
        client.call(consume, m.BasicConsumeOk)
        client.delivery()
    ground.wait(random.randrange(20_000))
    return of_message("lock", queue, offset, "a consumer has it")


@injects("lock not ended")
def a_receiver_of_sqs_is_at_work(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    name = queue.queue.name
    client = ground.sqs(random.choice(NAMES))
    url = client.do("GetQueueUrl", QueueName=name)["QueueUrl"]
    client.do("SendMessage", QueueUrl=url, MessageBody="a")
    wait = {"WaitTimeSeconds": 1, "VisibilityTimeout": random.randrange(60, 600)}
    assert client.do("ReceiveMessage", QueueUrl=url, **wait)["Messages"]
    ground.wait(random.randrange(20_000))
    (found,) = ground.peeked(queue)
    return of_message("lock", queue, found.message.offset, "a consumer has it")


# -- delays


@injects("delay")
def until_a_time(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("later")
    later = ground.wall_ms() + random.randrange(1, 9) * 600_000
    (offset,) = ground.send(queue, NewMessage(value=b"a", not_before_ms=later))
    return of_message("delay", queue, offset, f"until {later}")


@injects("delay")
def as_the_queue_has_it(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("later", delay_ms=str(random.randrange(60_000, 600_000)))
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    ground.wait(random.randrange(20_000))
    return of_message("delay", queue, offset, "until")


@injects("delay")
def after_a_failed_attempt(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("retried", delayed_retry_min_ms="120000", delivery_limit="9")
    ground.send(queue, NewMessage(value=b"a"))
    (taken,) = ground.take(queue)
    ground.do(queue, q.ReleaseMessages, q.ClaimsResult, claims=[taken.claim], is_failed=True)
    ground.wait(random.randrange(20_000))
    return of_message("delay", queue, taken.offset, "1 attempt has failed")


@injects("delay")
def by_sqs(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("later")
    client = ground.sqs(random.choice(NAMES))
    url = client.do("GetQueueUrl", QueueName=queue.queue.name)["QueueUrl"]
    seconds = random.randrange(60, 600)
    client.do("SendMessage", QueueUrl=url, MessageBody="a", DelaySeconds=seconds)
    (found,) = ground.peeked(queue)
    return of_message("delay", queue, found.message.offset, "until")


# -- dead letters


def graveyard(ground: CauseGround, **more: str) -> tuple[QueueState, QueueState]:
    """Return a queue and where its dead letters go."""
    letters = ground.queue("letters")
    queue = ground.queue("mails", dead_letter_queue=letters.queue.name, **more)
    return queue, letters


@injects("dead letter")
def that_was_rejected(ground: CauseGround, random: Random) -> Case:
    queue, letters = graveyard(ground)
    put_some(ground, queue, random, 2)
    first, second = ground.take(queue, 2)
    ground.do(queue, q.RejectMessages, q.ClaimsResult, claims=[first.claim])
    ground.do(queue, q.SettleMessages, q.ClaimsResult, claims=[second.claim])
    ground.run_until(lambda: bool(ground.peeked(letters)))
    return of_message("dead-letter", queue, first.offset, letters.queue.name)


@injects("dead letter")
def whose_attempts_are_used_up(ground: CauseGround, random: Random) -> Case:
    attempts = random.randrange(1, 4)
    queue, letters = graveyard(ground, delivery_limit=str(attempts))
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    for _ in range(attempts):
        claims = [each.claim for each in ground.take(queue)]
        ground.do(queue, q.ReleaseMessages, q.ClaimsResult, claims=claims, is_failed=True)
    ground.run_until(lambda: bool(ground.peeked(letters)))
    return of_message("dead-letter", queue, offset, letters.queue.name)


@injects("dead letter")
def that_was_too_old(ground: CauseGround, random: Random) -> Case:
    queue, letters = graveyard(ground, message_ttl_ms=str(random.randrange(500, 3_000)))
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    ground.run_until(lambda: bool(ground.peeked(letters)))
    return of_message("dead-letter", queue, offset, letters.queue.name)


@injects("dead letter")
def that_amqp_has_rejected(ground: CauseGround, random: Random) -> Case:
    queue, letters = graveyard(ground)
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    client = ground.amqp(random.choice(NAMES))
    ok, _, _ = client.get(queue.queue.name)
    client.send(1, m.BasicReject(delivery_tag=ok.delivery_tag, requeue=False))
    ground.run_until(lambda: bool(ground.peeked(letters)))
    return of_message("dead-letter", queue, offset, letters.queue.name)


@injects("dead letter")
def that_waits_in_its_own_queue(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("kept", delivery_limit="1")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    claims = [each.claim for each in ground.take(queue)]
    ground.do(queue, q.ReleaseMessages, q.ClaimsResult, claims=claims, is_failed=True)
    return of_message("parked", queue, offset, "given up")


@injects("dead letter")
def that_sqs_has_received_too_often(ground: CauseGround, random: Random) -> Case:
    queue, letters = graveyard(ground, delivery_limit="1", visibility_timeout_ms="1000")
    client = ground.sqs(random.choice(NAMES))
    url = client.do("GetQueueUrl", QueueName=queue.queue.name)["QueueUrl"]
    client.do("SendMessage", QueueUrl=url, MessageBody="a")
    (found,) = ground.peeked(queue)
    client.do("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1)
    ground.run_until(lambda: bool(ground.peeked(letters)))
    return of_message("dead-letter", queue, found.message.offset, letters.queue.name)
