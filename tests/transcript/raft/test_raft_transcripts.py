"""Stories of a cluster, told in text files and compared word for word.

A line that begins with `> ` is a command, what follows up to the next one is what came of it, and
`#` begins a remark. After a wanted change of behaviour, write the files anew and read the diff:

    RAFT_TRANSCRIPTS_WRITE=1 pytest tests/transcript/raft
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryKind, EntryMeta
from kafkaesque.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    ConfirmRequest,
    ConfirmResponse,
    NotHere,
    Readmit,
    SnapshotRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.ready import Ready
from tests.unit.raft.harness import Cluster, Member

FILES = sorted(Path(__file__).parent.glob("*.txt"))


def told_entry(entry: EntryMeta) -> str:
    first, last = entry.first_index, entry.last_index
    where = f"{last}" if first == last else f"{first}..{last}"
    what = "" if entry.kind is EntryKind.DATA else f" {entry.kind.name.lower()}"
    return f"{where}/t{entry.term}{what}"


def told_configuration(configuration: Configuration) -> str:
    parts = [f"voters {list(configuration.voters)}"]
    if configuration.is_joint:
        parts.append(f"and {list(configuration.voters_outgoing)}")
    if configuration.learners:
        parts.append(f"learners {list(configuration.learners)}")
    return " ".join(parts)


def told_message(message: AnyMessage) -> str:
    match message:
        case VoteRequest():
            kind = "pre-vote?" if message.pre else "vote?"
            by = " (asked by the leader)" if message.is_transfer else ""
            text = f"{kind} my log ends at {message.last_index}/t{message.last_term}{by}"
        case VoteResponse():
            text = f"{'pre-vote' if message.pre else 'vote'} {'yes' if message.granted else 'no'}"
        case AppendRequest():
            entries = " ".join(told_entry(entry) for entry in message.entries) or "nothing"
            text = f"after {message.prev_index}/t{message.prev_term} append {entries}"
            text += f", commit {message.commit_index}"
        case AppendResponse() if message.rejected:
            text = f"no, not at {message.prev_index};"
            text += f" perhaps at {message.hint_index}/t{message.hint_term}"
        case AppendResponse():
            text = f"same up to {message.matched_index}, synced {message.synced_index}"
            text += f", commit {message.commit_index}"
        case SnapshotRequest():
            text = f"snapshot up to {message.last_index}/t{message.last_term}"
        case TimeoutNow():
            text = "take over now"
        case NotHere():
            text = "not here"
        case Readmit():
            text = f"of loss {message.amnesia} you are over, with the log up to {message.index}"
        case ConfirmRequest():
            text = f"do I lead still? round {message.round}"
        case ConfirmResponse():
            text = f"I know of nobody else, round {message.round}"
    if isinstance(message, AppendResponse) and message.amnesia:
        text += f" (loss {message.amnesia})"
    return f"{message.sender} -> {message.to}  t{message.term} {text}"


class Teller(Cluster):
    """A cluster that notes what its members do."""

    lines: list[str]

    def _perform(self, member: Member, ready: Ready) -> None:
        node = member.node
        if ready.role_change is not None:
            role, term, leader = ready.role_change
            self.lines.append(f"{node}: {role.value} in term {term}, leader {leader or 'unknown'}")
        if ready.hard_state is not None:
            vote = ready.hard_state.vote
            self.lines.append(f"{node}: writes term {ready.hard_state.term}, vote {vote or 'none'}")
        if ready.is_readmitted:
            self.lines.append(f"{node}: writes that it is readmitted")
        if ready.truncate_to is not None:
            self.lines.append(f"{node}: cuts its log after {ready.truncate_to}")
        if ready.entries:
            entries = " ".join(told_entry(entry) for entry in ready.entries)
            self.lines.append(f"{node}: writes {entries}")
        if ready.install_snapshot is not None:
            self.lines.append(f"{node}: installs a snapshot")
        if ready.configuration is not None:
            self.lines.append(f"{node}: {told_configuration(ready.configuration)}")
        if ready.commit_index is not None:
            self.lines.append(f"{node}: committed up to {ready.commit_index}")
        super()._perform(member, ready)

    def _send(self, member: Member, message: AnyMessage) -> None:
        super()._send(member, message)
        self.lines.append(told_message(message))


class Story:
    """Runs the commands of one file."""

    def __init__(self) -> None:
        self.cluster = self._cluster(3, {})

    def _cluster(self, nodes: int, options: dict[str, list[int]]) -> Teller:
        Teller.lines = []
        cluster = Teller(
            nodes,
            voters=options.get("voters"),
            learners=options.get("learners", ()),
            wanted=options.get("wanted", ()),
            config=RaftConfig(election_ticks=4, retry_ticks=2),
            start=False,
        )
        cluster.lines = []
        return cluster

    def run(self, command: str) -> list[str]:
        name, *words = command.split()
        numbers = [int(word) for word in words if word.isdigit()]
        options = {
            key: [int(node) for node in value.split(",") if node]
            for key, _, value in (word.partition("=") for word in words if "=" in word)
        }
        self.cluster.lines = []
        action: Callable[[list[int], dict[str, list[int]]], None] = getattr(self, f"do_{name}")
        action(numbers, options)
        return self.cluster.lines

    def do_nodes(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster = self._cluster(numbers[0], options)

    def do_log(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.given_log(numbers[0], *numbers[1:], term=options.get("term", [None])[0])

    def do_start(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node in numbers or self.cluster.members:
            self.cluster.start(node)
        self.cluster.notice_all()

    def do_crash(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node in numbers:
            self.cluster.crash(node)
        self.cluster.notice_all()

    def do_lose(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node in numbers:
            self.cluster.lose_disk(node)
        self.cluster.notice_all()

    def do_cut(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.cut(*numbers)
        self.cluster.notice_all()

    def do_heal(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.heal()
        self.cluster.notice_all()

    def do_campaign(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster[numbers[0]].campaign()
        self.cluster.settle(numbers[0])

    def do_elect(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.elect(numbers[0])
        self.cluster.lines = [f"{numbers[0]}: leader in term {self.cluster[numbers[0]].term}"]

    def do_tick(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.tick(numbers[0], times=numbers[1] if len(numbers) > 1 else 1)

    def do_propose(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.propose(numbers[0], *numbers[1:])

    def do_sync(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node in numbers:
            self.cluster.sync(node)

    def do_deliver(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        """All that is on its way now; with numbers, only to these nodes."""
        waiting = self.cluster.wire
        self.cluster.wire = []
        later = [message for message in waiting if numbers and message.to not in numbers]
        for message in waiting:
            if message not in later:
                self.cluster.wire.insert(0, message)
                self.cluster.deliver()
        self.cluster.wire = later + self.cluster.wire

    def do_flow(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.flow()

    def do_transfer(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster[numbers[0]].transfer_leadership(NodeId(numbers[1]))
        self.cluster.settle(numbers[0])

    def do_change(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        target = Configuration(
            voters=tuple(NodeId(node) for node in options["voters"]),
            learners=tuple(NodeId(node) for node in options.get("learners", ())),
        )
        self.cluster[numbers[0]].change_configuration(target)
        self.cluster.settle(numbers[0])

    def do_compact(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        self.cluster.compact(numbers[0], numbers[1])

    def do_logs(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node, member in self.cluster.members.items():
            entries = " ".join(told_entry(entry) for entry in member.live.entries)
            state = "down" if member.core is None else f"committed up to {member.up.commit_index}"
            self.cluster.lines.append(f"{node}: {entries or 'nothing'} ({state})")

    def do_quiet(self, numbers: list[int], options: dict[str, list[int]]) -> None:
        for node, member in self.cluster.members.items():
            if member.core is not None:
                self.cluster.lines.append(f"{node}: {'quiet' if member.core.is_quiet else 'awake'}")


def retold(text: str) -> Iterator[str]:
    """Give the file's lines with the outcomes of its commands as they are now."""
    story = Story()
    for line in text.splitlines():
        if line.startswith("> "):
            yield line
            yield from story.run(line[2:])
        elif line.startswith("#") or not line:
            yield line


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_story_goes_as_written(file: Path) -> None:
    text = file.read_text()
    told = "\n".join(retold(text)) + "\n"
    if os.environ.get("RAFT_TRANSCRIPTS_WRITE"):
        file.write_text(told)
    assert told.splitlines() == file.read_text().splitlines()
    assert "> " in told


def test_there_are_stories() -> None:
    assert len(FILES) >= 4
