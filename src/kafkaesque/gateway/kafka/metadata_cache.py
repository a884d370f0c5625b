"""Answers to Metadata, encoded: clients ask the same again and again, and answers are large."""

from collections import OrderedDict

from kafkaesque.protocols.kafka.frames import CachedResponse

ENTRIES_MAX = 256
BYTES_MAX = 32 * 1024 * 1024
#: A request that is longer than this is not worth being remembered.
QUESTION_BYTES_MAX = 4096

#: Version, question, and what the asker may see: None for everything, else equal for those who may
#: see the same.
_Key = tuple[int, bytes, object]


class MetadataCache:
    """The latest answers; all are dropped as soon as the cluster has changed."""

    def __init__(self) -> None:
        self._entries: OrderedDict[_Key, CachedResponse] = OrderedDict()
        self._bytes = 0
        self._state: object = None
        self._as_of: tuple[object, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def refresh(self, state: object, as_of: tuple[object, ...]) -> None:
        """Forget everything unless the cluster is as it was.

        Args:
            state: the metadata; it is another object after a snapshot was loaded.
            as_of: equal as long as nothing has changed.
        """
        if state is not self._state or as_of != self._as_of:
            self._state, self._as_of = state, as_of
            self._entries.clear()
            self._bytes = 0

    def get(
        self, version: int, question: memoryview, asker: object = None
    ) -> CachedResponse | None:
        """Return the answer to the same question of such an asker, if there is one."""
        if not self._entries or len(question) > QUESTION_BYTES_MAX:
            return None
        return self._entries.get((version, bytes(question), asker))

    def put(
        self, version: int, question: memoryview, answer: CachedResponse, asker: object = None
    ) -> None:
        """Remember an answer; the oldest give way."""
        if len(question) > QUESTION_BYTES_MAX or len(answer) > BYTES_MAX:
            return
        key = (version, bytes(question), asker)
        replaced = self._entries.pop(key, None)
        self._bytes += len(answer) - (0 if replaced is None else len(replaced))
        self._entries[key] = answer
        while len(self._entries) > ENTRIES_MAX or self._bytes > BYTES_MAX:
            _, dropped = self._entries.popitem(last=False)
            self._bytes -= len(dropped)
