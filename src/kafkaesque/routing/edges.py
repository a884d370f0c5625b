"""A tree of filters in one dict: slower and larger than the index by shapes, for all that has none.

Theory of operation. Each edge leads from a node by a level to another node; all edges are in one
dict, whose keys are a node's number and a word's. A name is matched by walking all nodes that can
be reached at a time, level by level. A node is in that set once however many ways lead to it, so
the work is bounded by the levels times the nodes, and several wildcards for many levels cannot
multiply it.
"""

from array import array

from kafkaesque.routing.names import MANY, ONE, FilterLevels
from kafkaesque.routing.subscribers import Subscribers, with_one, without

_WORD_BITS = 32
_ONE_WORD = 0
_MANY_WORD = 1
#: Numbers of words that stand for themselves begin here.
_FIRST_WORD = 2

#: What a node has besides edges by words.
_HAS_ONE = 1
_HAS_MANY = 2
#: The node is reached by a wildcard for many levels, and stays reached.
_STAYS = 4

_ROOT = 0
_ROOT_BESIDE_DOLLAR = 1


class Edges:
    """Filters in canonical levels, and who has said each."""

    __slots__ = ("_edges", "_flags", "_free", "_next_word", "_subscribers", "_uses", "_words")

    def __init__(self) -> None:
        #: node << 32 | word -> node
        self._edges: dict[int, int] = {}
        #: word -> [its number, how many edges have it]
        self._words: dict[str, list[int]] = {}
        self._subscribers: dict[int, Subscribers] = {}
        self._flags = bytearray((0, 0))
        #: How many edges and ends of filters a node has.
        self._uses = array("I", (1, 1))
        self._free: list[int] = []
        #: Numbers are not used twice.
        self._next_word = _FIRST_WORD

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    @property
    def edge_count(self) -> int:
        """How many edges there are."""
        return len(self._edges)

    def add(self, levels: FilterLevels, skips_dollar: bool, subscriber: int) -> bool:
        """Add a subscriber; say whether it is new to this filter."""
        node = _ROOT_BESIDE_DOLLAR if skips_dollar else _ROOT
        for level in levels:
            node = self._child(node, level)
        before = self._subscribers.get(node)
        after = with_one(before, subscriber)
        if after is None:
            return False
        if before is None:
            self._uses[node] += 1
        self._subscribers[node] = after
        return True

    def has(self, levels: FilterLevels, skips_dollar: bool) -> bool:
        """Tell whether a filter has any subscribers here."""
        return self._way(levels, skips_dollar)[-1] in self._subscribers

    def remove(self, levels: FilterLevels, skips_dollar: bool, subscriber: int) -> bool:
        """Remove a subscriber; say whether it was there."""
        way = self._way(levels, skips_dollar)
        before = self._subscribers.get(way[-1])
        if before is None:
            return False
        was_there, after = without(before, subscriber)
        if after is not None:
            self._subscribers[way[-1]] = after
            return was_there
        del self._subscribers[way[-1]]
        self._uses[way[-1]] -= 1
        self._prune(way, levels)
        return True

    def find(self, words: list[str], begins_with_dollar: bool) -> list[Subscribers]:
        """Return the subscribers of each filter that matches a name of these words."""
        edges, flags, known = self._edges, self._flags, self._words
        nodes = {_ROOT} if begins_with_dollar else {_ROOT, _ROOT_BESIDE_DOLLAR}
        for node in list(nodes):
            if flags[node] & _HAS_MANY:
                nodes.add(edges[node << _WORD_BITS | _MANY_WORD])
        for word in words:
            entry = known.get(word)
            number = entry[0] if entry is not None else -1
            reached = set()
            for node in nodes:
                base = node << _WORD_BITS
                flag = flags[node]
                if flag & _STAYS:
                    reached.add(node)
                if flag & _HAS_ONE:
                    reached.add(edges[base | _ONE_WORD])
                if number >= 0:
                    child = edges.get(base | number)
                    if child is not None:
                        reached.add(child)
            for node in list(reached):
                if flags[node] & _HAS_MANY:
                    reached.add(edges[node << _WORD_BITS | _MANY_WORD])
            nodes = reached
        return [self._subscribers[node] for node in nodes if node in self._subscribers]

    # -- nodes and words

    def _way(self, levels: FilterLevels, skips_dollar: bool) -> list[int]:
        """Return the nodes from the root to a filter's; ends with -1 where an edge is missing."""
        way = [_ROOT_BESIDE_DOLLAR if skips_dollar else _ROOT]
        for level in levels:
            way.append(self._edges.get(way[-1] << _WORD_BITS | self._number(level), -1))
            if way[-1] < 0:
                break
        return way

    def _number(self, level: object) -> int:
        """Return a word's number; one that no edge has, if it is not known."""
        if level is ONE:
            return _ONE_WORD
        if level is MANY:
            return _MANY_WORD
        entry = self._words.get(level) if isinstance(level, str) else None
        return self._next_word if entry is None else entry[0]

    def _child(self, node: int, level: object) -> int:
        """Return the node that an edge leads to, which is made if there is none."""
        if isinstance(level, str):
            entry = self._words.get(level)
            if entry is None:
                entry = self._words[level] = [self._next_word, 0]
                self._next_word += 1
            number = entry[0]
        else:
            entry = None
            number = self._number(level)
        key = node << _WORD_BITS | number
        child = self._edges.get(key)
        if child is not None:
            return child
        child = self._new_node()
        self._edges[key] = child
        self._uses[node] += 1
        if entry is not None:
            entry[1] += 1
        elif level is ONE:
            self._flags[node] |= _HAS_ONE
        else:
            self._flags[node] |= _HAS_MANY
            self._flags[child] |= _STAYS
        return child

    def _new_node(self) -> int:
        if self._free:
            return self._free.pop()
        self._flags.append(0)
        self._uses.append(0)
        return len(self._uses) - 1

    def _prune(self, way: list[int], levels: FilterLevels) -> None:
        """Remove what leads nowhere from the end of a way."""
        for node, parent, level in zip(
            reversed(way[1:]), reversed(way[:-1]), reversed(levels), strict=True
        ):
            if self._uses[node]:
                return
            del self._edges[parent << _WORD_BITS | self._number(level)]
            self._uses[parent] -= 1
            self._flags[node] = 0
            self._free.append(node)
            if level is ONE:
                self._flags[parent] &= ~_HAS_ONE
            elif level is MANY:
                self._flags[parent] &= ~_HAS_MANY
            elif isinstance(level, str):
                self._release(level)

    def _release(self, word: str) -> None:
        entry = self._words[word]
        entry[1] -= 1
        if not entry[1]:
            del self._words[word]
