"""How long the index of names takes to match, and what a filter takes in memory.

    .venv/bin/python -m bench.name_index [filters] [names]

A million filters (or so many as are asked for) of 4, 64 and more shapes, each said by a subscriber
of its own, and 20,000 names of which about a third match something. Nothing comes from the cache;
what the cache gives is measured apart. Memory is what Python's allocator and the C library hold for
the index, without the filters' texts, which are counted as Python counts a text. Each row has a
process of its own, because memory that another one has freed would be counted wrongly.

The last rows are of filters that are meant to be slow: nearly all match, each in its own way. There
are fewer of them.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import AMQP, MQTT, NameFilter, NameKey

FILTERS = 1_000_000
NAMES = 20_000
LEVELS = 8
#: Each name is looked up so often, and the shortest time counts: the machine has other work.
TRIES = 3
#: What the four shapes are, as nearly all clients have them.
FOUR = ("s/{}/{}/+", "s/{}/+/{}", "s/{}/{}/#", "+/s/{}/{}")


def four_shapes(count: int) -> list[NameFilter]:
    """Return filters of the four shapes."""
    return [
        MQTT.read_filter(FOUR[number % 4].format(f"site{number % 1000}", f"device{number}"))
        for number in range(count)
    ]


def four_names(count: int, filters: int, chance: random.Random) -> list[NameKey]:
    """Return names of which a third match."""
    found = []
    for number in range(count):
        device = chance.randrange(filters)
        first = "s" if number % 3 else "t"
        found.append(MQTT.key_of(f"{first}/site{device % 1000}/device{device}/x"))
    return found


def many_shapes(
    count: int, shapes: int, chance: random.Random, words: int, beginning: str = ""
) -> list[NameFilter]:
    """Return filters of that many shapes, all of which could match a name of so many levels."""
    known = [
        (length, mask, end)
        for length in range(LEVELS - 3, LEVELS + 1)
        for end in ((), ("#",))
        if length == LEVELS or end
        for mask in range(1 << length)
        # Two words at least: what matches nearly everything is another matter.
        if mask.bit_count() <= length - 2
    ]
    known = chance.sample(known, min(shapes, len(known)))
    found = []
    for number in range(count):
        length, mask, end = known[number % len(known)]
        levels = ["+" if mask >> at & 1 else f"w{chance.randrange(words)}" for at in range(length)]
        found.append(MQTT.read_filter(beginning + "/".join((*levels, *end))))
    return found


def hostile(count: int, last: str) -> Iterator[NameFilter]:
    """Yield filters of which each has other wildcards, and the same words or `last` at the end."""
    for number in range(count):
        levels = ("+" if number >> at & 1 else "a" for at in range(count.bit_length()))
        yield MQTT.read_filter("/".join((*levels, last.format(number))))


def inner_many(count: int, chance: random.Random, words: int) -> Iterator[NameFilter]:
    """Yield AMQP's filters with `#` between levels, twice in some."""
    for number in range(count):
        one, two, three = (f"w{chance.randrange(words)}" for _ in range(3))
        text = f"{one}.#.{two}.#.{three}" if number % 8 == 0 else f"{one}.{two}.#.{three}"
        yield AMQP.read_filter(text)


def many_names(
    count: int, chance: random.Random, words: int, beginning: str = ""
) -> Iterator[NameKey]:
    """Yield names of the length that the shapes have."""
    for _ in range(count):
        levels = "/".join(f"w{chance.randrange(words)}" for _ in range(LEVELS))
        yield MQTT.key_of(beginning + levels)


def resident_bytes() -> int:
    """Return what the process has in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measure(title: str, filters: list[NameFilter], keys: list[NameKey]) -> None:
    """Print what the index takes and needs for these filters and names."""
    gc.freeze()
    before = resident_bytes()
    index = NameIndex()
    begun = time.perf_counter()
    for number, name_filter in enumerate(filters):
        index.add(name_filter, number)
    built_s = time.perf_counter() - begun
    used = resident_bytes() - before
    texts = sum(sys.getsizeof(text) for text in index.texts())
    times = []
    matched = 0
    for key in keys:
        taken_ns = []
        for _ in range(TRIES):
            begun_ns = time.perf_counter_ns()
            found = index.find(key)
            taken_ns.append(time.perf_counter_ns() - begun_ns)
        times.append(min(taken_ns))
        matched += bool(found)
    changed_us = churn(index, filters)
    times.sort()
    again = keys[:1000]
    for key in again:
        index.match(key)
    begun_ns = time.perf_counter_ns()
    for key in again:
        index.match(key)
    hit_ns = (time.perf_counter_ns() - begun_ns) / len(again)
    p50, p99 = (times[int(len(times) * part)] / 1000 for part in (0.5, 0.99))
    per_filter = (used - texts) / len(index)
    print(
        f"{title:24} {len(index):9,} filters  {per_filter:6.0f} B each beside the text"
        f" ({texts / len(index):.0f} B)  add {built_s / len(filters) * 1e6:5.1f} us"
        f"  remove and add {changed_us:5.1f} us"
        f"  match p50 {p50:6.2f} us  p99 {p99:6.2f} us  cached {hit_ns / 1000:.2f} us"
        f"  {matched / len(keys):4.0%} match",
        flush=True,
    )


def churn(index: NameIndex, filters: list[NameFilter]) -> float:
    """Return what it takes to remove a filter and to add it again, in microseconds."""
    changed = list(enumerate(filters))[:: max(1, len(filters) // 5000)]
    begun = time.perf_counter()
    for number, name_filter in changed:
        index.remove(name_filter, number)
        index.add(name_filter, number)
    return (time.perf_counter() - begun) / len(changed) * 1e6


def row(title: str, count: int, names: int) -> None:
    """Measure one row."""
    chance = random.Random(1)
    match title.split():
        case ["4", "shapes"]:
            measure(title, four_shapes(count), four_names(names, count, chance))
        case [shapes, "shapes"]:
            filters = many_shapes(count, int(shapes), chance, 1000)
            measure(title, filters, list(many_names(names, chance, 1000)))
        case [shapes, "below", "one", "name"]:
            beginning = "company/site/"
            filters = many_shapes(count, int(shapes), chance, 1000, beginning)
            measure(title, filters, list(many_names(names, chance, 1000, beginning)))
        case ["#", *_]:
            filters = list(inner_many(count, chance, 100))
            measure(title, filters, list(many_names(names, chance, 100)))
        case [few, "hostile", *which]:
            last = "z" if which == ["alike"] else "z{}"
            filters = list(hostile(int(few), last))
            name = "a/" * int(few).bit_length() + "y"
            measure(title, filters, [MQTT.key_of(name)] * 5)


ROWS = (
    "4 shapes",
    "64 shapes",
    "200 shapes",
    "767 shapes",
    "767 below one name",
    "# between levels",
    "1000 hostile",
    "1000 hostile alike",
    "10000 hostile",
    "10000 hostile alike",
    "100000 hostile",
    "100000 hostile alike",
)


def main(arguments: list[str]) -> None:
    """Measure one after the other."""
    count = int(arguments[0]) if arguments else FILTERS
    names = int(arguments[1]) if len(arguments) > 1 else NAMES
    for title in ROWS:
        process = get_context("spawn").Process(target=row, args=(title, count, names))
        process.start()
        process.join()


if __name__ == "__main__":
    main(sys.argv[1:])
