"""Where messages of an encrypted queue may go: never where they would be in the clear (ADR 32)."""

from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState, TopicState
from kafkaesque.broker.options.encryption import is_encrypted


def is_sealed(state: ClusterState, holder: TopicState) -> bool:
    """Tell whether new messages of a queue or topic are sealed; of a cursor, those of its topic."""
    if isinstance(holder, QueueState) and holder.source is not None:
        source = state.topics_by_id.get(holder.source)
        return source is not None and is_encrypted(source.configs)
    return is_encrypted(holder.configs)


def may_go(state: ClusterState, source: TopicState, target: TopicState) -> bool:
    """Tell whether messages may be moved from a queue to another queue or topic."""
    return not is_sealed(state, source) or is_sealed(state, target)
