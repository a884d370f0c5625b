"""How far from now the times may be that producers give to records.

See `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`; where brokers give the
times, neither counts.
"""

from collections.abc import Callable

from kafkaesque.broker.options.topic_config import TopicConfig
from kafkaesque.model.options import INT64_MAX
from kafkaesque.model.record_errors import InvalidTimestamp


class RecordTimes:
    """The bounds of one partition; they are the same for as long as its options are."""

    __slots__ = ("_wall_ms", "latest_ms_max")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        #: Up to this time no record is too far in the future, so that nobody has to look at the
        #: clock for each batch.
        self.latest_ms_max = 0

    def forget(self) -> None:
        """The options have changed."""
        self.latest_ms_max = 0

    def earliest_ms(self, config: TopicConfig) -> int | None:
        """Return before what time no record may be, if that is limited."""
        if config.timestamp_before_max_ms == INT64_MAX or config.append_time:
            return None
        return self._wall_ms() - config.timestamp_before_max_ms

    def check_latest(self, latest_ms: int, config: TopicConfig) -> None:
        """Refuse a time that is too far in the future; needed for what is after `latest_ms_max`.

        Raises:
            InvalidTimestamp: it is.
        """
        if config.append_time:
            self.latest_ms_max = INT64_MAX
            return
        self.latest_ms_max = self._wall_ms() + config.timestamp_after_max_ms
        if latest_ms > self.latest_ms_max:
            raise InvalidTimestamp(
                f"a record has the timestamp {latest_ms}, which is further in the future than "
                "message.timestamp.after.max.ms allows"
            )
