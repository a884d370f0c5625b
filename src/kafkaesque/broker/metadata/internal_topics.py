"""What the brokers' own topics are created with."""

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_ACCESS, METADATA
from kafkaesque.broker.options.encryption import ENCRYPTION, NONE
from kafkaesque.model.options import OptionValue


def sealing_of_internal_topics(chosen: OptionValue, state: ClusterState) -> dict[str, str]:
    """Return the topic option that has batches sealed, if `internal.topics.encryption` asks for it.

    None where a broker of an earlier release may be there: it could not open them.
    """
    if chosen == NONE or state.level(METADATA) < LEVEL_WITH_ACCESS:
        return {}
    return {ENCRYPTION: str(chosen)}
