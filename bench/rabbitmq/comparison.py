"""Runs a session at both brokers, and finds the shortest one that shows a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from bench.rabbitmq.reasons import alike
from bench.rabbitmq.speaker import Silent, Speaker
from bench.rabbitmq.steps import (
    CONNECTIONS,
    EXCHANGES,
    QUEUES,
    RARE,
    Call,
    Leave,
    Publish,
    Raw,
    Settle,
    Step,
)
from bench.rabbitmq.wires import Peer
from kafkaesque.protocols.amqp import methods as m

#: Looked at after each step; it is about what is in them.
_WATCHED: Final = QUEUES


class Difference(NamedTuple):
    """Where two brokers have said something else."""

    #: The steps, of which the last one shows it.
    steps: tuple[Step, ...]
    theirs: tuple[str, ...]
    ours: tuple[str, ...]

    def show(self) -> str:
        """Return it as text: the lines that one alone has said are marked."""
        lines = [f"  {number}. {each}" for number, each in enumerate(self.steps, 1)]
        lines += [f"    RabbitMQ: {each}" for each in self.theirs if each not in self.ours]
        lines += [f"    ours:     {each}" for each in self.ours if each not in self.theirs]
        if sorted(self.theirs) == sorted(self.ours):
            lines += [f"    RabbitMQ, in order: {each}" for each in self.theirs]
            lines += [f"    ours, in order:     {each}" for each in self.ours]
        return "\n".join(lines)


class Session:
    """One session at one broker."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._names: dict[str, str] = {}
        self._clear()
        self._speakers = [Speaker(peer, self._names) for _ in range(CONNECTIONS)]

    def take(self, step: Step) -> list[str]:
        """Carry out a step; return all that the broker has said."""
        self._do(step)
        for _ in range(2):
            self._peer.settle()
            self._flush()
            if any(each.is_over for each in self._speakers):
                self._peer.forget()
            counts = self._counts()
        self._flush()
        lines = [
            f"{number} {line}"
            for number, each in enumerate(self._speakers)
            for line in each.take_lines()
        ]
        for each in self._speakers:
            each.repair()
            # It was looked at above what a broker says on its own.
            each.take_lines()
        return [*lines, *counts]

    def _flush(self) -> None:
        for each in self._speakers:
            each.flush()

    def _do(self, step: Step) -> None:
        speaker, number = self._speakers[step.connection], step.channel
        match step:
            case Call(method=m.BasicConsume() as method):
                speaker.call(number, self._alone(speaker, method))
            case Call():
                speaker.call(number, step.method)
                if isinstance(step.method, m.ChannelClose):
                    speaker.await_close(number)
            case Publish():
                speaker.publish(number, step.method, step.properties, step.body)
            case Settle():
                speaker.settle(number, step.method, step.place)
            case Raw():
                speaker.write(step.data)
            case Leave():
                speaker.leave(is_polite=step.is_polite)
            case _:
                raise TypeError(step)

    @staticmethod
    def _alone(speaker: Speaker, method: m.BasicConsume) -> m.BasicConsume:
        """Let a queue have one consumer: who of two gets what is nobody's business."""
        if not method.queue:
            return method
        found = speaker.ask(method.queue)
        is_used = isinstance(found, m.QueueDeclareOk) and found.consumer_count > 0
        return msgspec.structs.replace(method, exclusive=method.exclusive or is_used)

    def _counts(self) -> list[str]:
        lines = []
        for queue in _WATCHED:
            for speaker in self._speakers:
                if speaker.is_over:
                    continue
                found = speaker.ask(queue)
                if isinstance(found, m.QueueDeclareOk):
                    counts = f"{found.message_count} messages, {found.consumer_count} consumers"
                    lines.append(f"{queue}: {counts}")
                    break
        return lines

    def _clear(self) -> None:
        """Remove what the last session has left."""
        last = Speaker(self._peer, self._names)
        for queue in (*QUEUES, RARE):
            last.send(1, m.QueueDelete(queue=queue))
        for exchange in (*EXCHANGES, RARE):
            last.send(1, m.ExchangeDelete(exchange=exchange))
        last.flush()
        last.leave(is_polite=True)

    def end(self) -> None:
        """Hang up."""
        for each in self._speakers:
            each.leave(is_polite=True)


def say_all(peer: Peer, steps: Sequence[Step]) -> list[tuple[str, ...]]:
    """Return what a broker says to each step; the last one may be that it says nothing."""
    session = Session(peer)
    said: list[tuple[str, ...]] = []
    try:
        for step in steps:
            said += [tuple(session.take(step))]
    except Silent as silent:
        said += [(f"silent: {silent}",)]
    finally:
        session.end()
    return said


def compare(
    theirs: Callable[[], Peer], ours: Callable[[], Peer], steps: Sequence[Step]
) -> Difference | None:
    """Return the first difference; None: there is none."""
    their_lines, our_lines = say_all(theirs(), steps), say_all(ours(), steps)
    for number, (their_said, our_said) in enumerate(zip(their_lines, our_lines, strict=False)):
        if alike(their_said) != alike(our_said):
            return Difference(tuple(steps[: number + 1]), their_said, our_said)
    if len(their_lines) != len(our_lines):
        return Difference(tuple(steps), their_lines[-1], our_lines[-1])
    return None


def shorten(found: Difference, again: Callable[[Sequence[Step]], Difference | None]) -> Difference:
    """Leave out steps for as long as what is left shows a difference at its end, too.

    `again` runs a session at both.
    """
    at = len(found.steps) - 2
    while at >= 0:
        steps = found.steps[:at] + found.steps[at + 1 :]
        shorter = again(steps)
        if shorter is not None:
            found = shorter
            at = min(at, len(found.steps) - 1)
        at -= 1
    return found
