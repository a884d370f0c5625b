"""POST `/search`: messages that fit a filter, as lines of JSON that say how far it has looked.

Theory of operation. A search goes through the partitions of a topic in turn, one question to one
leader at a time, and asks the next one only when its client has read what it was sent: a client
that is slow, or gone, costs nothing. Each question is bounded, so that no leader works for long at
a time. What a client gets at the end is where to go on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.messages import Form, Format, Message, PassedOver, SearchFilter
from kafkaesque.admin.api.numbers import Int32, Int64
from kafkaesque.admin.api.part_pages import (
    OFFSET_AT,
    PARTITIONS,
    SCAN,
    LedPartition,
    OffsetAtAnswer,
    OffsetAtQuestion,
    PartitionsAnswer,
    PartitionsQuestion,
    ScanAnswer,
    ScanQuestion,
)
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.api.values import Origin
from kafkaesque.admin.http import Outlet
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.ids import NodeId

#: Searches that one broker does at the same time.
SEARCHES_MAX: Final = 4
#: And of one user, so that others find room.
SEARCHES_PER_USER_MAX: Final = 2
MATCHES_MAX: Final = 10_000
SECONDS_MAX: Final = 120
#: Shown of the matches of one question.
ANSWER_BYTES_MAX: Final = 512 * 1024
#: Ranges that a search passes over; it ends with them as with its limit of matches.
PASSED_OVER_MAX: Final = 100
LINES: Final = "application/x-ndjson"


class SearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to search, and for how long."""

    topic: str
    #: Null: all.
    partitions: Annotated[list[Int32], msgspec.Meta(max_length=10_000)] | None = None
    filter: SearchFilter = SearchFilter()
    #: Where to begin, by partition: `positions` of the search before.
    positions: dict[str, Int64] = {}
    limit: Annotated[int, msgspec.Meta(ge=1, le=MATCHES_MAX)] = 100
    seconds: Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)] = 30
    #: How keys and values of what is found are decoded.
    key_format: Format = "auto"
    value_format: Format = "auto"


class SearchLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the answer: a match, or how far it is, or the end."""

    #: `match`, `progress` or `end`.
    kind: str
    message: Message | None = None
    #: Records that were looked at, of so many between the beginning and the logs' ends.
    records: int | None = None
    total: int | None = None
    bytes: int | None = None
    matches: int | None = None
    #: Of the end: `complete`, `limit` or `time`.
    reason: str | None = None
    #: Where to go on, by partition.
    positions: dict[str, int] | None = None
    #: Partitions that could not be looked at, with the reasons.
    missing: dict[str, str] | None = None
    #: Ranges within the others that could not be looked at: broken, or too large when decompressed.
    passed_over: list[PassedOver] | None = None


class SearchPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running = 0
        #: By user, of those who have logged in.
        self._by_user: Final[Counter[str]] = Counter()

    def search(self, call: Call[NoQuery, SearchRequest]) -> None:
        """Begin a search."""
        request = call.body
        try:
            topic = self._context.doors.cluster.state.topic(request.topic)
            Matcher(request.filter)
            _check_partitions(request, topic)
        except RequestRefused as refusal:
            call.refuse_with(refusal)
            return
        user = call.request.visitor.user or ""
        if self._running >= SEARCHES_MAX or self._by_user[user] >= SEARCHES_PER_USER_MAX:
            of_user = f", {self._by_user[user]} of them yours" if user else ""
            said = f"{self._running} searches are running here{of_user}: try again"
            call.refuse(429, "TooManySearches", said)
            return

        def begin(outlet: Outlet) -> _Search:
            # Not before: nobody begins what is for a client that has gone meanwhile.
            self._running += 1
            self._by_user[user] += 1 if user else 0
            return _Search(self, self._context, call, topic, outlet)

        call.stream(LINES, begin)

    def end_one(self, user: str) -> None:
        """A search is over."""
        self._running -= 1
        self._by_user[user] -= 1 if user else 0
        if not self._by_user[user]:
            del self._by_user[user]


def _check_partitions(request: SearchRequest, topic: TopicState) -> None:
    """Check that what is named is there: else a search would say that it is complete.

    Raises:
        InvalidRequest: it is not.
    """
    known = {str(each.partition) for each in topic.partitions}
    named = {str(each) for each in request.partitions or ()} | request.positions.keys()
    if named <= known:
        return
    raise InvalidRequest(f"topic {topic.name!r} has partitions 0 to {len(known) - 1}")


class _Search:
    """One search under way; see `Source`."""

    def __init__(
        self,
        owner: SearchPages,
        context: Context,
        call: Call[NoQuery, SearchRequest],
        topic: TopicState,
        outlet: Outlet,
    ) -> None:
        self._owner = owner
        self._user = call.request.visitor.user or ""
        self._client = call.client
        self._context = context
        self._request = request = call.body
        self._topic = topic
        self._outlet = outlet
        self._deadline_ms = context.doors.clock.now_ms() + int(request.seconds * 1000)
        #: Partitions that are not done, the next one to be asked first.
        self._left: deque[int] = deque()
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._missing: dict[int, str] = {}
        self._passed_over: list[PassedOver] = []
        self._total = 0
        self._records = 0
        self._bytes = 0
        self._matches = 0
        self._is_begun = False
        self._is_asking = False
        self._is_over = False

    # -- `Source`

    def on_room(self) -> None:
        """See `Source`."""
        if not self._is_begun:
            self._is_begun = True
            self._is_asking = True
            self._ask_ends()
        elif not self._is_asking:
            self._step()

    def on_gone(self) -> None:
        """See `Source`."""
        self._close()

    def _close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._owner.end_one(self._user)

    # -- where to look

    def _ask_ends(self) -> None:
        partitions = self._request.partitions
        wanted = None if partitions is None else set(partitions)
        leaders = self._context.doors.cluster.leaders
        by_leader: dict[NodeId, list[int]] = {}
        for each in self._topic.partitions:
            if wanted is not None and each.partition not in wanted:
                continue
            leader = leaders.leader(each.group)
            self._missing[each.partition] = "the partition has no leader at the moment"
            if leader is not None:
                by_leader.setdefault(leader, []).append(each.partition)
        questions = {
            node: PartitionsQuestion(partitions={self._topic.name: found})
            for node, found in by_leader.items()
        }

        def on_ends(gathered: Gathered[PartitionsAnswer]) -> None:
            self._take_missing(by_leader, gathered)
            led = [each for answer in gathered.answers.values() for each in answer.partitions]
            self._take_starts(deque(sorted(led, key=lambda each: each.partition)))

        self._context.fan_out.ask(PARTITIONS, questions, on_ends)

    def _take_missing(
        self, by_leader: Mapping[NodeId, list[int]], gathered: Gathered[PartitionsAnswer]
    ) -> None:
        for source in gathered.sources:
            for partition in by_leader[NodeId(source.broker)]:
                self._missing[partition] = source.missing or "it has another leader by now"

    def _take_starts(self, led: deque[LedPartition]) -> None:
        """Take the partitions; of each, where to begin: where it was left, or at a time."""
        since = self._request.filter.since
        while led:
            each = led.popleft()
            self._missing.pop(each.partition, None)
            given = self._request.positions.get(str(each.partition))
            if given is not None or since is None:
                self._take_partition(each, each.start_offset if given is None else given)
                continue
            question = OffsetAtQuestion(
                topic=self._topic.name, partition=each.partition, at_ms=since
            )

            def on_offset(answer: OffsetAtAnswer | Origin, each: LedPartition = each) -> None:
                found = answer.offset if isinstance(answer, OffsetAtAnswer) else each.start_offset
                self._take_partition(each, each.stable_offset if found is None else found)
                self._take_starts(led)

            leader = self._leader(each.partition)
            if leader is None:
                self._take_partition(each, each.start_offset)
                continue
            self._context.fan_out.ask_one(OFFSET_AT, leader, question, on_offset)
            return
        self._is_asking = False
        self._step()

    def _take_partition(self, led: LedPartition, begin: int) -> None:
        first = min(max(begin, led.start_offset), led.stable_offset)
        self._positions[led.partition] = first
        self._ends[led.partition] = led.stable_offset
        self._total += led.stable_offset - first
        if first < led.stable_offset:
            self._left.append(led.partition)

    def _leader(self, partition: int) -> NodeId | None:
        group = self._topic.partitions[partition].group
        return self._context.doors.cluster.leaders.leader(group)

    # -- looking

    def _step(self) -> None:
        """Ask the next leader, if the client has room for what comes."""
        if self._is_over or not self._outlet.has_room:
            return
        is_full = len(self._passed_over) >= PASSED_OVER_MAX
        if self._matches >= self._request.limit or is_full:
            self._end("limit")
        elif not self._left:
            self._end("complete")
        elif self._context.doors.clock.now_ms() >= self._deadline_ms:
            self._end("time")
        else:
            self._ask(self._left.popleft())

    def _ask(self, partition: int) -> None:
        leader = self._leader(partition)
        if leader is None:
            self._missing[partition] = "the partition has no leader at the moment"
            self._context.doors.clock.call_soon(self._step)
            return
        self._is_asking = True
        question = ScanQuestion(
            topic=self._topic.name,
            partition=partition,
            offset=self._positions[partition],
            until=self._ends[partition],
            filter=self._request.filter,
            form=Form(key=self._request.key_format, value=self._request.value_format),
            matches_max=self._request.limit - self._matches,
            bytes_max=ANSWER_BYTES_MAX,
            client=self._client,
        )

        def on_scanned(answer: ScanAnswer | Origin) -> None:
            self._is_asking = False
            if not self._is_over:
                self._take(partition, answer)
                self._step()

        self._context.fan_out.ask_one(SCAN, leader, question, on_scanned)

    def _take(self, partition: int, answer: ScanAnswer | Origin) -> None:
        if isinstance(answer, Origin):
            self._missing[partition] = answer.missing or "it could not be read"
            return
        self._records += answer.next - self._positions[partition]
        self._bytes += answer.bytes
        self._matches += len(answer.matches)
        self._passed_over += answer.passed_over
        is_stuck = answer.next <= self._positions[partition]
        self._positions[partition] = answer.next
        if is_stuck:
            self._missing[partition] = "it could not be read any further"
        elif answer.next < self._ends[partition]:
            self._left.append(partition)
        lines = [SearchLine(kind="match", message=each) for each in answer.matches]
        lines.append(self._line("progress"))
        self._outlet.write(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))

    def _line(self, kind: str, reason: str | None = None) -> SearchLine:
        return SearchLine(
            kind=kind,
            records=self._records,
            total=self._total,
            bytes=self._bytes,
            matches=self._matches,
            reason=reason,
            positions={str(key): value for key, value in sorted(self._positions.items())},
            missing={str(key): value for key, value in sorted(self._missing.items())} or None,
            passed_over=self._passed_over or None,
        )

    def _end(self, reason: str) -> None:
        self._outlet.write(msgspec.json.encode(self._line("end", reason)) + b"\n")
        self._close()
        self._outlet.end()
