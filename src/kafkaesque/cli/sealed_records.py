"""Opens sealed batches offline: the keys lie wrapped in the metadata, the keeper's file unwraps."""

import os
from pathlib import Path

from kafkaesque.access.errors import KeyUnknown, SealBroken
from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.access.records import KeyPut, KeyRemoved
from kafkaesque.access.sealed import WrappedKey, topic_of_key
from kafkaesque.broker.controller.metadata_store import load_snapshot
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import AccessChanged, read_metadata_record
from kafkaesque.broker.metadata.topic_names import METADATA_TOPIC
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import ConfigError, KafkaesqueError
from kafkaesque.model.record_errors import KeyShredded, SealDamaged
from kafkaesque.model.records import decode_batch
from kafkaesque.model.sealed_batch import BatchKeys, BatchOpener
from kafkaesque.server.keeper_file import read_keeper_keys
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.offline import DumpedBatch, dump_segment

#: What one batch of metadata may take when it is decompressed.
DECOMPRESSED_BYTES_MAX = 1 << 30

_Keys = dict[tuple[str, int], WrappedKey]


class SealedRecords:
    """What was sealed in a broker's directory, as far as its metadata and a file open it."""

    def __init__(self, disk: Disk, keeper_file: Path) -> None:
        """Read all keys.

        Raises:
            CommandFailed: the file is none of a key keeper.
        """
        try:
            keeper = FileKeyKeeper(read_keeper_keys(keeper_file), os.urandom)
        except ConfigError as error:
            raise wrong_usage(str(error).replace("key.keeper.file", "--keeper-file", 1)) from None
        self._versions: dict[bytes, dict[int, bytes]] = {}
        #: Why versions are not there, for whom it concerns.
        self._reasons: dict[tuple[bytes, int], str] = {}
        for key in _wrapped_keys(disk).values():
            topic_id = topic_of_key(key.name)
            if topic_id is None:
                continue
            try:
                found = keeper.unwrap(key).reveal()
            except (KeyUnknown, SealBroken) as error:
                self._reasons[topic_id, key.version] = str(error).replace("this broker", "the file")
            else:
                self._versions.setdefault(topic_id, {})[key.version] = found

    def open(
        self, identity: LogIdentity | None, batch: DumpedBatch, version: int
    ) -> bytearray | str:
        """Return a batch in the clear, or why that is not possible."""
        if identity is None:
            return "it is not known which topic this is"
        versions = self._versions.get(identity.topic_id, {})
        keys = BatchKeys(
            topic_id=identity.topic_id, partition=identity.partition, versions=versions
        )
        try:
            return BatchOpener(keys).open(batch.data, batch.header._replace(at=0))
        except KeyShredded:
            reason = self._reasons.get((identity.topic_id, version))
            return reason or (
                f"version {version} of the key of topic {identity.topic} is not in the metadata of "
                "this directory: it was shredded, or the broker has no copy of the metadata"
            )
        except SealDamaged as error:
            return str(error)


def _wrapped_keys(disk: Disk) -> _Keys:
    found: _Keys = {}
    directory = f"{METADATA_TOPIC}-0"
    try:
        stored = load_snapshot(disk)
        begin = 0
        if stored is not None:
            found.update(ClusterState.read_snapshot(stored[0]).access.keys)
            begin = stored[1]
        for name in sorted(disk.list_dir(directory)):
            if name.endswith(".log"):
                for item in dump_segment(disk, f"{directory}/{name}"):
                    if isinstance(item, DumpedBatch):
                        _take(found, item, begin)
    except KafkaesqueError:
        pass  # What is damaged is told about by `verify`; what was read before it counts.
    return found


def _take(found: _Keys, batch: DumpedBatch, begin: int) -> None:
    for record in decode_batch(batch.data, DECOMPRESSED_BYTES_MAX):
        if record.offset < begin:
            continue
        change = read_metadata_record(record.value or b"")
        if not isinstance(change, AccessChanged):
            continue
        if isinstance(change.change, KeyPut):
            key = change.change.key
            found[key.name, key.version] = key
        elif isinstance(change.change, KeyRemoved):
            found.pop((change.change.name, change.change.version), None)
