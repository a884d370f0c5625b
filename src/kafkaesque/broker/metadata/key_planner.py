"""What the controller decides of the keys that go with a topic or a queue."""

from kafkaesque.access.records import KeyRemoved
from kafkaesque.access.sealed import topic_key_name
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import AccessChanged
from kafkaesque.model.ids import TopicId


def keys_that_end_with(state: ClusterState, topic_id: TopicId) -> list[AccessChanged]:
    """Return the records that remove the keys of a topic, or of a queue's log."""
    key_name = topic_key_name(topic_id)
    return [
        AccessChanged(change=KeyRemoved(name=name, version=version))
        for name, version in state.access.keys
        if name == key_name
    ]
