"""The same steps at a peer and at brokers of ours, and where the two differ first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

StepT = TypeVar("StepT")
StepIn = TypeVar("StepIn", contravariant=True)


class Side(Protocol[StepIn]):
    """The peer, or our brokers, and the clients there."""

    def take(self, step: StepIn, /) -> object:
        """Take a step; return what is to be the same on both sides."""

    def close(self) -> None:
        """Let all clients leave."""


def first_difference(
    steps: Sequence[StepT],
    sides: Sequence[Side[StepT]],
    compare: Callable[[int, StepT], str | None],
    end: Callable[[], str | None] = lambda: None,
) -> str | None:
    """Take steps until both sides differ, and let all clients leave.

    Args:
        compare: takes a step at both sides, and returns in what they differ.
        end: returns in what they differ when all steps are taken.

    Returns:
        The steps up to the difference, and the difference; None: there is none.
    """
    try:
        for number, step in enumerate(steps):
            said = compare(number, step)
            if said is not None:
                before = "\n".join(f"        {each}" for each in steps[: number + 1])
                return f"{before}\n    {said}"
        return end()
    finally:
        for side in sides:
            side.close()


def compare_meeting(
    peer: str, theirs: Side[StepT], ours: Side[StepT], steps: Sequence[StepT]
) -> str | None:
    """Compare all that clients are sent for each step; return where it differs first, or None."""

    def compare(_: int, step: StepT) -> str | None:
        their, our = theirs.take(step), ours.take(step)
        if their == our:
            return None
        return f"{peer + ':':<13}{their}\n    {'ours:':<13}{our}"

    return first_difference(steps, (theirs, ours), compare)


def differing(
    seed: int, numbers: Sequence[int], compare: Callable[[int], str | None], kind: str = "meeting"
) -> Iterator[str]:
    """Compare the sessions of these numbers; say of each that differs how it does."""
    for number in numbers:
        said = compare(number)
        if said is not None:
            yield f"seed {seed}, {kind} {number}:\n{said}"
