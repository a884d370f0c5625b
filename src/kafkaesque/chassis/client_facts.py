"""What a client has subscribed to, and its will, as its connection tells the admin port."""

from typing import NamedTuple


class SubscribedName(NamedTuple):
    """One subscription, in the client's own words."""

    name: str
    #: The quality of service that was granted; None: the protocol has none.
    qos: int | None = None
    #: Whom it is shared with; empty: nobody.
    group: str = ""
    #: The queue that its messages come from; empty: they come live.
    queue: str = ""


class WillFact(NamedTuple):
    """What is published when the client is gone without a farewell."""

    name: str
    qos: int
    is_retained: bool
    #: So long it is waited for the client to come back.
    delay_s: int
    body: bytes


class ClientFacts(NamedTuple):
    """What one connection says of its client."""

    #: How many subscriptions there are, and some of them.
    total: int
    subscriptions: tuple[SubscribedName, ...] = ()
    will: WillFact | None = None
    #: Where queues are that it has.
    vhost: str = ""
    #: Queues that keep what is for the client when it is not connected.
    queues: tuple[str, ...] = ()
