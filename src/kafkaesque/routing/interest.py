"""What subscribers of the brokers want, told in few words and confirmed (ADR 41).

Theory of operation. A broker tells the others filters, not who has said them: `OwnInterest` counts
its subscribers' filters, and keeps the set that is told at `TOLD_FILTERS_MAX` by telling beginnings
of names in place of more filters than that (`a/b/#` for all that begin with `a/b`). What is told
is so never too narrow. Each change of the set has a number, in one order for all the others.

Filters of groups, of which one subscriber gets a message, are told with the group's name and as
they are: who is chosen has to be there. There may be `GROUPED_FILTERS_MAX` of them.

A subscription is confirmed when all living brokers have confirmed the number that `add` has
returned for it. From then on the other brokers' `PeerInterest` names this broker for each message
that the subscription wants. Both are soft state: what is told begins with all of it on every new
link, and a gap in the numbers is healed in the same way.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkaesque.model.errors import InvariantBroken, OverBound
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import MANY, NameFilter, NameKey

#: Filters that one broker tells each other one.
TOLD_FILTERS_MAX: Final = 1_024
#: Filters of groups, each with its group, that one broker tells each other one.
GROUPED_FILTERS_MAX: Final = 16_384
#: Changes that are kept for brokers that lag; one that lags more is told all.
CHANGES_MAX: Final = 1_024


class Wanted(NamedTuple):
    """What some subscribers want."""

    name_filter: NameFilter
    #: The group that they share it in; empty: each of them wants all of it.
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterestNews:
    """What one broker tells another: the set has come from one number to another by this.

    From `None` it has begun: what was known before counts no longer.
    """

    since: int | None
    number: int
    added: tuple[Wanted, ...]
    removed: tuple[Wanted, ...] = ()


class OwnInterest:
    """What this broker's subscribers want, and what of it has been told."""

    __slots__ = (
        "_changes",
        "_confirmed",
        "_depth",
        "_filters",
        "_grouped",
        "_most",
        "_told",
        "_told_max",
        "number",
    )

    def __init__(self, told_max: int = TOLD_FILTERS_MAX) -> None:
        self._told_max: Final = told_max
        #: How often each filter was added.
        self._filters: dict[Wanted, int] = {}
        #: How many of them are a group's.
        self._grouped = 0
        #: What is told: the number that it came with, and how many of the filters it stands for.
        self._told: dict[Wanted, tuple[int, int]] = {}
        #: So many levels of a filter are told; None: all.
        self._depth: int | None = None
        #: The most filters that there were since all were looked at.
        self._most = 0
        self._changes: deque[InterestNews] = deque(maxlen=CHANGES_MAX)
        #: By broker: up to which number it has confirmed.
        self._confirmed: dict[int, int] = {}
        #: That of the last change.
        self.number = 0

    def add(self, name_filter: NameFilter, group: str = "") -> int:
        """A subscriber wants it; return the number that has to be confirmed for it.

        Raises:
            OverBound: there are too many filters of groups.
        """
        wanted = Wanted(name_filter, group)
        count = self._filters.get(wanted, 0)
        if group and not count:
            if self._grouped >= GROUPED_FILTERS_MAX:
                raise OverBound(f"this broker has {GROUPED_FILTERS_MAX} filters of groups already")
            self._grouped += 1
        self._filters[wanted] = count + 1
        self._most = max(self._most, len(self._filters))
        wide = _widened(wanted, self._depth)
        found = self._told.get(wide)
        if found is None:
            self._told[wide] = (self.number + 1, 1)
            self._note((wide,), ())
            if len(self._told) - self._grouped > self._told_max:
                # Of what is told at present, and not of a million filters.
                told = {each: stands_for for each, (_, stands_for) in self._told.items()}
                self._rebuild(told)
                wide = _widened(wanted, self._depth)
        elif not count:
            self._told[wide] = (found[0], found[1] + 1)
        return self._told[wide][0]

    def remove(self, name_filter: NameFilter, group: str = "") -> None:
        """A subscriber wants it no more.

        Raises:
            InvariantBroken: nobody does.
        """
        wanted = Wanted(name_filter, group)
        count = self._filters.get(wanted, 0)
        if not count:
            raise InvariantBroken("a filter was removed that nobody has added")
        if count > 1:
            self._filters[wanted] = count - 1
            return
        del self._filters[wanted]
        self._grouped -= bool(group)
        wide = _widened(wanted, self._depth)
        number, stands_for = self._told[wide]
        if stands_for > 1:
            self._told[wide] = (number, stands_for - 1)
            return
        del self._told[wide]
        self._note((), (wide,))

    def narrow(self) -> None:
        """Tell as much as there is room for; from time to time, as filters become fewer.

        All filters are looked at when they are half as many as they were, or all can be told.
        """
        count = len(self._filters)
        is_worth_it = 2 * count <= self._most or count - self._grouped <= self._told_max
        if self._depth is not None and is_worth_it:
            self._most = count
            self._rebuild(dict.fromkeys(self._filters, 1))

    def _rebuild(self, counts: Mapping[Wanted, int]) -> None:
        """Tell filters, each of which stands for so many, by as many levels as there is room for.

        They are those that subscribers want, or what stands for these by more levels.
        """
        before = self._told
        depth, wide = _widest_set(counts, self._told_max)
        self._depth = depth
        number = self.number + 1
        self._told = {each: (before.get(each, (number, 0))[0], wide[each]) for each in wide}
        added = tuple(each for each in wide if each not in before)
        removed = tuple(each for each in before if each not in wide)
        if added or removed:
            self._note(added, removed)

    def _note(self, added: tuple[Wanted, ...], removed: tuple[Wanted, ...]) -> None:
        news = InterestNews(since=self.number, number=self.number + 1, added=added, removed=removed)
        self.number += 1
        self._changes.append(news)

    # -- the other brokers

    def news_since(self, number: int | None) -> list[InterestNews]:
        """Return what a broker has to be told that knows all up to a number; None: nothing."""
        if number == self.number:
            return []
        first = self._changes[0].since if self._changes else None
        if number is None or first is None or first > number:
            return [InterestNews(since=None, number=self.number, added=tuple(self._told))]
        return [news for news in self._changes if news.since is not None and news.since >= number]

    def on_confirmed(self, broker: int, number: int) -> None:
        """A broker knows all up to a number."""
        self._confirmed[broker] = max(number, self._confirmed.get(broker, 0))

    def on_lost(self, broker: int) -> None:
        """The link to a broker is gone: what it knew, it may have forgotten."""
        self._confirmed.pop(broker, None)

    def confirmed(self, living: Iterable[int]) -> int:
        """Return up to which number all these brokers know all."""
        return min((self._confirmed.get(each, 0) for each in living), default=self.number)


class PeerInterest:
    """Which brokers want a name, as far as they have told this one."""

    __slots__ = ("_filters", "_grouped", "_index", "_numbers", "_pairs")

    def __init__(self) -> None:
        self._index = NameIndex()
        #: What groups want: its subscribers are numbers of pairs.
        self._grouped = NameIndex()
        self._pairs = _Pairs()
        self._filters: dict[int, set[Wanted]] = {}
        self._numbers: dict[int, int] = {}

    def apply(self, broker: int, news: InterestNews) -> int | None:
        """Take in what a broker tells; return the number to confirm.

        None: something is missing, and all has to be asked for. What was told before still counts.
        """
        known = self._numbers.get(broker)
        if news.since is None:
            filters = self._filters.setdefault(broker, set())
            wanted = set(news.added)
            # What is new first: a name that was wanted is never missing in between.
            self._add(broker, filters, wanted - filters)
            self._remove(broker, filters, filters - wanted)
        elif known is None or news.since > known:
            return None
        elif news.number > known:
            filters = self._filters[broker]
            self._add(broker, filters, set(news.added))
            self._remove(broker, filters, set(news.removed))
        else:
            return known
        self._numbers[broker] = news.number
        return news.number

    def knows(self, broker: int) -> bool:
        """Tell whether a broker has told what it wants."""
        return broker in self._numbers

    def forget(self, broker: int) -> None:
        """A broker is gone, and wants nothing."""
        filters = self._filters.pop(broker, set())
        self._remove(broker, filters, set(filters))
        self._numbers.pop(broker, None)

    def wanted_by(self, key: NameKey) -> Sequence[int]:
        """Return the brokers with subscribers that want a name, in ascending order."""
        return self._index.match(key)

    def groups(self, key: NameKey) -> dict[str, list[int]]:
        """Return the groups that want a name, and the brokers that have members of each."""
        found: dict[str, list[int]] = {}
        for number in self._grouped.match(key):
            broker, group = self._pairs.pair(number)
            found.setdefault(group, []).append(broker)
        return found

    def _add(self, broker: int, filters: set[Wanted], added: set[Wanted]) -> None:
        for each in added - filters:
            if each.group:
                self._grouped.add(each.name_filter, self._pairs.use(broker, each.group))
            else:
                self._index.add(each.name_filter, broker)
        filters |= added

    def _remove(self, broker: int, filters: set[Wanted], removed: set[Wanted]) -> None:
        for each in removed & filters:
            if each.group:
                self._grouped.remove(each.name_filter, self._pairs.release(broker, each.group))
            else:
                self._index.remove(each.name_filter, broker)
        filters -= removed


class _Pairs:
    """Numbers for pairs of a broker and a group, as long as they are in use."""

    __slots__ = ("_free", "_numbers", "_pairs", "_uses")

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._pairs: list[tuple[int, str]] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def pair(self, number: int) -> tuple[int, str]:
        """Return a pair in use."""
        return self._pairs[number]

    def use(self, broker: int, group: str) -> int:
        """Return a pair's number, and count one more use."""
        pair = (broker, group)
        number = self._numbers.get(pair)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._pairs[number] = pair
            else:
                number = len(self._pairs)
                self._pairs.append(pair)
                self._uses.append(0)
            self._numbers[pair] = number
        self._uses[number] += 1
        return number

    def release(self, broker: int, group: str) -> int:
        """Return a pair's number, and count one use less."""
        number = self._numbers[broker, group]
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[broker, group]
            self._free.append(number)
        return number


def _widened(wanted: Wanted, depth: int | None) -> Wanted:
    """Return a filter of so many levels that matches whatever the other one does."""
    name_filter = wanted.name_filter
    levels = name_filter.levels
    if wanted.group or depth is None or len(levels) <= depth:
        return wanted
    return Wanted(NameFilter(levels=(*levels[:depth], MANY), skips_dollar=name_filter.skips_dollar))


def _widest_set(found: Mapping[Wanted, int], told_max: int) -> tuple[int | None, dict[Wanted, int]]:
    """Return how many levels to tell, and what that is, with how many filters each stands for."""
    plain = {each: count for each, count in found.items() if not each.group}
    deepest = max((len(each.name_filter.levels) for each in plain), default=0)
    for depth in (None, *range(deepest - 1, -1, -1)):
        counts: dict[Wanted, int] = {}
        for each, count in plain.items():
            wide = _widened(each, depth)
            counts[wide] = counts.get(wide, 0) + count
            if len(counts) > told_max:
                break
        else:
            return depth, counts | {each: count for each, count in found.items() if each.group}
    raise InvariantBroken(f"{told_max} filters are too few for names with and without $")
