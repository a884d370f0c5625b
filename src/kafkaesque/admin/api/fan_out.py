"""Asks brokers for their parts of a page; says how old each part is, or why it is missing.

Theory of operation. A `PartPage` names a question and its answer. Every broker has a `PartServer`
that answers it from what the broker knows of itself; `FanOut` asks them over the peers' links, this
broker without a link, and calls when all have answered, or their time is up. Brokers that are not
heard of are not asked: half of a cluster may be dead, and the answer comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from kafkaesque.admin.api.calls import guarded
from kafkaesque.admin.api.values import Origin
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.peers.link import PeerNotAsked, PeerUnreachable
from kafkaesque.broker.requests.commands import AskPart, Part
from kafkaesque.broker.requests.part_desk import OnPart
from kafkaesque.model.errors import InvalidRequest, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId

#: So long a broker may take for its part.
PART_MS_MAX: Final = 2_000

#: What a number beyond 64 bits, a text that is no Unicode, or what is nested too deeply raises.
_UNWRITABLE: Final = (OverflowError, ValueError, RecursionError, msgspec.MsgspecError)

QuestionT = TypeVar("QuestionT", bound=msgspec.Struct)
AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)

#: Called once, with an answer or a refusal.
OnAnswer = Callable[[msgspec.Struct | RequestRefused], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPage(Generic[QuestionT, AnswerT]):
    """A question to one broker."""

    name: str
    question: type[QuestionT]
    answer: type[AnswerT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Generic[AnswerT]):
    """What brokers have said."""

    #: In the order of the questions, as `sources` are.
    answers: Mapping[NodeId, AnswerT]
    #: Of all that were asked.
    sources: list[Origin]
    #: Those of which nobody knows whether they have done what they were asked for.
    unsure: frozenset[NodeId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """A change that a broker has not confirmed."""

    because: str
    #: Whether it may be done all the same.
    is_unsure: bool


class PartServer:
    """Answers questions for this broker's parts."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._pages: dict[str, tuple[type[msgspec.Struct], Callable[[Any, OnAnswer], None]]] = {}
        doors.parts.answer_with(self.answer)

    def register(
        self,
        page: PartPage[QuestionT, AnswerT],
        serve: Callable[[QuestionT, OnAnswer], None],
    ) -> None:
        """Have a page's questions answered."""
        self._pages[page.name] = (page.question, serve)

    def answer(self, request: AskPart, on_done: OnPart) -> None:
        """Answer another broker's question, or this one's."""
        found = self._pages.get(request.page)
        if found is None:
            on_done(RequestRefused(f"this broker's release does not know the part {request.page}"))
            return
        kind, serve = found

        def on_answer(outcome: msgspec.Struct | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            try:
                body = msgspec.msgpack.encode(outcome)
            except _UNWRITABLE as error:
                on_done(RequestRefused(f"what this broker knows cannot be written: {error}"))
                return
            on_done(Part(at_ms=self._doors.clock.wall_ms(), body=body))

        try:
            serve(msgspec.msgpack.decode(request.question, type=kind), on_answer)
        except RequestRefused as refusal:
            on_done(refusal)
        except msgspec.MsgspecError as error:
            on_done(InvalidRequest(f"a question that this release does not know: {error}"))


class FanOut:
    """Asks many brokers at the same time."""

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        """`report` is told of our own defects."""
        self._doors = doors
        self._report = report

    def all_brokers(self) -> list[NodeId]:
        """Return the brokers that are registered, up or not, and this one."""
        return sorted({*self._doors.cluster.state.brokers, self._doors.cluster.node})

    def ask_all(
        self,
        page: PartPage[QuestionT, AnswerT],
        question: QuestionT,
        on_done: Callable[[Gathered[AnswerT]], None],
        nodes: Iterable[NodeId] | None = None,
    ) -> None:
        """Ask the same of all brokers, or of these; `on_done` may come at once."""
        wanted = self.all_brokers() if nodes is None else nodes
        self.ask(page, dict.fromkeys(wanted, question), on_done)

    def ask(
        self,
        page: PartPage[QuestionT, AnswerT],
        questions: Mapping[NodeId, QuestionT],
        on_done: Callable[[Gathered[AnswerT]], None],
        timeout_ms: int = PART_MS_MAX,
    ) -> None:
        """Ask each broker its own question; the others have `timeout_ms`.

        What `on_done` raises is answered to whoever's request has led to this, with 500.
        """
        tell = guarded(on_done) or partial(self._tell, on_done)
        answers: dict[NodeId, AnswerT] = {}
        sources: dict[NodeId, Origin] = {}
        unsure: set[NodeId] = set()
        left = len(questions) + 1

        def on_one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                in_order = {node: answers[node] for node in questions if node in answers}
                origins = [sources[node] for node in questions]
                tell(Gathered(answers=in_order, sources=origins, unsure=frozenset(unsure)))

        def settle(node: NodeId, outcome: object) -> None:
            answer, sources[node] = _read(page, node, outcome)
            if answer is not None:
                answers[node] = answer
            elif _is_unsure(outcome):
                unsure.add(node)
            on_one()

        for node, question in questions.items():
            if (obstacle := self._obstacle(node)) is not None:
                settle(node, obstacle)
                continue
            try:
                request = AskPart(page=page.name, question=msgspec.msgpack.encode(question))
            except _UNWRITABLE as error:
                settle(node, RequestRefused(f"it cannot be asked: {error}"))
                continue
            self._doors.parts.ask(node, request, timeout_ms, partial(settle, node))
        on_one()

    def ask_one(
        self,
        page: PartPage[QuestionT, AnswerT],
        node: NodeId,
        question: QuestionT,
        on_done: Callable[[AnswerT | Origin], None],
    ) -> None:
        """Ask one broker; `on_done` gets its answer, or an `Origin` that says why there is none."""

        def on_gathered(gathered: Gathered[AnswerT]) -> None:
            answer = gathered.answers.get(node)
            on_done(gathered.sources[0] if answer is None else answer)

        self.ask(page, {node: question}, on_gathered)

    def ask_change(
        self,
        page: PartPage[QuestionT, AnswerT],
        node: NodeId,
        question: QuestionT,
        on_done: Callable[[AnswerT | Undone], None],
        timeout_ms: int,
    ) -> None:
        """Ask one broker, which may be this one, to change something within a time.

        It may have come to pass without its answer.
        """
        is_done = False

        def finish(outcome: AnswerT | Undone) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                timer.cancel()
                on_done(outcome)

        def on_late() -> None:
            because = f"broker {node} did not answer within {timeout_ms} ms"
            finish(Undone(because=because, is_unsure=True))

        def on_gathered(gathered: Gathered[AnswerT]) -> None:
            answer = gathered.answers.get(node)
            because = gathered.sources[0].missing or ""
            is_unsure = node in gathered.unsure
            finish(Undone(because=because, is_unsure=is_unsure) if answer is None else answer)

        timer = self._doors.clock.call_later(timeout_ms, guarded(on_late) or on_late)
        self.ask(page, {node: question}, on_gathered, timeout_ms)

    def _tell(self, on_done: Callable[[Gathered[AnswerT]], None], found: Gathered[AnswerT]) -> None:
        try:
            on_done(found)
        except Exception as error:
            # A defect of ours, and the broker goes on.
            self._report(f"parts of brokers could not be put together: {error!r}")

    def _obstacle(self, node: NodeId) -> RequestRefused | None:
        """Return why a broker need not be asked."""
        cluster = self._doors.cluster
        if node == cluster.node or cluster.is_alive(node):
            return None
        if cluster.is_refused(node):
            return RequestRefused(f"broker {node} does not run: its machine refuses connections")
        lost_ms = cluster.lost_ms(node)
        silent_s = (self._doors.clock.now_ms() - lost_ms) // 1000 if lost_ms else 0
        since = f"for {silent_s} s" if lost_ms else "since this broker started"
        return RequestRefused(f"broker {node} has not been heard of {since}")


def _is_unsure(outcome: object) -> bool:
    """Tell whether a broker that has not answered, or not legibly, may have done its part."""
    if isinstance(outcome, PeerUnreachable):
        return not isinstance(outcome, PeerNotAsked)
    return isinstance(outcome, Part | RequestTimedOut)


def _read(
    page: PartPage[QuestionT, AnswerT], node: NodeId, outcome: object
) -> tuple[AnswerT | None, Origin]:
    if isinstance(outcome, Part):
        try:
            answer = msgspec.msgpack.decode(outcome.body, type=page.answer)
        except msgspec.MsgspecError as error:
            outcome = RequestRefused(f"its release answers differently: {error}")
        else:
            return answer, Origin(broker=node, as_of=outcome.at_ms)
    return None, Origin(broker=node, missing=str(outcome))
