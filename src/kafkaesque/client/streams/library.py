"""librdkafka: what it is told, and what its errors mean."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from kafkaesque.client import errors
from kafkaesque.client.config import ClientConfig
from kafkaesque.client.working import log

_logger: Final = logging.getLogger("kafkaesque.librdkafka")
_logger.addHandler(logging.NullHandler())

#: Settings that would break what this client promises.
_FIXED: Final = frozenset(
    {
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "transactional.id",
    }
)

_KINDS: Final[Mapping[int, type[errors.KafkaesqueError]]] = {
    KafkaError._ALL_BROKERS_DOWN: errors.BrokerUnavailable,
    KafkaError._TRANSPORT: errors.BrokerUnavailable,
    KafkaError._RESOLVE: errors.BrokerUnavailable,
    KafkaError._AUTHENTICATION: errors.LogInRefused,
    KafkaError._SSL: errors.BrokerNotTrusted,
    KafkaError._TIMED_OUT: errors.Timeout,
    # With idempotence on it may still be in the log.
    KafkaError._MSG_TIMED_OUT: errors.OutcomeUnknown,
    KafkaError._PURGE_INFLIGHT: errors.OutcomeUnknown,
    KafkaError._PURGE_QUEUE: errors.Closed,
    KafkaError._UNKNOWN_TOPIC: errors.TopicNotFound,
    KafkaError.UNKNOWN_TOPIC_OR_PART: errors.TopicNotFound,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: errors.NotAuthorized,
    KafkaError.GROUP_AUTHORIZATION_FAILED: errors.NotAuthorized,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: errors.NotAuthorized,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: errors.NotAuthorized,
    KafkaError.MSG_SIZE_TOO_LARGE: errors.MessageTooLarge,
    KafkaError._FENCED: errors.Fenced,
    KafkaError.PRODUCER_FENCED: errors.Fenced,
    KafkaError.INVALID_PRODUCER_EPOCH: errors.Fenced,
    KafkaError._INVALID_ARG: errors.InvalidArgument,
}


def settings_of(
    config: ClientConfig, own: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what librdkafka is told: who and where, what follows from a class, and a user's own.

    Raises:
        InvalidArgument: the user's would break what the class promises.
    """
    broken = _FIXED.intersection(more)
    if broken:
        raise errors.InvalidArgument(f"{min(broken)} is not a setting that can be changed here")
    tls = {} if config.tls is None else config.tls.library_settings()
    log_in = config.log_in
    return {
        "bootstrap.servers": config.bootstrap_servers,
        "client.id": config.client_id,
        # It would write to stderr by itself.
        "logger": _logger,
        "error_cb": _note,
        **tls,
        **({} if log_in is None else log_in.settings(is_encrypted=config.tls is not None)),
        **own,
        **more,
    }


def _note(error: KafkaError) -> None:
    """Errors of single connections: librdkafka tries again, and ends with one that is reported."""
    log.debug("%s", error)


def error_of(error: KafkaError | KafkaException, what: str) -> errors.KafkaesqueError:
    """Return the client's error for one of the library's."""
    if isinstance(error, KafkaException):
        found = error.args[0]
        if not isinstance(found, KafkaError):
            return errors.InvalidArgument(f"{what}: {found}")
        error = found
    text = f"{what}: {error.str()} ({error.name()})"
    kind = _KINDS.get(error.code())
    return errors.RequestRefused(text, error.code()) if kind is None else kind(text)
