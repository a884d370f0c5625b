"""The table of causes: what each kind is injected by, and how an answer of `why` is judged.

An injection brings something about in a cluster, and returns the question with what has to be
answered. They are drawn from a seed: those that leave the cluster as it is share one, in an
order that is drawn; each that breaks something has a cluster of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sim.causes.ground import NAMES, CauseGround

#: The kinds, in the order of the way that a message takes.
KINDS = (
    "no leader",
    "min ISR",
    "full disk",
    "quota",
    "stuck transaction",
    "rebalance that waits",
    "lagging consumer",
    "poison key",
    "exhausted credit",
    "lock not ended",
    "delay",
    "dead letter",
    "unroutable",
    "denied",
    "retention",
    "compaction",
    "filter",
)
#: Nothing is wrong: no cause may be named.
HEALTHY = "nothing"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, and its right answer."""

    #: The name of the link, or several that say the same, with |; empty: nothing blocks.
    cause: str
    #: Below /why, with its query.
    path: str
    query: dict[str, Any]
    #: Who may be asked.
    hosts: tuple[str, ...] = NAMES
    #: What the link's words have to have in them: what is meant, not only its kind.
    says: str = ""
    #: Whether the asked broker cannot know it for certain; what it can know, it has to say so.
    is_doubtful: bool = False


Inject = Callable[[CauseGround, Random], Case]


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One way to bring a cause about."""

    kind: str
    name: str
    inject: Inject
    #: Whether it breaks the cluster, so that it needs one of its own.
    is_rough: bool
    is_secured: bool


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of one question."""

    injection: Injection
    seed: int
    is_right: bool
    #: Wrong, and called certain; that nothing blocks counts as an answer.
    is_misleading: bool
    #: Virtual and processor time until the answer.
    virtual_ms: float
    real_ms: float
    said: str


INJECTIONS: list[Injection] = []


def injects(
    kind: str, *, is_rough: bool = False, is_secured: bool = False
) -> Callable[[Inject], Inject]:
    """Put an injection into the table."""

    def put(inject: Inject) -> Inject:
        name = inject.__name__.replace("_", " ")
        INJECTIONS.append(
            Injection(
                kind=kind,
                name=name,
                inject=inject,
                is_rough=is_rough or is_secured,
                is_secured=is_secured,
            )
        )
        return inject

    return put


def judge(ground: CauseGround, injection: Injection, case: Case, seed: int, host: str) -> Verdict:
    """Ask a broker, and judge the answer."""
    begun_ms, begun_s = ground.now_ms, time.perf_counter()
    told = ground.get(f"/why/{case.path}", host, **case.query)
    took_ms, took_s = ground.now_ms - begun_ms, time.perf_counter() - begun_s
    cause = told["cause"] or ""
    link = next((each for each in told["links"] if each["name"] == cause), None)
    words = (
        "" if link is None else " ".join([link["what"], *link["evidence"], link["command"] or ""])
    )
    is_named = cause in case.cause.split("|") and case.says in words
    is_right = is_named and told["is_certain"] is not case.is_doubtful
    if cause and link is not None and not link["what"]:
        is_right = False
    chain = ", ".join(f"{each['name']} {each['state']}" for each in told["links"])
    certain = "certain" if told["is_certain"] else "doubtful"
    return Verdict(
        injection=injection,
        seed=seed,
        is_right=is_right,
        is_misleading=not is_right and told["is_certain"],
        virtual_ms=took_ms,
        real_ms=1_000 * took_s,
        said=f"{case.cause or 'none'} wanted {case.says!r}, {cause or 'none'} said at {host}, "
        f"{certain}: {chain}; {words}",
    )


def run(injection: Injection, ground: CauseGround, seed: int) -> Verdict:
    """Inject, and ask."""
    random = Random(f"{seed} {injection.name}")
    case = injection.inject(ground, random)
    return judge(ground, injection, case, seed, random.choice(case.hosts))


def one_round(seed: int, injections: list[Injection]) -> Iterator[Verdict]:
    """Run each injection once."""
    order = sorted(injections, key=lambda each: Random(f"{seed} {each.name}").random())
    shared = CauseGround(1_000 + seed)
    for each in order:
        own = each.is_rough
        ground = CauseGround(2_000 + seed, is_secured=each.is_secured) if own else shared
        yield run(each, ground, seed)


def draw(
    count: int, seed: int = 0, kinds: tuple[str, ...] = (*KINDS, HEALTHY)
) -> Iterator[Verdict]:
    """Run round after round, until so many causes were injected; healthy cases do not count."""
    wanted = [each for each in INJECTIONS if each.kind in kinds]
    done = 0
    while done < count:
        for verdict in one_round(seed, wanted):
            done += verdict.injection.kind != HEALTHY
            yield verdict
        seed += 1
