"""RabbitMQ and our AMQP, side by side: `scripts/peers --rabbitmq`.

Random sessions go to Debian's RabbitMQ and to a simulated broker of ours, step by step: methods on
two channels of two connections, messages, acknowledgements, hang-ups, and what no client may send.
After each step all answers, deliveries, returns, confirms and counts are compared. The first
difference ends a session; it is made shorter by leaving out steps. Differences that are meant stand
in `bench/rabbitmq/differences.py`; any other one is printed and ends the run with code 1.

    scripts/peers --rabbitmq                    300 sessions
    scripts/peers --rabbitmq --seed 7           sessions from another seed
    scripts/peers --rabbitmq --only 12          one session of the seed
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from bench.maven import PeerUnavailableError
from bench.rabbitmq.comparison import Difference, compare, shorten
from bench.rabbitmq.differences import KNOWN, known
from bench.rabbitmq.server import rabbitmq
from bench.rabbitmq.steps import Step, session
from bench.rabbitmq.wires import Ours, Rabbit

EXIT_UNAVAILABLE = 3


def check(port: int, seed: int, numbers: Sequence[int]) -> int:
    """Compare sessions; return how many differ in what is not known."""
    met: Counter[str] = Counter()
    steps_count = different = 0

    def again(steps: Sequence[Step]) -> Difference | None:
        return compare(lambda: Rabbit(port), Ours, steps)

    for number in numbers:
        steps = session(seed, number)
        found = again(steps)
        steps_count += len(steps if found is None else found.steps)
        if found is None:
            continue
        name = known(found)
        if name is None:
            found = shorten(found, again)
            name = known(found)
        if name is None:
            different += 1
            print(f"seed {seed}, session {number}:\n{found.show()}", flush=True)
        else:
            met[name.name] += 1
    print(f"{len(numbers)} sessions, {steps_count} steps the same")
    for each in KNOWN:
        print(f"{met[each.name]:5} times: {each.name}")
    return different


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    numbers = range(options.sessions) if options.only is None else [options.only]
    try:
        with rabbitmq() as port:
            different = check(port, options.seed, numbers)
    except PeerUnavailableError as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_UNAVAILABLE)
    print(f"{different} differences")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
