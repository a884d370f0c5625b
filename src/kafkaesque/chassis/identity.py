"""Who is connected."""

from dataclasses import dataclass

from kafkaesque.broker.metadata.client_quotas import ANONYMOUS_USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is known of a client: limits and quotas ask it, and later access does."""

    #: Without the port.
    host: str
    #: The name of the listener that it came by.
    listener: str
    user: str = ANONYMOUS_USER
