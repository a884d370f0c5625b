"""The options in force on a broker, and what its file says."""

from collections.abc import Callable

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata_follower import MetadataFollower
from kafkaesque.model.options import OptionValue


class Configuration:
    """Options change while a broker runs: ask each time."""

    __slots__ = ("_follower", "file", "get", "live")

    def __init__(
        self, *, config: BrokerConfig, options: LiveOptions, follower: MetadataFollower
    ) -> None:
        #: What the broker was started with.
        self.file = config
        #: All options in force, and which of them were set while brokers run.
        self.live = options
        #: Returns the option in force: dynamic for this broker, for all, static, default.
        self.get: Callable[[str], OptionValue] = options.get
        self._follower = follower

    def on_quotas_changed(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, too, whenever client quotas have changed in the metadata."""
        before = self._follower.on_quotas_changed

        def tell_all() -> None:
            before()
            callback()

        self._follower.on_quotas_changed = tell_all
