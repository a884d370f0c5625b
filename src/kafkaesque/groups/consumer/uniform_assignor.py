"""The assignor "uniform": everybody has as many partitions as everybody else, and keeps its own.

Where all subscribe to the same topics, the sizes of two members differ by one at most, and nothing
moves that need not: a member that has too much gives up only that, and what is free goes to those
who have too little. Where subscriptions differ, partitions go to the subscriber that has fewest,
and then from one that has more to one that has fewer until no single move makes two more equal.

Racks come after both: of what moves anyway, a partition goes to a member in a rack that has a
replica of it where there is one with room, and a member that has to give something up gives what is
far away first.

It runs on the broker's loop: what it does is proportional to members, partitions and subscriptions
(with a logarithm), and where more could be evened out for ever so little, it stops at a bound.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

from kafkaesque.groups.consumer.assignors import Subscriber, subscribers_by_topic
from kafkaesque.groups.consumer.topics import Partitions, Topic, TopicIdPartition
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicId

#: Of one topic, what each member holds.
_Holdings = dict[str, set[TopicIdPartition]]
#: Whether it was its holder's before, whether it is near to its holder, and it: the least first.
_Rank = tuple[bool, bool, TopicIdPartition]

#: How many members that have equally much are looked at for one that is near.
_EQUALS_MAX: Final = 16
#: Where subscriptions differ: moves, and members looked at for one, after which nothing more is
#: evened out. What is left to be gained is a little for few, as a chain of members may pass on one
#: partition at a time from each to the next; the next target goes on with it.
_EVENING_WORK_MAX: Final = 200_000


def assign_uniformly(
    members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[str, Partitions]:
    """Assign evenly and with as little movement as may be."""
    if not members:
        return {}
    subscriptions = {member.topic_ids for member in members.values()}
    pool = _Pool(members, topics)
    if len(subscriptions) == 1:
        _assign_to_equals(pool)
    else:
        _assign_to_unequals(pool)
    return {member_id: frozenset(held) for member_id, held in pool.held.items()}


class _Pool:
    """Who holds what while it is being decided, and what nobody holds."""

    __slots__ = ("free", "held", "members", "subscribers", "topics")

    def __init__(self, members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]) -> None:
        self.members = members
        self.topics = topics
        #: topic -> its subscribers, in order
        self.subscribers = subscribers_by_topic(sorted(members), members, topics)
        #: An ordered set: what it begins with decides nothing but the order.
        self.free = dict.fromkeys(
            each
            for topic_id in sorted(self.subscribers, key=lambda each: topics[each].name)
            for each in topics[topic_id].partitions
        )
        self.held: dict[str, set[TopicIdPartition]] = {}
        for member_id in sorted(members):
            wanted = members[member_id].topic_ids
            kept = {
                each
                for each in members[member_id].previous
                if each.topic_id in wanted and each in self.free
            }
            self.held[member_id] = kept
            for each in kept:
                del self.free[each]

    def is_near(self, member_id: str, partition: TopicIdPartition) -> bool:
        """Whether the member is in a rack that has the partition."""
        rack_id = self.members[member_id].rack_id
        topic = self.topics[partition.topic_id]
        return rack_id is not None and rack_id in topic.racks_of(partition.partition)

    def move(self, partition: TopicIdPartition, giver: str, taker: str) -> None:
        """Let one member have what another one had."""
        self.held[giver].remove(partition)
        self.held[taker].add(partition)

    def dispensable(self, giver: str, held: Iterable[TopicIdPartition]) -> list[_Rank]:
        """Return partitions in the order in which their holder should give them up."""
        previous = self.members[giver].previous
        return sorted((each in previous, self.is_near(giver, each), each) for each in held)


class _Surplus:
    """What one member may give up of a topic, the most dispensable first; each is taken once."""

    __slots__ = ("_by_rack", "_ranked", "_taken")

    def __init__(self, pool: _Pool, giver: str, held: Iterable[TopicIdPartition]) -> None:
        #: The most dispensable one last, where it is taken from.
        self._ranked = pool.dispensable(giver, held)[::-1]
        self._by_rack: dict[str, list[_Rank]] = {}
        self._taken: set[_Rank] = set()
        for rank in self._ranked:
            each = rank[-1]
            for rack_id in pool.topics[each.topic_id].racks_of(each.partition):
                self._by_rack.setdefault(rack_id, []).append(rank)

    def take(self, rack_id: str | None) -> TopicIdPartition:
        """Take one; of those that are equally dispensable one that is in the rack, if any is."""
        chosen = self._next(self._ranked)
        if chosen is None:
            raise InvariantBroken("a member is to give up what it does not have")
        nearest = None if rack_id is None else self._next(self._by_rack.get(rack_id, []))
        if nearest is not None and nearest[:-1] == chosen[:-1]:
            chosen = nearest
        self._taken.add(chosen)
        return chosen[-1]

    def _next(self, ranked: list[_Rank]) -> _Rank | None:
        while ranked and ranked[-1] in self._taken:
            ranked.pop()
        return ranked[-1] if ranked else None


# -- all subscribe to the same


def _assign_to_equals(pool: _Pool) -> None:
    total = len(pool.free) + sum(map(len, pool.held.values()))
    quota, extra = divmod(total, len(pool.held))
    room: dict[str, int] = {}
    # Those who have most are the ones with one more: so least has to move.
    for member_id in sorted(pool.held, key=lambda each: (-len(pool.held[each]), each)):
        held = pool.held[member_id]
        size = quota + (extra > 0)
        extra -= extra > 0
        surplus = len(held) - size
        if surplus > 0:
            for _, _, each in pool.dispensable(member_id, held)[:surplus]:
                held.remove(each)
                pool.free[each] = None
        room[member_id] = max(-surplus, 0)
    _fill_near(pool, room)
    _fill(pool, room)


def _fill_near(pool: _Pool, room: dict[str, int]) -> None:
    """Give free partitions to members in their racks, as far as there is room."""
    by_rack: dict[str, deque[str]] = {}
    for member_id, left in room.items():
        rack_id = pool.members[member_id].rack_id
        if left and rack_id is not None:
            by_rack.setdefault(rack_id, deque()).append(member_id)
    if not by_rack:
        return
    for partition in list(pool.free):
        racks = pool.topics[partition.topic_id].racks_of(partition.partition)
        # Whichever of the racks has most who still wait.
        queues = [by_rack[each] for each in sorted(racks) if by_rack.get(each)]
        if queues:
            _give(pool, room, max(queues, key=len), partition)


def _fill(pool: _Pool, room: dict[str, int]) -> None:
    """Give what is free to whoever has room, in turn."""
    queue = deque(member_id for member_id, left in room.items() if left)
    for partition in list(pool.free):
        _give(pool, room, queue, partition)


def _give(
    pool: _Pool, room: dict[str, int], queue: deque[str], partition: TopicIdPartition
) -> None:
    """Give a partition to the first in the queue, who goes to its end or leaves it full."""
    member_id = queue.popleft()
    pool.held[member_id].add(partition)
    del pool.free[partition]
    room[member_id] -= 1
    if room[member_id]:
        queue.append(member_id)


# -- subscriptions differ


def _assign_to_unequals(pool: _Pool) -> None:
    # Topics that few want come first: the others can then make up for the difference.
    order = sorted(
        pool.subscribers, key=lambda each: (len(pool.subscribers[each]), pool.topics[each].name)
    )
    free: dict[TopicId, list[TopicIdPartition]] = {}
    for each in pool.free:
        free.setdefault(each.topic_id, []).append(each)
    pool.free.clear()
    for topic_id in order:
        _give_to_least_loaded(pool, topic_id, free.get(topic_id, []))
    holdings: dict[TopicId, _Holdings] = {topic_id: {} for topic_id in order}
    for member_id, held in pool.held.items():
        for each in held:
            holdings[each.topic_id].setdefault(member_id, set()).add(each)
    # What the members of one topic give one another may let those of another topic do so, too.
    work_left = _EVENING_WORK_MAX
    has_moved = True
    while has_moved and work_left > 0:
        has_moved = False
        for topic_id in order:
            moves = _even_out(pool, topic_id, holdings[topic_id])
            work_left -= len(pool.subscribers[topic_id]) + moves
            has_moved |= moves > 0


def _give_to_least_loaded(
    pool: _Pool, topic_id: TopicId, partitions: list[TopicIdPartition]
) -> None:
    heap = [(len(pool.held[each]), each) for each in pool.subscribers[topic_id]]
    heapify(heap)
    looked_at_max = _EQUALS_MAX if pool.topics[topic_id].racks else 1
    for partition in partitions:
        # Among those who have equally few, one that is near.
        equals = [heappop(heap)]
        while heap and heap[0][0] == equals[0][0] and len(equals) < looked_at_max:
            equals.append(heappop(heap))
        chosen = next((each for each in equals if pool.is_near(each[1], partition)), equals[0])
        equals.remove(chosen)
        size, member_id = chosen
        pool.held[member_id].add(partition)
        for each in (*equals, (size + 1, member_id)):
            heappush(heap, each)


def _even_out(pool: _Pool, topic_id: TopicId, holdings: _Holdings) -> int:
    """Move a topic's partitions from those who hold most to those who hold least; say how many.

    Whoever has given has at no time least, and whoever has been given at no time most: so what a
    giver can give is ranked once.
    """
    takers = [(len(pool.held[each]), each) for each in pool.subscribers[topic_id]]
    givers = [(-len(pool.held[each]), each) for each in holdings]
    heapify(takers)
    heapify(givers)
    surpluses: dict[str, _Surplus] = {}
    moves = 0
    while givers:
        size, giver = heappop(givers)
        if not holdings[giver] or -size != len(pool.held[giver]):
            continue
        while takers[0][0] != len(pool.held[takers[0][1]]):
            heappop(takers)
        taker = takers[0][1]
        if len(pool.held[giver]) - len(pool.held[taker]) < 2:
            break
        if giver not in surpluses:
            surpluses[giver] = _Surplus(pool, giver, holdings[giver])
        partition = surpluses[giver].take(pool.members[taker].rack_id)
        pool.move(partition, giver, taker)
        holdings[giver].remove(partition)
        holdings.setdefault(taker, set()).add(partition)
        for each in (giver, taker):
            heappush(takers, (len(pool.held[each]), each))
            heappush(givers, (-len(pool.held[each]), each))
        moves += 1
    return moves
