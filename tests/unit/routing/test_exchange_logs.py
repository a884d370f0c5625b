"""Which topic keeps a message once for all its queues: the exchange says it, or a policy."""

from __future__ import annotations

import pytest

from kafkaesque.routing.exchanges import errors, planner
from kafkaesque.routing.exchanges.records import ExchangeDeclared, PolicyPut, PolicyRemoved
from tests.unit.routing.test_exchanges import Host


def declared(name: str, log: object) -> ExchangeDeclared:
    return ExchangeDeclared(vhost="/", name=name, type="fanout", arguments={"x-log": log})


def policy(pattern: str, log: str) -> PolicyPut:
    return PolicyPut(
        vhost="/", name="once", pattern=pattern, apply_to="all", definition={"log": log}
    )


def test_the_exchange_that_is_published_to_decides() -> None:
    host = Host("q")
    host.apply(declared("e-kept", "topic"), declared("e-behind", "another"))
    host.declare("plain", "fanout")
    host.bind("e-kept", "e-behind")
    host.bind("plain", "e-kept")
    host.bind("e-behind", "q")
    assert host.route("e-kept", "k").log == "topic"
    assert host.route("e-behind", "k").log == "another"
    assert host.route("plain", "k").log == ""


def test_a_policy_holds_where_the_exchange_says_nothing() -> None:
    host = Host("q")
    host.apply(declared("e-kept", "topic"))
    assert host.route("amq.topic", "k").log == ""
    host.apply(policy(".*", "shared"))
    assert host.route("e-kept", "k").log == "topic"
    assert host.route("amq.topic", "k").log == "shared"
    # It leads to one queue.
    assert host.route("", "q").log == ""
    host.apply(PolicyRemoved(vhost="/", name="once"))
    assert host.route("amq.topic", "k").log == ""


@pytest.mark.parametrize("log", [7, "", ["topic"]])
def test_what_is_no_name_is_refused(log: object) -> None:
    with pytest.raises(errors.BadArgument):
        planner.declare_exchange(Host().topology, declared("e", log), has_topic=lambda _: True)


def test_a_topic_has_to_be_there() -> None:
    with pytest.raises(errors.NoSuchTopic, match="make it first"):
        planner.declare_exchange(Host().topology, declared("e", "absent"))
