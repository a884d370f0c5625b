"""Messages that come together: their receivers are called once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from kafkaesque.broker.doors.live import LiveMessage, Subscription
from kafkaesque.broker.live.fan_out import COPIES_PER_TURN, RUN_COPIES_FOR_ONE
from tests.sim.live_scenario import Receiver, message
from tests.unit.live.test_live_door import new_hub, subscribe


class AtOnce(Receiver):
    """Takes what came together."""

    @property
    def takes_runs(self) -> bool:
        return True


class RunReceiver(AtOnce):
    """Keeps in which pieces messages come."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[str] = []

    def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
        super().on_message(message, subscriptions)
        self.runs.append(message.body.decode())

    def on_run(
        self, messages: Sequence[LiveMessage], subscriptions: Sequence[Subscription]
    ) -> None:
        self.runs.append("".join(each.body.decode() for each in messages))


def _messages(*names: str) -> list[LiveMessage]:
    """Messages to topics whose bodies are numbers."""
    return [message(name, b"%d" % number) for number, name in enumerate(names)]


def test_those_behind_one_another_that_have_the_same_receivers_are_a_run() -> None:
    hub, _ = new_hub()
    both, one = RunReceiver(), RunReceiver()
    subscribe(hub, "a/#", both)
    subscribe(hub, "a/x", one)
    hub.publish_run(_messages("a/x", "a/x", "a/y", "a/z", "b", "b", "a/x", "a/x"))
    assert both.runs == ["01", "23", "67"]
    assert one.runs == ["01", "67"]
    assert hub.published == 6
    assert hub.given == 10


def test_members_of_a_group_take_turns_within_a_run() -> None:
    hub, _ = new_hub()
    members = [RunReceiver(), RunReceiver()]
    for each in members:
        subscribe(hub, "a", each, "group")
    hub.publish_run(_messages("a", "a", "a", "a"))
    assert sorted(each.runs for each in members) == [["0", "2"], ["1", "3"]]


def test_a_member_that_leaves_its_group_leaves_the_next_message_to_others() -> None:
    hub, _ = new_hub()

    class Leaving(AtOnce):
        def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
            super().on_message(message, subscriptions)
            subscriptions[0].end()

    members = [Leaving() for _ in range(3)]
    for name, each in zip(("a/#", "a/b", "a/b"), members, strict=True):
        subscribe(hub, name, each, "group")
    hub.publish_run(_messages("a/x", "a/b", "a/b", "a/b"))
    assert sorted(each.bodies for each in members) == [[b"0"], [b"1"], [b"2"]]


def test_all_get_a_message_before_the_next_one_unless_each_takes_runs() -> None:
    hub, _ = new_hub()
    order: list[bytes] = []

    class Noting(Receiver):
        def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
            order.append(message.body)

    run = RunReceiver()
    for each in (Noting(), Noting()):
        subscribe(hub, "a", each)
    subscribe(hub, "#", run)
    hub.publish_run(_messages("a", "a", "b", "b"))
    assert order == [b"0", b"0", b"1", b"1"]
    assert run.runs == ["0", "1", "23"]


def test_a_subscription_that_ends_within_a_run_gets_no_more() -> None:
    hub, _ = new_hub()

    class Once(AtOnce):
        def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
            super().on_message(message, subscriptions)
            subscriptions[0].end()

    once, other = Once(), AtOnce()
    for each in (once, other):
        subscribe(hub, "a", each)
    hub.publish_run(_messages("a", "a", "a"))
    assert once.bodies == [b"0"]
    assert other.bodies == [b"0", b"1", b"2"]


def test_runs_to_many_take_many_turns_and_order_stays() -> None:
    hub, turns = new_hub()
    receivers = [AtOnce() for _ in range(COPIES_PER_TURN)]
    for each in receivers:
        subscribe(hub, "a", each)
    run = _messages(*["a"] * (3 * RUN_COPIES_FOR_ONE))
    hub.publish_run(run[:-1])
    hub.publish_run(run[-1:])
    assert 0 < sum(len(each.messages) for each in receivers) <= 4 * COPIES_PER_TURN
    taken = 0
    while turns.waiting:
        turns.turn()
        taken += 1
    assert taken >= 3
    assert all(each.messages == run for each in receivers)


def test_what_there_is_no_room_for_is_counted_message_by_message() -> None:
    hub, turns = new_hub()
    receivers = [AtOnce() for _ in range(COPIES_PER_TURN + 1)]
    for each in receivers:
        subscribe(hub, "a", each)
    body = b"x" * (33 * 1024 * 1024)
    hub.publish_run([message("a", body)])
    hub.publish_run([message("a", body), message("a", body)])
    assert hub.dropped == 2
    hub.publish_run([message("a", b"1"), message("a", b"2")])
    while turns.waiting:
        turns.turn()
    assert [len(each.body) for each in receivers[-1].messages] == [len(body), 1, 1]
