"""Which logs are compacted, as a broker's data directory says, offline."""

from kafkaesque.broker.controller.metadata_store import load_snapshot
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import (
    QueueCreated,
    TopicConfigChanged,
    TopicCreated,
    read_metadata_record,
)
from kafkaesque.broker.metadata.topic_names import METADATA_TOPIC
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import decode_batch
from kafkaesque.storage.offline import DumpedBatch, dump_segment

#: What one batch may take when it is decompressed.
DECOMPRESSED_BYTES_MAX = 1 << 30


def compacted_topics(disk: Disk) -> set[TopicId]:
    """Return the topics that were compacted at any time that the controller's log tells of.

    Queues' logs are among them: each replica cleans its own.
    A broker's own default for all topics is not in that log, and is not known here.
    """
    found: set[TopicId] = set()
    directory = f"{METADATA_TOPIC}-0"
    try:
        stored = load_snapshot(disk)
        if stored is not None:
            state = ClusterState.read_snapshot(stored[0])
            for topic in state.topics.values():
                _note(found, topic.topic_id, topic.configs)
            found.update(state.queues_by_log)
        for name in disk.list_dir(directory):
            if name.endswith(".log"):
                for item in dump_segment(disk, f"{directory}/{name}"):
                    if isinstance(item, DumpedBatch):
                        _note_batch(found, item.data)
    except KafkaesqueError:
        pass  # What is damaged is told about by `verify`; what was read before it counts.
    return found


def _note_batch(found: set[TopicId], data: bytes) -> None:
    for record in decode_batch(data, DECOMPRESSED_BYTES_MAX):
        change = read_metadata_record(record.value or b"")
        if isinstance(change, TopicCreated | TopicConfigChanged):
            _note(found, TopicId(change.topic_id), change.configs)
        elif isinstance(change, QueueCreated):
            found.add(TopicId(change.log_id))


def _note(found: set[TopicId], topic_id: TopicId, configs: dict[str, str]) -> None:
    if "compact" in configs.get("cleanup.policy", ""):
        found.add(topic_id)
