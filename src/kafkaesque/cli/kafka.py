"""The Kafka client under the commands: librdkafka, silent, its errors turned into sentences.

Imported by commands that talk to a cluster and by nobody else: a broker's process never loads it.
"""

import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kafkaesque.cli.addresses import (
    CONNECT_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    START_HINT,
    parse_addresses,
)
from kafkaesque.cli.exit_codes import DAMAGED, FAILED, UNREACHABLE, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import check_entry
from kafkaesque.cli.log_in import find_log_in
from kafkaesque.cli.missing_rules import Right, missing_rule
from kafkaesque.cli.tls import is_on, library_settings
from kafkaesque.cli.troubles import why
from kafkaesque.client.log_in import LogIn

Result = TypeVar("Result")

#: So long a broker may look for a controller: then it says so, before nobody is waited for more.
OPERATION_TIMEOUT_S = 10.0
#: The library knows better what has taken too long, so it is the first to say so.
LIBRARY_SPARE_S = 1.0
CONTROLLER_AGAIN_MS = 500
OUTAGE_AGAIN_S = 10.0
#: The part of the time for metadata after which it is asked for again: librdkafka (2.16) lets a
#: request wait that was on its way to a broker that was killed, though others would answer.
FIRST_TRY: Final = 0.4
#: Metadata are asked for so often at most, and so long after a connection broke: a broker that is
#: cut off closes it, for the others to be asked.
TRIES_MAX: Final = 6
BROKEN_AGAIN_S: Final = 0.3
_WORTH_ANOTHER_TRY: Final = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)

#: A broker found no controller in time, or none that did what was asked.
_WITHOUT_CONTROLLER = (KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER)
_RULES_HINT = "as an administrator: kafkaesque rule explain    (who may do what)"
_READ_ONLY_HINT = "kafkaesque queue list    (if it shows a queue, it can only be read)"
_LOG_IN_HINT = "KAFKAESQUE_USER and KAFKAESQUE_PASSWORD_FILE"
#: What is wrong, in words, by Kafka's name of the error; {what} is what the command dealt with,
#: and {name} its name.
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "UNKNOWN_TOPIC_OR_PART": ("{what} does not exist", "kafkaesque topic list"),
    "_UNKNOWN_TOPIC": ("{what} does not exist", "kafkaesque topic list"),
    "_UNKNOWN_PARTITION": ("{what} has no such partition", "kafkaesque topic list"),
    "TOPIC_ALREADY_EXISTS": ("{what} exists already", "--if-not-exists, to accept that"),
    "GROUP_ID_NOT_FOUND": ("{what} does not exist", "kafkaesque group list"),
    "NON_EMPTY_GROUP": ("{what} has active members", "stop its consumers first"),
    "LEADER_NOT_AVAILABLE": ("{what} has no leader at the moment", "kafkaesque cluster status"),
    "COORDINATOR_NOT_AVAILABLE": ("no broker coordinates {what} at the moment", "again, shortly"),
    "NOT_ENOUGH_REPLICAS": (
        "{what} has fewer replicas in sync than min.insync.replicas",
        "kafkaesque cluster status",
    ),
    "MSG_SIZE_TOO_LARGE": (
        "a message is larger than {what} accepts",
        "kafkaesque topic alter {name} --config max.message.bytes=BYTES",
    ),
    "TOPIC_AUTHORIZATION_FAILED": ("no rule allows this with {what}", _RULES_HINT),
    "GROUP_AUTHORIZATION_FAILED": ("no rule allows this with {what}", _RULES_HINT),
    "CLUSTER_AUTHORIZATION_FAILED": ("{what}: no rule allows this with the cluster", _RULES_HINT),
    "_AUTHENTICATION": ("{what}: the broker has refused the log-in", _LOG_IN_HINT),
    "_BAD_MSG": (
        "{what}: a batch's checksum does not match its bytes: they were damaged on a disk or on the"
        " way here",
        "kafkaesque log verify DIR, on the brokers' machines",
    ),
    "_MSG_TIMED_OUT": (
        "{what}: no broker acknowledged the message in time",
        "kafkaesque cluster status",
    ),
    "_TIMED_OUT": ("{what}: no answer in time", "kafkaesque doctor"),
    "_TRANSPORT": ("{what}: the connection to the broker broke", "kafkaesque cluster status"),
    "_ALL_BROKERS_DOWN": ("{what}: no broker can be reached", "kafkaesque cluster status"),
}
_UNREACHABLE_NAMES = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Have Ctrl-C wait: confluent-kafka would take it for a mistake in the settings."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Connection:
    """One cluster, named by some of its brokers."""

    #: That of the command that runs, while it is not known that nobody answers there.
    latest: ClassVar[str] = ""

    def __init__(self, bootstrap: str) -> None:
        """Check that somebody listens at one of the addresses at least.

        Raises:
            CommandFailed: an address makes no sense, nobody listens, or whoever does refuses TLS or
                the log-in.
        """
        self.bootstrap = bootstrap
        self._log_in = find_log_in(bootstrap)
        addresses = parse_addresses(bootstrap)
        problems = []
        for host, port in addresses:
            problem = _why_not(host, port, self._log_in)
            if problem is None:
                Connection.latest = bootstrap
                return
            problems.append(f"{host}:{port} ({problem})")
        raise CommandFailed(
            f"no broker answers at {', '.join(problems)}",
            hint=START_HINT,
            exit_code=UNREACHABLE,
        )

    def admin(self) -> AdminClient:
        settings = {
            # The library would wait for a minute for a broker that hangs, or for a controller.
            "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
            # Whoever was sent to a broker that is down, or told of no controller by an earlier
            # release, looks for one again, and does not wait until the request is given up.
            "topic.metadata.refresh.interval.ms": CONTROLLER_AGAIN_MS,
        }
        with _uninterrupted():
            return AdminClient(self._settings(settings))

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        with _uninterrupted():
            return Producer(self._settings(settings))

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        # Brokers send what lies on their disks as it is: who reads it last has to look.
        with _uninterrupted():
            return Consumer(self._settings({"check.crcs": True, **settings}))

    def metadata(
        self,
        client: AdminClient | Consumer | Producer,
        topic: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> ClusterMetadata:
        """Return brokers, and all topics or the one that is named.

        Raises:
            CommandFailed: no broker answers.
        """
        deadline_s = time.monotonic() + timeout_s
        left_s = timeout_s * FIRST_TRY
        for _ in range(TRIES_MAX):
            try:
                return _metadata(client, topic, left_s)
            except KafkaException as raised:
                error = _error_of(raised)
            left_s = deadline_s - time.monotonic()
            if error.code() not in _WORTH_ANOTHER_TRY or left_s <= 0:
                break
            if error.code() == KafkaError._TRANSPORT:
                time.sleep(min(BROKEN_AGAIN_S, left_s))
        raise CommandFailed(
            f"a process listens at {self.bootstrap}, but does not answer as a Kafka broker does"
            f" ({_why_no_broker(self.bootstrap) or error.str()})",
            hint=START_HINT,
            exit_code=UNREACHABLE,
        )

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "kafkaesque-cli",
            # librdkafka would write to stderr by itself; what matters comes back as an error.
            "log_level": 0,
            "error_cb": _ignore,
            **library_settings(),
            **(self._log_in.settings(is_encrypted=is_on()) if self._log_in is not None else {}),
            **settings,
        }


def result_of(future: "Future[Result]", what: str, *rights: Right) -> Result:
    """Return what an administrative request gave; it needs `rights`.

    Raises:
        CommandFailed: it was refused, or not done in time; the sentence names `what`. The exit code
            is that of an unreachable cluster only if no broker answers at all: the library does
            not tell this from a cluster without a controller or a coordinator.
    """
    try:
        return future.result(timeout=REQUEST_TIMEOUT_S + LIBRARY_SPARE_S)
    except KafkaException as raised:
        error = _error_of(raised)
    except FutureTimeout:
        error = KafkaError(KafkaError._TIMED_OUT)
    if error.code() == KafkaError._TIMED_OUT and (there := _who_answers()):
        raise CommandFailed(
            f"{what}: {there} answers, but this was not done in time", hint="kafkaesque doctor"
        )
    raise explain(error, what, *rights)


def _who_answers() -> str:
    """Return one of the brokers that were named, which answers; nothing if there is none."""
    from kafkaesque.cli.kafka_request import greet_all

    if not Connection.latest:
        return ""
    found = greet_all(Connection.latest)
    there = next((address for address, problem in found.items() if not problem), "")
    if not there:
        Connection.latest = ""
    return there


def _why_no_broker(bootstrap: str) -> str:
    """Return what answers there in place of a broker; nothing where that is not known."""
    from kafkaesque.cli.kafka_request import greet_all
    from kafkaesque.client.framing import SPEAKS_HTTP

    return SPEAKS_HTTP if SPEAKS_HTTP in greet_all(bootstrap).values() else ""


def explain(error: KafkaError, what: str, *rights: Right) -> CommandFailed:
    """Return the failure for an error of Kafka's, in a sentence about `what`.

    A refusal for want of a rule is about one of `rights`, those that are needed.
    """
    missing = missing_rule(error.code(), Connection.latest, *rights)
    if missing is not None:
        return missing
    code = UNREACHABLE if error.name() in _UNREACHABLE_NAMES else FAILED
    if error.code() == KafkaError._BAD_MSG:
        code = DAMAGED
    if error.code() == KafkaError.INVALID_CONFIG:
        code = WRONG_USAGE
    known = _SENTENCES.get(error.name())
    if known is not None:
        sentence, hint = known
        hint = hint.format(name=what.rpartition(" ")[2])
        return CommandFailed(sentence.format(what=what), hint=hint, exit_code=code)
    hint = "kafkaesque doctor" if error.code() in _WITHOUT_CONTROLLER else ""
    if error.code() == KafkaError.POLICY_VIOLATION:
        hint = _READ_ONLY_HINT
    return CommandFailed(
        f"{what}: {error.str().rstrip('.')} ({error.name()})",
        hint=hint,
        exit_code=code,
    )


def explain_raised(raised: KafkaException, what: str, *rights: Right) -> CommandFailed:
    """Return the failure for a raised error of Kafka's, as `explain` does."""
    return explain(_error_of(raised), what, *rights)


def _metadata(
    client: AdminClient | Consumer | Producer, topic: str | None, timeout_s: float
) -> ClusterMetadata:
    if topic is None:
        return client.list_topics(timeout=timeout_s)
    return client.list_topics(topic, timeout=timeout_s)


def _error_of(raised: KafkaException) -> KafkaError:
    error = raised.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(raised))


def _why_not(host: str, port: int, log_in: LogIn | None) -> str | None:
    """Return why nobody can be reached there, or None.

    Raises:
        CommandFailed: somebody can, and refuses TLS or the log-in.
    """
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return why(error)
    check_entry(host, port, log_in)
    return None


def outage_teller(note: Callable[[str], None]) -> Callable[[KafkaError], None]:
    """Return an `error_cb` for long work: says, now and then, that all connections are down."""
    told_at = -OUTAGE_AGAIN_S

    def tell(error: KafkaError) -> None:
        nonlocal told_at
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            now = time.monotonic()
            if now - told_at >= OUTAGE_AGAIN_S:
                told_at = now
                note("no connection to any broker at the moment; still trying (Ctrl-C ends it)")

    return tell


def _ignore(error: KafkaError) -> None:
    """Errors of single connections: librdkafka tries again, and ends with one that is reported."""
