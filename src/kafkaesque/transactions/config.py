"""The coordinator's options and bounds."""

from dataclasses import dataclass, fields

from kafkaesque.model.errors import ConfigError

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Options of one coordinator; Apache Kafka's option name is given where it has one.

    Raises:
        ConfigError: a value is out of range.
    """

    #: transaction.max.timeout.ms
    transaction_timeout_ms_max: int = 15 * _MINUTE_MS
    #: transactional.id.expiration.ms
    transactional_id_expiration_ms: int = 7 * 24 * _HOUR_MS
    #: transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_check_interval_ms: int = _HOUR_MS
    #: A client is told to try again when its record or producer id takes longer.
    write_timeout_ms: int = 5_000
    #: What is to be added waits so long for its id to be free; then it is told to come again.
    addition_wait_ms: int = 500
    #: What the coordinator itself wants written is tried again after this.
    retry_backoff_ms: int = 100

    #: Transactional ids in one partition of the transaction log.
    transactional_ids_max: int = 100_000
    #: A transactional id in UTF-8; a record's string can be no longer.
    id_bytes_max: int = 32_767
    #: Partitions of one transaction.
    partitions_max: int = 10_000
    #: What one transaction takes in the log, where each change writes all of it.
    value_bytes_max: int = 900_000
    #: Transactions in one AddPartitions, and ids in one Describe.
    transactions_per_request_max: int = 10_000
    #: Writes and producer ids that are waited for; one more is refused.
    writes_in_flight_max: int = 10_000
    #: Ids that one write forgets at most.
    records_per_write_max: int = 1_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 1 <= value <= (2**53 if field.name.endswith("_ms") else _INT32_MAX):
                raise ConfigError(f"{field.name}={value} must be from 1 up to 2^31-1")
        if self.transaction_timeout_ms_max > _INT32_MAX:
            raise ConfigError(
                f"transaction_timeout_ms_max={self.transaction_timeout_ms_max} must be at most "
                "2^31-1 to fit into a record"
            )
        if self.id_bytes_max > 32_767:
            raise ConfigError(
                f"id_bytes_max={self.id_bytes_max} must be at most 32767 to fit into a record"
            )
