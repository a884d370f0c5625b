"""What queues are called: a virtual host, as AMQP has it, and a name of any characters."""

from typing import NamedTuple

from kafkaesque.access.rules import DEFAULT_VHOST_PREFIX, VHOST_MARK, PatternKind
from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.ids import TopicId

#: Where protocols that know no virtual hosts have their queues.
DEFAULT_VHOST = "/"
NAME_BYTES_MAX = 255
#: Virtual hosts that begin so are the brokers' own: a share group's has the group behind it.
OWN_VHOST_MARK = "__"
SHARE_VHOST_MARK = "__share/"
#: Queues of durable subscriptions of STOMP begin so.
STOMP_DURABLE_PREFIX = "stomp."


class QueueName(NamedTuple):
    """A queue's name; queues and topics may have equal names."""

    vhost: str
    name: str

    def __str__(self) -> str:
        return (
            repr(self.name) if self.vhost == DEFAULT_VHOST else f"{self.name!r} in {self.vhost!r}"
        )


def check_queue_name(queue: QueueName) -> None:
    """Refuse what is no legal name.

    Raises:
        InvalidRequest: empty, longer than 255 bytes, or one that rules could not tell from others.
    """
    check_vhost(queue.vhost)
    _check_text("queue", queue.name)
    if queue.vhost == DEFAULT_VHOST and queue.name.startswith(VHOST_MARK):
        raise InvalidRequest(f"names of queues do not begin with {VHOST_MARK!r}")


def check_vhost(name: str) -> None:
    """Refuse what is no legal name of a virtual host.

    Raises:
        InvalidRequest: empty, longer than 255 bytes, or one of the brokers' own.
    """
    _check_text("virtual host", name)
    if is_own_vhost(name):
        raise InvalidRequest(f"virtual hosts that begin with {OWN_VHOST_MARK!r} are the brokers'")


def is_own_vhost(name: str) -> bool:
    """Tell whether a virtual host is the brokers' own, which no client sees."""
    return name.startswith(OWN_VHOST_MARK)


def _check_text(what: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"the name of a {what} is no UTF-8") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise InvalidRequest(
            f"the name of a {what} has 1 to {NAME_BYTES_MAX} bytes, this has {size}"
        )
    if "\0" in text:
        raise InvalidRequest(f"the name of a {what} has no NUL in it")


def exchange_resource(vhost: str, exchange: str) -> str:
    """Return what an exchange is called in rules, as queues are."""
    return queue_resource(QueueName(vhost, exchange))


def share_vhost(group: str) -> str:
    """Return the virtual host of a share group's cursors."""
    return SHARE_VHOST_MARK + group


def share_queue(group: str, topic_id: TopicId) -> QueueName:
    """Return what a share group's cursor over a topic is called."""
    return QueueName(share_vhost(group), topic_id.hex())


def share_group_of(queue: QueueName) -> str | None:
    """Return the share group that a queue belongs to, if it is one's cursor."""
    if not queue.vhost.startswith(SHARE_VHOST_MARK):
        return None
    return queue.vhost.removeprefix(SHARE_VHOST_MARK)


def queue_resource(queue: QueueName) -> str:
    """Return what a queue is called in rules: its name, or `vhost:HOST/NAME` elsewhere.

    A `/` of the virtual host is written as `%2F`, so that no two queues have one name here.
    """
    if queue.vhost == DEFAULT_VHOST:
        return queue.name
    vhost = queue.vhost.replace("%", "%25").replace("/", "%2F")
    return f"{VHOST_MARK}{vhost}/{queue.name}"


def may_be_in_vhost(kind: PatternKind, name: str, vhost: str) -> bool:
    """Tell whether a rule for queues or exchanges may be for one of a virtual host."""
    if kind is PatternKind.ANY:
        return True
    is_prefix = kind is PatternKind.PREFIX
    if vhost == DEFAULT_VHOST:
        is_named = is_prefix and name.startswith(DEFAULT_VHOST_PREFIX)
        return is_named or not name.startswith(VHOST_MARK)
    begin = queue_resource(QueueName(vhost, ""))
    return name.startswith(begin) or (is_prefix and begin.startswith(name))


def queue_log(log_id: TopicId) -> str:
    """Return the name of a queue's log: unlike the queue's own, it is never used again."""
    return QUEUE_LOG_PREFIX + log_id.hex()


def id_of_queue_log(name: str) -> TopicId | None:
    """Return the id of a queue's log by its name; None: it is not called so."""
    if not name.startswith(QUEUE_LOG_PREFIX):
        return None
    try:
        return TopicId(bytes.fromhex(name.removeprefix(QUEUE_LOG_PREFIX)))
    except ValueError:
        return None
