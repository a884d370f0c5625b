"""What the handlers of one broker's Kafka ports share."""

from collections.abc import Iterable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.quotas import Quotas
from kafkaesque.gateway.kafka.fetch_sessions import FetchSessions
from kafkaesque.gateway.kafka.metadata_cache import MetadataCache
from kafkaesque.gateway.kafka.share_sessions import ShareSessions
from kafkaesque.gateway.kafka.topic_creator import TopicCreator
from kafkaesque.protocols.kafka.api import ADVERTISED, SUPPORTED, VersionRange


class Context:
    """The broker's doors, and what is kept from one request to the next."""

    __slots__ = (
        "advertised",
        "clock",
        "doors",
        "metadata_cache",
        "quotas",
        "sessions",
        "share_sessions",
        "supported",
        "tokens_under_way",
        "topic_creator",
    )

    def __init__(self, doors: Doors, quotas: Quotas, handled: Iterable[int]) -> None:
        """`handled` are the keys of the APIs that have a handler."""
        self.doors: Final = doors
        self.clock: Final = doors.clock
        self.quotas: Final = quotas
        self.sessions: Final = FetchSessions(
            doors.dice,
            lambda: int(doors.configuration.get("max.incremental.fetch.session.cache.slots")),
        )
        self.share_sessions: Final = ShareSessions()
        self.metadata_cache: Final = MetadataCache()
        self.topic_creator: Final = TopicCreator(doors)
        #: Ids of the delegation tokens that are being made.
        self.tokens_under_way: Final[set[str]] = set()
        keys = set(handled)
        self.supported: Final[Mapping[int, VersionRange]] = _only(SUPPORTED, keys)
        self.advertised: Final[Mapping[int, VersionRange]] = _only(ADVERTISED, keys)


def _only(versions: Mapping[int, VersionRange], keys: set[int]) -> dict[int, VersionRange]:
    return {key: each for key, each in versions.items() if key in keys}
