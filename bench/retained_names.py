"""Retained messages of ten million names: pages of what filters find, and memory.

`python -m bench.retained_names [NAMES]` takes about three gigabytes for ten million. Names are
`s/site/device/channel`, a thousand devices at each site; each has a message of 16 bytes. A filter
is asked for page after page, as a broker does for a client that subscribes, up to a hundred of
them. Between two pages a broker does other work, so what counts is how long one page takes.
"""

from __future__ import annotations

import gc
import random
import sys
import time

from bench.name_index import resident_bytes
from kafkaesque.broker.live.retained_log import PAGE_MAX
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import MQTT, NameKey
from kafkaesque.routing.retained_names import RetainedNames

NAMES = 10_000_000
TARGET_MS = 10.0
PAGES_MAX = 100
#: Filters, and what they find.
ASKED = {
    "one name": "s/site7/device7123/c",
    "a site": "s/site7/#",
    "one channel of a site": "s/site7/+/c",
    "a device wherever it is": "s/+/device7123/c",
    "a channel that nobody has": "s/+/+/none",
    "a channel at every place": "+/+/+/c",
    "everything": "#",
}


def key_of(number: int) -> NameKey:
    """Return the name with a number."""
    return NameKey(f"s/site{number // 1_000}/device{number}/c")


def fill(count: int) -> RetainedNames[LiveMessage]:
    """Return so many names with their messages, which were retained in no order."""
    names: RetainedNames[LiveMessage] = RetainedNames()
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        key = key_of(number)
        names.set(key, LiveMessage(key=key, body=b"%016d" % number, is_retained=True))
    return names


def ask(names: RetainedNames[LiveMessage], what: str, text: str) -> float:
    """Print what the pages of a filter take; return the longest, in milliseconds."""
    name_filter = MQTT.read_filter(text)
    after: NameKey | None = None
    taken_ms: list[float] = []
    found = 0
    while len(taken_ms) < PAGES_MAX:
        begun = time.process_time()
        page = names.page(name_filter, after, PAGE_MAX)
        taken_ms.append(1000 * (time.process_time() - begun))
        found += len(page.found)
        after = page.after
        if after is None:
            break
    taken_ms.sort()
    middle = taken_ms[len(taken_ms) // 2]
    print(
        f"{what:26} {text:22} {len(taken_ms):4} pages  {found:6,} found  page: median"
        f" {middle:7.3f} ms  longest {taken_ms[-1]:7.3f} ms",
        flush=True,
    )
    return taken_ms[-1]


def main(arguments: list[str]) -> None:
    """Measure one after the other."""
    count = int(arguments[0]) if arguments else NAMES
    gc.freeze()
    gc.disable()
    before = resident_bytes()
    begun = time.perf_counter()
    names = fill(count)
    built_s = time.perf_counter() - begun
    used = resident_bytes() - before
    print(
        f"{len(names):,} names: {used / 2**20:,.0f} MiB, {used / count:.0f} B each with name and"
        f" message; {1e6 * built_s / count:.1f} us to add one"
    )
    longest = max(ask(names, what, text) for what, text in ASKED.items())
    verdict = "" if longest <= TARGET_MS else ": MISSED"
    print(f"longest page {longest:.1f} ms, target {TARGET_MS:.0f} ms{verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
