"""Log-ins and rights over AMQP: pika logs in, and brokers judge."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

import pika
import pika.exceptions
import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.listeners import AMQP, AccessMode
from kafkaesque.broker.requests.access_commands import PutTopicPermission, RemoveTopicPermissions
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.gateway.amqp.gateway import AmqpGateway
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import PASSWORD, allow, change, forget_rules
from tests.unit.gateway_kafka.secured_ports import SecuredPorts, at_secured_ports

ResultT = TypeVar("ResultT")


class Secured(SecuredPorts):
    """A broker with a port for AMQP where clients log in, and one where they may."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__(live, AmqpGateway, AMQP)

    def do(
        self,
        act: Callable[[Any], ResultT],
        user: str = "root",
        password: str = PASSWORD,
        mode: AccessMode = AccessMode.REQUIRED,
    ) -> ResultT:
        """Do something with a channel of a user."""
        end = self.begin(act, user, password, mode)
        self.live.wait(end.done, "the client is done")
        return end.result()

    def begin(
        self,
        act: Callable[[Any], ResultT],
        user: str,
        password: str = PASSWORD,
        mode: AccessMode = AccessMode.REQUIRED,
    ) -> Future[ResultT]:
        """Begin to do something, in a thread: the broker runs in this one."""
        end: Future[ResultT] = Future()

        def run() -> None:
            credentials = pika.PlainCredentials(user, password)
            parameters = pika.ConnectionParameters(
                "127.0.0.1", self.ports[mode], credentials=credentials
            )
            try:
                connection = pika.BlockingConnection(parameters)
                try:
                    end.set_result(act(connection.channel()))
                finally:
                    if connection.is_open:
                        connection.close()
            except BaseException as error:
                if not end.done():
                    end.set_exception(error)

        Thread(target=run, daemon=True).start()
        return end

    def refusal(self, act: Callable[[Any], object], user: str = "other") -> str:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            self.do(act, user)
        assert caught.value.reply_code == 403
        return str(caught.value.reply_text)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with at_secured_ports(tmp_path_factory.mktemp("amqp"), Secured) as found:
        yield found


@pytest.fixture(autouse=True)
def _without_rules(secured: Secured) -> Iterator[None]:
    # It may be there, and do nothing.
    allow(secured.live, "other", Operation.DESCRIBE, ResourceType.VHOST, "/")
    yield
    forget_rules(secured.live, "other")


def publish(queue: str) -> Callable[[Any], None]:
    def act(channel: Any) -> None:
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"x")

    return act


def test_who_has_a_password_gets_in(secured: Secured) -> None:
    secured.do(lambda channel: channel.queue_declare("mine", durable=True))
    # Whoever says to have sent a message is who has logged in.
    said = pika.BasicProperties(user_id="root")
    secured.do(lambda channel: channel.basic_publish("", "mine", b"x", said))


@pytest.mark.parametrize(
    ("kind", "name", "opens"),
    [
        (None, "", False),
        (ResourceType.QUEUE, "anything", True),
        (ResourceType.EXCHANGE, "a*", True),
        (ResourceType.QUEUE, "*", True),
        (ResourceType.VHOST, "/", True),
        (ResourceType.QUEUE, "vhost:%2F/*", True),
        (ResourceType.VHOST, "shop", False),
        (ResourceType.QUEUE, "vhost:shop/tasks", False),
        (ResourceType.TOPIC, "*", False),
    ],
)
def test_a_virtual_host_is_open_to_those_that_may_do_something_in_it(
    secured: Secured, kind: ResourceType | None, name: str, opens: bool
) -> None:
    forget_rules(secured.live, "other")
    if kind is not None:
        allow(secured.live, "other", Operation.READ, kind, name)
    if opens:
        secured.do(lambda channel: None, "other")
        return
    said = r"\(530\).*access to vhost '/' refused for user 'other'"
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=said):
        secured.do(lambda channel: None, "other")


@pytest.mark.parametrize(
    ("user", "password"), [("root", "wrong"), ("nobody", PASSWORD), ("guest", "guest")]
)
def test_who_has_none_does_not(secured: Secured, user: str, password: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        secured.do(lambda channel: None, user, password)


def test_a_log_in_is_optional_where_it_is(secured: Secured) -> None:
    mode = AccessMode.OPTIONAL
    secured.do(lambda channel: channel.queue_declare("free"), "guest", "guest", mode)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        secured.do(lambda channel: None, "root", "wrong", mode)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="403"):
        secured.do(lambda channel: channel.queue_declare("other-free"), "other", PASSWORD, mode)


def test_nobody_is_anonymous_where_a_log_in_is_required(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pika.PlainCredentials, "response_for", lambda self, start: ("ANONYMOUS", b"")
    )
    secured.do(lambda channel: None, mode=AccessMode.OPTIONAL)
    said = "unknown authentication mechanism 'ANONYMOUS'"
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match=said):
        secured.do(lambda channel: None)


def test_a_new_secret_that_is_wrong_ends_it(secured: Secured) -> None:
    secured.do(lambda channel: channel.connection.update_secret(PASSWORD, "renewed"))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="New secret was refused"):
        secured.do(lambda channel: channel.connection.update_secret("wrong", "renewed"))


def test_a_log_in_that_takes_many_bytes_is_refused(secured: Secured) -> None:
    said = f"{LOGIN_BYTES_MAX} bytes have come before the log-in"
    with socket.create_connection(("127.0.0.1", secured.ports[AccessMode.REQUIRED])) as link:
        link.sendall(bytes(60_000))
        secured.live.wait(lambda: any(said in each for each in secured.live.reports), said)


def test_rules_say_who_may_do_what(secured: Secured) -> None:
    live = secured.live
    secured.do(lambda channel: channel.queue_declare("guarded", durable=True))
    acts: dict[Operation, Callable[[Any], object]] = {
        Operation.CREATE: lambda channel: channel.queue_declare("guarded", durable=True),
        Operation.WRITE: publish("guarded"),
        Operation.READ: lambda channel: channel.basic_get("guarded", auto_ack=True),
        Operation.DELETE: lambda channel: channel.queue_delete("guarded"),
    }
    for operation, act in acts.items():
        said = secured.refusal(act)
        assert f"ACCESS_REFUSED - {operation.name.lower()} access to queue 'guarded'" in said
        assert "refused for user 'other'" in said
        allow(live, "other", operation, ResourceType.QUEUE, "guarded")
        secured.do(act, "other")
    assert secured.refusal(lambda channel: channel.queue_purge("elsewhere"))
    assert secured.refusal(lambda channel: channel.basic_consume("elsewhere", print))
    assert secured.refusal(lambda channel: channel.queue_declare("elsewhere", passive=True))
    assert secured.refusal(lambda channel: channel.exchange_declare("events"))
    assert secured.refusal(lambda channel: channel.exchange_delete("events"))


def limit(
    secured: Secured, exchange: str, write: str = ".*", read: str = ".*", vhost: str = "/"
) -> None:
    permission = TopicPermission(
        user="other", vhost=vhost, exchange=exchange, write=write, read=read
    )
    change(secured.live, PutTopicPermission(permission=permission))


@pytest.fixture
def exchange(secured: Secured) -> Iterator[str]:
    """An exchange of the type topic at which others may do all that rules can allow."""
    name = "topics"
    secured.do(lambda channel: channel.exchange_declare(name, "topic", durable=True))
    secured.do(lambda channel: channel.queue_declare("by-topic", durable=True))
    for operation in (Operation.WRITE, Operation.READ):
        allow(secured.live, "other", operation, ResourceType.EXCHANGE, name)
    allow(secured.live, "other", Operation.WRITE, ResourceType.QUEUE, "by-topic")
    yield name
    change(secured.live, RemoveTopicPermissions(user="other", vhost="/"))


def send(exchange: str, key: str, **properties: Any) -> Callable[[Any], None]:
    def act(channel: Any) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))

    return act


def test_a_topic_permission_limits_the_keys_that_are_published_with(
    secured: Secured, exchange: str
) -> None:
    secured.do(send(exchange, "bills.1"), "other")
    limit(secured, exchange, write="^{username}\\.")
    secured.do(send(exchange, "other.1"), "other")
    said = (
        f"ACCESS_REFUSED - write access to topic 'bills.1' in exchange '{exchange}' in vhost '/' "
        "refused for user 'other'"
    )
    assert secured.refusal(send(exchange, "bills.1")) == said
    assert secured.refusal(send(exchange, "other.1", headers={"CC": ["bills.1"]})) == said
    assert secured.refusal(send(exchange, "other.1", headers={"BCC": ["bills.1"]})) == said
    # It is the user's alone, and goes as it has come.
    secured.do(send(exchange, "bills.1"))
    change(secured.live, RemoveTopicPermissions(user="other", vhost="/", exchange="another"))
    assert secured.refusal(send(exchange, "bills.1")) == said
    change(secured.live, RemoveTopicPermissions(user="other", vhost="/", exchange=exchange))
    secured.do(send(exchange, "bills.1"), "other")


def test_a_topic_permission_allows_nothing_that_rules_do_not(
    secured: Secured, exchange: str
) -> None:
    limit(secured, exchange)
    secured.do(send(exchange, "a"), "other")
    forget_rules(secured.live, "other")
    allow(secured.live, "other", Operation.DESCRIBE, ResourceType.VHOST, "/")
    assert f"write access to exchange '{exchange}'" in secured.refusal(send(exchange, "a"))


def test_many_messages_in_one_read_are_asked_for_too(secured: Secured, exchange: str) -> None:
    limit(secured, exchange, write="^a")

    def publish_many(channel: Any) -> None:
        for _ in range(50):
            channel.basic_publish(exchange, "b", b"x")
        channel.queue_declare("by-topic", passive=True)

    assert "write access to topic 'b'" in secured.refusal(publish_many)

    def commit(channel: Any) -> None:
        channel.tx_select()
        channel.basic_publish(exchange, "b", b"x")
        channel.tx_commit()

    assert "write access to topic 'b'" in secured.refusal(commit)


def test_a_topic_permission_limits_the_keys_that_are_bound_with(
    secured: Secured, exchange: str
) -> None:
    other = "topics-onward"
    secured.do(lambda channel: channel.exchange_declare(other, "topic", durable=True))
    allow(secured.live, "other", Operation.WRITE, ResourceType.EXCHANGE, other)

    def bind(key: str) -> Callable[[Any], object]:
        return lambda channel: channel.queue_bind("by-topic", exchange, key)

    secured.do(bind("bills.*"), "other")
    limit(secured, exchange, read="^orders\\.")
    secured.do(bind("orders.#"), "other")
    for key in ("#", "bills.*", ""):
        said = secured.refusal(bind(key))
        assert f"ACCESS_REFUSED - read access to topic '{key}' in exchange '{exchange}'" in said
    assert "read access to topic" in secured.refusal(
        lambda channel: channel.queue_unbind("by-topic", exchange, "bills.*")
    )
    assert "read access to topic" in secured.refusal(
        lambda channel: channel.exchange_bind(other, exchange, "#")
    )
    assert "read access to topic" in secured.refusal(
        lambda channel: channel.exchange_unbind(other, exchange, "#")
    )
    secured.do(lambda channel: channel.exchange_bind(other, exchange, "orders.#"), "other")


def test_a_topic_permission_is_for_exchanges_of_the_type_topic(secured: Secured) -> None:
    secured.do(lambda channel: channel.exchange_declare("directs", "direct", durable=True))
    allow(secured.live, "other", Operation.WRITE, ResourceType.EXCHANGE, "directs")
    limit(secured, "directs", write="^a")
    secured.do(send("directs", "b"), "other")
    change(secured.live, RemoveTopicPermissions(user="other", vhost="/"))


def test_the_audit_log_is_told_which_key_was_refused(
    secured: Secured, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    limit(secured, exchange, write="^a")
    secured.refusal(send(exchange, "b"))
    found = [each for each in noted if each.resource == exchange]
    assert [(each.principal, each.operation) for each in found] == [("User:other", "write")]


def test_the_audit_log_is_told_who_purges(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    secured.do(lambda channel: channel.queue_declare("full", durable=True))
    allow(secured.live, "other", Operation.READ, ResourceType.QUEUE, "full")
    secured.do(lambda channel: channel.queue_purge("full"), "other")
    found = [(each.principal, each.resource) for each in noted if each.operation == "purge"]
    assert found == [("User:other", "full")]


def test_dead_letters_go_only_where_one_may_write(secured: Secured) -> None:
    live = secured.live
    secured.do(lambda channel: channel.queue_declare("dead", durable=True))
    allow(live, "other", Operation.CREATE, ResourceType.QUEUE, "source")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

    def declare(channel: Any) -> None:
        channel.queue_declare("source", durable=True, arguments=arguments)

    assert "dead" in secured.refusal(declare)
    allow(live, "other", Operation.WRITE, ResourceType.QUEUE, "dead")
    secured.do(declare, "other")


def test_a_consumer_whose_rule_is_gone_gets_nothing_more(secured: Secured) -> None:
    secured.do(lambda channel: channel.queue_declare("read-by-other"))
    secured.do(lambda channel: channel.basic_publish("", "read-by-other", b"before"))
    allow(secured.live, "other", Operation.READ, ResourceType.QUEUE, "read-by-other")
    got: list[bytes] = []

    def consume(channel: Any) -> None:
        for _, _, body in channel.consume("read-by-other", auto_ack=True):
            got.append(body)

    end = secured.begin(consume, "other")
    secured.live.wait(lambda: bool(got), "the consumer has its first message")
    forget_rules(secured.live, "other")
    secured.do(lambda channel: channel.basic_publish("", "read-by-other", b"after"))
    secured.live.wait(end.done, "the consumer is told")
    refused = end.exception()
    assert isinstance(refused, pika.exceptions.ChannelClosedByBroker)
    assert refused.reply_code == 403
    assert got == [b"before"]
    kept = secured.do(lambda channel: channel.basic_get("read-by-other", auto_ack=True))
    assert kept[2] == b"after"


def test_a_consumer_of_a_stream_whose_rule_is_gone_gets_nothing_more(secured: Secured) -> None:
    name = "stream-read-by-other"
    arguments = {"x-queue-type": "stream"}
    secured.do(lambda channel: channel.queue_declare(name, durable=True, arguments=arguments))
    secured.do(lambda channel: channel.basic_publish("", name, b"before"))
    allow(secured.live, "other", Operation.READ, ResourceType.QUEUE, name)
    got: list[bytes] = []

    def consume(channel: Any) -> None:
        channel.basic_qos(prefetch_count=10)
        for method, _, body in channel.consume(name, arguments={"x-stream-offset": "first"}):
            got.append(body)
            channel.basic_ack(method.delivery_tag)

    end = secured.begin(consume, "other")
    secured.live.wait(lambda: bool(got), "the consumer has its first message")
    forget_rules(secured.live, "other")
    secured.do(lambda channel: channel.basic_publish("", name, b"after"))
    secured.live.wait(lambda: end.done() or len(got) > 1, "the consumer is told")
    assert got == [b"before"]
    refused = end.exception()
    assert isinstance(refused, pika.exceptions.ChannelClosedByBroker)
    assert refused.reply_code == 403
