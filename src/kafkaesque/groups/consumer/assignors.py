"""Who is to have which partitions: pure functions, by the names that clients choose them by.

An assignor gets every member with its subscription, its rack and what it was to have until now, and
every topic that somebody subscribes to. It gives every partition of a subscribed topic to exactly
one member that subscribes to it. The same input gives the same output.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, Topic
from kafkaesque.model.ids import TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member, as an assignor sees it."""

    #: Topics that it wants and that exist.
    topic_ids: frozenset[TopicId]
    rack_id: str | None = None
    #: Stays the same across restarts, which the member's id does not.
    instance_id: str | None = None
    #: What it was to have until now.
    previous: Partitions = NO_PARTITIONS


#: Members by id, topics by id; every member is in the result.
Assignor = Callable[[Mapping[str, Subscriber], Mapping[TopicId, Topic]], dict[str, Partitions]]
