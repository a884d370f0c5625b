"""The session that stands in the documentation, typed at a running broker."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documentation.table import blocks_run_by, this_file
from tests.unit.gateway_text.person import Person, TextCluster
from tests.unit.gateway_text.test_text_queues import create

PAGE = Path(__file__).parents[3] / "docs" / "text-protocol.md"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_the_documented_session_is_what_one_sees(cluster: TextCluster, person: Person) -> None:
    assert "flights" not in cluster.live.broker.state.topics
    assert len(blocks_run_by(this_file(__file__), "docs/text-protocol.md")) == 4
    text = PAGE.read_text(encoding="utf-8")
    (session,) = re.findall(r"```session\n(.*?)```", text, re.DOTALL)
    expected: list[str] = session.splitlines()
    seen: list[str] = []
    for line in expected:
        if line.startswith("> "):
            seen += [line, *person.say(line[2:])]
    assert len(seen) > 10
    assert [TIME.sub("T", line) for line in seen] == [TIME.sub("T", line) for line in expected]
    assert person.is_gone()


def test_the_documented_line_for_scripts_ends_by_itself(
    cluster: TextCluster, person: Person
) -> None:
    assert "arrivals" not in cluster.live.broker.state.topics
    text = PAGE.read_text(encoding="utf-8")
    typed, shown = re.findall(r"\$ printf '(.*)' \| nc [\d. ]+\n((?:OK.*\n)+)```", text)[0]
    # As where `nc` does not pass the end of the input on.
    person.type(typed.replace("\\n", "\n"))
    assert [person.line() for _ in shown.splitlines()] == shown.splitlines()
    assert person.is_gone()
    # And where it does.
    typed, shown = re.findall(r"\$ printf '(.*)' \| nc -N [\d. ]+\n((?:OK.*\n)+)```", text)[0]
    other = cluster.person()
    other.type(typed.replace("\\n", "\n"))
    other.hang_up()
    assert [other.line() for _ in shown.splitlines()] == shown.splitlines()
    assert other.is_gone()


def test_the_documented_lines_for_queues_are_what_one_sees(
    cluster: TextCluster, person: Person
) -> None:
    (block,) = (
        each
        for each in blocks_run_by(this_file(__file__), "docs/text-protocol.md")
        if each.content.startswith("> PUT mails")
    )
    create(cluster, "mails")
    shown = block.content.splitlines()
    seen: list[str] = []
    for line in shown:
        if line.startswith("> "):
            seen += [line, *person.say(line[2:])]
    assert [TIME.sub("T", line) for line in seen] == [TIME.sub("T", line) for line in shown]
