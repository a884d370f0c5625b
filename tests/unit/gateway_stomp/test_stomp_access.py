"""Log-ins and rights over STOMP: stomp.py logs in, and brokers judge."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Event, Thread
from typing import Any

import pytest
import stomp

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.listeners import STOMP, AccessMode
from kafkaesque.broker.requests.access_commands import PutTopicPermission, RemoveTopicPermissions
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.gateway.stomp.gateway import StompGateway
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import PASSWORD, allow, change, forget_rules
from tests.unit.gateway_kafka.secured_ports import SecuredPorts, at_secured_ports
from tests.waiting import DEADLINE_S


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Keeps what a client is told."""

    def __init__(self) -> None:
        self.is_connected = False
        self.messages: list[str] = []
        self.error = ""
        self.error_receipt: str | None = None
        self.receipts: list[str] = []
        self.news = Event()

    def on_connected(self, frame: Any) -> None:
        self.is_connected = True
        self.news.set()

    def on_message(self, frame: Any) -> None:
        self.messages.append(frame.body)
        self.news.set()

    def on_error(self, frame: Any) -> None:
        self.error_receipt = frame.headers.get("receipt-id")
        self.error = frame.headers["message"]
        self.news.set()

    def on_receipt(self, frame: Any) -> None:
        self.receipts.append(frame.headers["receipt-id"])
        self.news.set()

    def on_disconnected(self) -> None:
        self.news.set()

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until something holds, or the broker has an error."""
        while not (is_so() or self.error):
            assert self.news.wait(DEADLINE_S)
            self.news.clear()


class Client:
    """stomp.py, connected."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self.listener = Listener()
        self.connection = stomp.Connection12([("127.0.0.1", port)], reconnect_attempts_max=1)
        self.connection.set_listener("", self.listener)
        self.connection.connect(user, password, wait=False)
        self.listener.wait(lambda: self.listener.is_connected)

    def ask(self, act: Callable[[Any, str], object], receipt: str = "r") -> str:
        """Ask for something with a receipt; return the error, if there is one."""
        act(self.connection, receipt)
        self.listener.wait(lambda: receipt in self.listener.receipts)
        return self.listener.error


class Secured(SecuredPorts):
    """A broker with a port for STOMP where clients log in, and one where they may."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__(live, StompGateway, STOMP)

    def begin(
        self,
        act: Callable[[Client], object],
        user: str,
        password: str,
        mode: AccessMode,
    ) -> Future[object]:
        """Begin to do something, in a thread: the broker runs in this one."""
        end: Future[object] = Future()

        def run() -> None:
            try:
                client = Client(self.ports[mode], user, password)
                try:
                    end.set_result(client.listener.error or act(client))
                finally:
                    client.connection.transport.disconnect_socket()
            except BaseException as error:
                if not end.done():
                    end.set_exception(error)

        Thread(target=run, daemon=True).start()
        return end

    def do(
        self,
        act: Callable[[Client], object] = lambda client: None,
        user: str = "root",
        password: str = PASSWORD,
        mode: AccessMode = AccessMode.REQUIRED,
    ) -> object:
        """Do something as a user; return what comes of it, or the error that the broker has."""
        end = self.begin(act, user, password, mode)
        self.live.wait(end.done, "the client is done")
        return end.result()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with at_secured_ports(tmp_path_factory.mktemp("stomp"), Secured) as found:
        yield found


@pytest.fixture(autouse=True)
def _without_rules(secured: Secured) -> Iterator[None]:
    yield
    forget_rules(secured.live, "other")


def send(destination: str, **headers: str) -> Callable[[Client], object]:
    return lambda client: client.ask(
        lambda connection, receipt: connection.send(destination, "a", receipt=receipt, **headers)
    )


def subscribe(destination: str, **headers: str) -> Callable[[Client], object]:
    return lambda client: client.ask(
        lambda connection, receipt: connection.subscribe(
            destination, "s", headers={**headers, "receipt": receipt}
        )
    )


def test_who_has_a_password_gets_in(secured: Secured) -> None:
    assert secured.do(send("/queue/mine", **{"user-id": "root"})) == ""


@pytest.mark.parametrize(
    ("user", "password"), [("root", "wrong"), ("nobody", PASSWORD), ("guest", "guest")]
)
def test_who_has_none_does_not(secured: Secured, user: str, password: str) -> None:
    assert secured.do(user=user, password=password) == (
        "the log-in was refused: login or passcode is wrong"
    )


def test_who_says_nothing_is_told_to_log_in(secured: Secured) -> None:
    assert secured.do(user="", password="") == (
        "log in: the headers login and passcode are missing"
    )


def test_a_log_in_is_optional_where_it_is(secured: Secured) -> None:
    mode = AccessMode.OPTIONAL
    for user in ("", "guest"):
        assert secured.do(send("/queue/free"), user, user, mode) == ""
    assert "the log-in was refused" in str(secured.do(user="root", password="wrong", mode=mode))
    assert "refused for user 'other'" in str(
        secured.do(send("/queue/other-free"), "other", PASSWORD, mode)
    )


def test_a_log_in_that_takes_many_bytes_is_refused(secured: Secured) -> None:
    said = f"{LOGIN_BYTES_MAX} bytes have come before the log-in"
    with socket.create_connection(("127.0.0.1", secured.ports[AccessMode.REQUIRED])) as link:
        link.sendall(b"\n" * 60_000)
        secured.live.wait(lambda: any(said in each for each in secured.live.reports), said)


def test_another_user_cannot_be_named(secured: Secured) -> None:
    said = secured.do(send("/queue/mine", **{"user-id": "other"}))
    assert "authenticated user was 'root'" in str(said)


def test_rules_say_who_may_do_what(secured: Secured) -> None:
    queue, exchange = ResourceType.QUEUE, ResourceType.EXCHANGE
    acts: list[tuple[Callable[[Client], object], Operation, ResourceType, str]] = [
        (send("/queue/guarded"), Operation.WRITE, queue, "guarded"),
        (send("/queue/guarded"), Operation.CREATE, queue, "guarded"),
        (subscribe("/queue/guarded"), Operation.READ, queue, "guarded"),
        (send("/topic/guarded"), Operation.WRITE, exchange, "amq.topic"),
        (subscribe("/topic/guarded"), Operation.READ, exchange, "amq.topic"),
        (subscribe("/topic/t", durable="true"), Operation.READ, queue, "stomp.s"),
        (subscribe("/topic/t", durable="true"), Operation.CREATE, queue, "stomp.s"),
    ]
    for act, operation, resource_type, name in acts:
        said = str(secured.do(act, "other"))
        what = f"{operation.name.lower()} access to {resource_type.name.lower()} '{name}'"
        assert what in said
        assert "refused for user 'other'" in said
        allow(secured.live, "other", operation, resource_type, name)
    for act, *_ in acts:
        assert secured.do(act, "other") == ""


def test_a_topic_permission_limits_keys(secured: Secured) -> None:
    for operation in (Operation.WRITE, Operation.READ):
        allow(secured.live, "other", operation, ResourceType.EXCHANGE, "amq.topic")
    limit = TopicPermission(
        user="other", vhost="/", exchange="amq.topic", write="^{username}", read="^news"
    )
    change(secured.live, PutTopicPermission(permission=limit))
    assert secured.do(send("/topic/other.1"), "other") == ""
    assert secured.do(subscribe("/topic/news.#"), "other") == ""
    for act, said in (
        (send("/topic/news"), "write access to topic 'news' in exchange 'amq.topic'"),
        (send("/exchange/amq.topic/news"), "write access to topic 'news'"),
        (subscribe("/topic/#"), "read access to topic '#' in exchange 'amq.topic'"),
        (subscribe("/exchange/amq.topic/other"), "read access to topic 'other'"),
    ):
        assert said in str(secured.do(act, "other"))
    change(secured.live, RemoveTopicPermissions(user="other", vhost="/"))
    assert secured.do(send("/topic/news"), "other") == ""


def test_answers_need_no_rule_but_their_name(secured: Secured) -> None:
    allow(secured.live, "other", Operation.WRITE, ResourceType.QUEUE, "questions")
    assert secured.do(send("/queue/questions")) == ""

    def call(client: Client) -> object:
        def ask(connection: Any, receipt: str) -> None:
            headers = {"reply-to": "/temp-queue/a", "receipt": receipt}
            connection.send("/queue/questions", "q", headers=headers)
            connection.send("/temp-queue/a", "answer")

        client.ask(ask)
        client.listener.wait(lambda: bool(client.listener.messages))
        return client.listener.messages

    assert secured.do(call, "other") == ["answer"]


def test_a_subscription_whose_rule_is_gone_gets_nothing_more(secured: Secured) -> None:
    assert secured.do(send("/queue/read-by-other")) == ""
    allow(secured.live, "other", Operation.READ, ResourceType.QUEUE, "read-by-other")
    got: list[str] = []

    def consume(client: Client) -> object:
        subscribe("/queue/read-by-other")(client)
        client.listener.wait(lambda: bool(client.listener.messages))
        got.extend(client.listener.messages)
        client.listener.wait(lambda: len(client.listener.messages) > 1)
        return client.listener.error

    end = secured.begin(consume, "other", PASSWORD, AccessMode.REQUIRED)
    secured.live.wait(lambda: bool(got), "the subscriber has its first message")
    forget_rules(secured.live, "other")
    assert secured.do(send("/queue/read-by-other")) == ""
    secured.live.wait(end.done, "the subscriber is told")
    assert "read access to queue 'read-by-other'" in str(end.result())
    assert len(got) == 1


def test_what_waits_for_its_commit_is_not_sent_once_its_rule_is_gone(secured: Secured) -> None:
    queue, has_sent, is_forgotten = "kept-back", Event(), Event()
    for operation in (Operation.WRITE, Operation.CREATE):
        allow(secured.live, "other", operation, ResourceType.QUEUE, queue)

    def keep(client: Client) -> object:
        client.connection.begin(transaction="t")
        send(f"/queue/{queue}", transaction="t")(client)
        has_sent.set()
        assert is_forgotten.wait(DEADLINE_S)
        return client.ask(
            lambda connection, receipt: connection.commit(transaction="t", receipt=receipt), "end"
        )

    end = secured.begin(keep, "other", PASSWORD, AccessMode.REQUIRED)
    secured.live.wait(lambda: has_sent.is_set() or end.done(), "the message waits")
    forget_rules(secured.live, "other")
    is_forgotten.set()
    secured.live.wait(end.done, "the client is told")
    assert "write access to queue 'kept-back'" in str(end.result())


def test_what_comes_together_is_not_sent_once_its_rule_is_gone(secured: Secured) -> None:
    queue, has_sent, is_forgotten = "together", Event(), Event()
    for operation in (Operation.WRITE, Operation.CREATE):
        allow(secured.live, "other", operation, ResourceType.QUEUE, queue)

    def keep(client: Client) -> object:
        send(f"/queue/{queue}")(client)
        has_sent.set()
        assert is_forgotten.wait(DEADLINE_S)
        head = f"SEND\ndestination:/queue/{queue}\nreceipt:".encode()
        raw = b"".join(b"%b%d\n\na\0" % (head, number) for number in (7, 8, 9))
        client.connection.transport.socket.sendall(raw)
        client.listener.wait(lambda: False)
        return client.listener.error, client.listener.error_receipt, client.listener.receipts

    end = secured.begin(keep, "other", PASSWORD, AccessMode.REQUIRED)
    secured.live.wait(lambda: has_sent.is_set() or end.done(), "the first message is sent")
    forget_rules(secured.live, "other")
    is_forgotten.set()
    secured.live.wait(end.done, "the client is told")
    told = str(end.result())
    assert "write access to queue 'together'" in told
    # That is the first one's; the receipt is that of the message before them.
    assert told.endswith("'7', ['r'])")
