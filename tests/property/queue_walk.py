"""Random walks of a queue's cluster, for planted mistakes: each must be found by one of them."""

import random
from collections.abc import Callable

from tests.property.queue_machine import POLICIES, Cluster
from tests.unit.queues.queue_host import Message

STEPS = 70


def random_message(rng: random.Random) -> Message:
    return Message(
        value=b"v" * rng.choice((1, 40, 200)),
        priority=rng.choice((0, 0, 1, 3, 9)),
        group=rng.choice((b"", b"a", b"a", b"b")),
        not_before_ms=rng.choice((0, 0, 0, 8, 60)),
        not_after_ms=rng.choice((0, 0, 0, 30)),
        identity=rng.choice((b"", b"", b"1" * 16, b"2" * 16)),
    )


def messages(rng: random.Random) -> list[Message]:
    if rng.random() < 0.4:
        return [Message()] * rng.randint(1, 4)
    return [random_message(rng) for _ in range(rng.randint(1, 4))]


def walk(seed: int, steps: int = STEPS) -> None:
    rng = random.Random(seed)
    cluster = Cluster()
    try:
        cluster.configure(rng.randrange(len(POLICIES)))
        for _ in range(steps):
            step(cluster, rng)
        cluster.check_replicas()
    finally:
        cluster.end()


def walk_in_turns(seed: int) -> None:
    """Walk with a queue that is fair among groups, of which many wait."""
    rng = random.Random(seed)
    cluster = Cluster()
    try:
        cluster.configure(next(i for i, each in enumerate(POLICIES) if each.is_fair_by_group))
        for _ in range(STEPS):
            actions: list[Callable[[], None]] = [
                lambda: cluster.put(
                    [Message(group=rng.choice((b"a", b"a", b"a", b"b", b"c")))] * 2
                ),
                lambda: cluster.take(rng.randint(1, 3), 50, 0, rng.randrange(3)),
                lambda: cluster.settle(0, may_be_late=False),
                lambda: step(cluster, rng),
            ]
            rng.choices(actions, (6, 4, 1, 2))[0]()
        cluster.check_replicas()
    finally:
        cluster.end()


def step(c: Cluster, rng: random.Random) -> None:
    def commit() -> None:
        for which in range(3):
            c.replicate(which, 100)
        c.commit()

    flip = rng.random() < 0.5
    which, count = rng.randrange(3), rng.randint(1, 4)
    old = rng.choice((0, 0, 0, 1, 3))
    actions: list[tuple[int, Callable[[], None]]] = [
        (9, lambda: c.put(messages(rng))),
        (7, lambda: c.take(count, rng.choice((None, 0, 5, 50)), rng.choice((0, 30)), which)),
        (3, lambda: c.attach(which)),
        (3, lambda: c.grant(which, count, rng.choice((1, 300, 2**62)))),
        (1, lambda: c.detach(which, flip)),
        (5, lambda: c.settle(old, flip)),
        (6, lambda: c.give_back(old, flip, rng.random() < 0.6, rng.choice((None, 0, 0, 12)))),
        (2, lambda: c.reject(old)),
        (2, lambda: c.extend(old, rng.choice((0, 3, 40)))),
        (2, lambda: c.stage(old, count % 2)),
        (3, lambda: c.finish(count % 2, flip)),
        (1, lambda: c.configure(rng.randrange(len(POLICIES)))),
        (1, lambda: c.redrive("other" if flip else "")),
        (1, c.unpark),
        (2, lambda: c.move(count, flip)),
        (6, lambda: c.pass_time(rng.choice((1, 5, 20, 40)))),
        (1, lambda: c.skew(which, rng.choice((-600_000, 0, 600_000)) if flip else 0)),
        (4, lambda: c.replicate(which, count)),
        (8, commit),
        (2, lambda: c.elect(which)),
        (1, lambda: c.restart(which)),
        (1, lambda: c.abandon(count)),
        (2, lambda: c.trim(which, rng.choice((1, 200, 1 << 20)))),
        (1, c.not_moved if flip else c.purge),
    ]
    rng.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
