"""Who answers for a broker's part of the admin API, and when that is made."""

from __future__ import annotations

from kafkaesque.broker.requests.commands import AskPart, Part
from kafkaesque.broker.requests.part_desk import OnPart, PartDesk
from kafkaesque.model.errors import RequestRefused

QUESTION = AskPart(page="broker", question=b"")
ANSWER = Part(at_ms=1, body=b"so")


def answer(_: AskPart, on_done: OnPart) -> None:
    on_done(ANSWER)


def ask(desk: PartDesk) -> Part | RequestRefused:
    told: list[Part | RequestRefused] = []
    desk.serve(QUESTION, told.append)
    (outcome,) = told
    return outcome


def test_who_answers_is_made_with_the_first_question_and_once() -> None:
    desk, made = PartDesk(), list[str]()

    def make() -> None:
        made.append("made")
        desk.open(answer)

    desk.open_when_asked(make)
    assert made == []
    assert [ask(desk), ask(desk)] == [ANSWER, ANSWER]
    assert made == ["made"]


def test_questions_are_refused_where_it_could_not_be_made() -> None:
    desk, tries = PartDesk(), list[str]()
    desk.open_when_asked(lambda: tries.append("tried"))
    assert [type(ask(desk)) for _ in range(2)] == [RequestRefused] * 2
    assert tries == ["tried"]
