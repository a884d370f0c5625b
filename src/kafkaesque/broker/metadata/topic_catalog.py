"""The cluster's topics as group coordinators want them: with partition counts and racks."""

from kafkaesque.broker.metadata.cluster_state import ClusterState, TopicState
from kafkaesque.broker.metadata.topic_views import all_readable
from kafkaesque.groups.consumer.topics import Topic, TopicCatalog
from kafkaesque.model.ids import NodeId


class TopicCatalogSource:
    """Makes a catalog when the metadata has changed and somebody wants to know.

    As long as nothing has changed that matters to groups it is the same object, so that they see
    at a glance that there is nothing to do.
    """

    def __init__(self) -> None:
        self._catalog = TopicCatalog()
        self._racks: dict[NodeId, str] = {}
        #: What the catalog was made of.
        self._state: ClusterState | None = None
        self._version = -1

    def current(self, state: ClusterState) -> TopicCatalog:
        """Return the catalog of the metadata as it is now."""
        if self._state is state and self._version == state.version:
            return self._catalog
        self._state, self._version = state, state.version
        racks = {
            node: broker.rack for node, broker in state.brokers.items() if broker.rack is not None
        }
        known = self._catalog.by_name if racks == self._racks else {}
        self._racks = racks
        topics = [self._topic(topic, known.get(topic.name)) for topic in all_readable(state)]
        is_same = len(topics) == len(known) and all(
            known.get(topic.name) is topic for topic in topics
        )
        if not is_same:
            self._catalog = TopicCatalog(topics)
        return self._catalog

    def _topic(self, topic: TopicState, known: Topic | None) -> Topic:
        count = len(topic.partitions)
        if (
            known is not None
            and known.topic_id == topic.topic_id
            and known.partition_count == count
        ):
            return known
        return Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_count=count,
            racks=self._racks_of(topic),
            is_internal=topic.is_internal,
        )

    def _racks_of(self, topic: TopicState) -> tuple[frozenset[str], ...]:
        racks = self._racks
        if not racks:
            return ()
        # Partitions on the same brokers share a set: there are few ways to choose brokers.
        sets: dict[tuple[NodeId, ...], frozenset[str]] = {}
        found = []
        for each in topic.partitions:
            if each.replicas not in sets:
                sets[each.replicas] = frozenset(
                    racks[node] for node in each.replicas if node in racks
                )
            found.append(sets[each.replicas])
        return tuple(found)
