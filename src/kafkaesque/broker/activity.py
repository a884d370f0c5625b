"""What a broker has done since its start, in plain numbers: for `/metrics`, and for nobody else.

Whoever does the work adds to them, gateways as well; nothing is read, locked or allocated for it.
"""

from kafkaesque.broker.tracer import Tracer
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.histogram import Histogram
from kafkaesque.model.ids import TopicPartition


class Activity:
    """Counters of one broker; they only grow, but for those that say otherwise."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "client_drops",
        "commit_latency",
        "elections_begun",
        "elections_won",
        "fetch_errors",
        "in_sync_expands",
        "in_sync_shrinks",
        "leaderships_lost",
        "messages_in",
        "produce_errors",
        "requests",
        "tracer",
        "truncations",
    )

    def __init__(self) -> None:
        #: Records appended by clients, and the bytes of their batches, on the leader.
        self.messages_in = 0
        self.bytes_in = 0
        #: Bytes of batches that Fetch has given to clients.
        self.bytes_out = 0
        #: By protocol: messages that clients wanted and were not given, as they did not read or
        #: could not take them.
        self.client_drops: dict[str, int] = {}
        #: By API key: from the whole request to its whole answer.
        self.requests: dict[int, Histogram] = {}
        #: By error code of the protocol.
        self.produce_errors: dict[int, int] = {}
        self.fetch_errors: dict[int, int] = {}
        #: Of all groups, the controllers' included.
        self.elections_begun = 0
        self.elections_won = 0
        self.leaderships_lost = 0
        self.in_sync_shrinks = 0
        self.in_sync_expands = 0
        self.truncations = 0
        #: From an append on the leader until it is committed; one at a time in each group.
        self.commit_latency = Histogram()
        #: Told of messages that belong to a trace; None: nobody asks for traces.
        self.tracer: Tracer | None = None

    def note_append(
        self,
        where: TopicPartition,
        records: bytearray | memoryview,
        batch: BatchHeader,
        base_offset: int,
    ) -> None:
        """Count a client's batch that is in the log now."""
        self.messages_in += batch.last_offset_delta + 1
        self.bytes_in += len(records)
        if self.tracer is not None:
            self.tracer.on_appended(where, records, batch, base_offset)

    def note_request(self, api_key: int, duration_ns: int) -> None:
        """Count a request that is answered."""
        latency = self.requests.get(api_key)
        if latency is None:
            latency = self.requests[api_key] = Histogram()
        latency.observe_ns(duration_ns)

    def note_client_drop(self, protocol: str) -> None:
        """Count a message that a client was not given."""
        self.client_drops[protocol] = self.client_drops.get(protocol, 0) + 1

    def note_produce_error(self, code: int) -> None:
        """Count a partition of a Produce answer that has an error."""
        self.produce_errors[code] = self.produce_errors.get(code, 0) + 1

    def note_fetch_error(self, code: int) -> None:
        """Count a partition of a Fetch answer that has an error."""
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1
