"""Every row of `clauses.txt`, at a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkaesque.protocols.stomp.frames import Frame
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name


class Row(NamedTuple):
    """One clause in one version."""

    version: str
    what: str
    sent: list[str]
    #: Of each step the frames, in any order within one.
    steps: list[list[str]]
    is_closed: bool
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.what} ({self.version})"


def _read() -> list[Row]:
    rows = []
    lines = Path(__file__).with_name("clauses.txt").read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not line or line[0] == "#":
            continue
        versions, what, sent, answered = (cell.strip() for cell in line.split(" | "))
        steps = [
            [each.strip() for each in step.strip().removeprefix("!").split(", ") if each]
            for step in answered.split(";")
        ]
        rows += [
            Row(version, what, sent.split("\\0~~"), steps, "!" in answered, number)
            for version in versions.split()
        ]
    return rows


def _bytes(text: str, names: dict[str, str]) -> bytes:
    for name, value in names.items():
        text = text.replace(name, value)
    return text.encode().decode("unicode_escape").replace("~", "\\").encode("latin-1")


def _shown(frame: Frame, wanted: str) -> str:
    """A frame in the words of the table, with the headers that the table looks at."""
    match frame.command:
        case "RECEIPT":
            return f"RECEIPT {frame.get('receipt-id')}"
        case "ERROR":
            receipt = frame.get("receipt-id")
            (text,) = re.findall(r"ERROR (.*?)(?: \+\d+)?$", wanted) or [""]
            message = frame.get("message") or ""
            shown = text if text and text in message else message
            return f"ERROR {shown}" + (f" +{receipt}" if receipt else "")
        case _:
            names = [each.partition("=")[0] for each in wanted.split(" ")[4:]]
            headers = [f" {name}={frame.get(name)}" for name in names]
            what = f"{frame.get('subscription')} {frame.get('destination')}"
            return f"MESSAGE {what} {frame.body.decode()}{''.join(headers)}"


def _run(client: StompClient, row: Row, piece: int) -> None:
    names = {"/queue/Q": f"/queue/{new_name()}", "/topic/T": f"/topic/{new_name()}"}
    last = len(row.sent) - 1
    parts = [part if at == last else part + "\\0" for at, part in enumerate(row.sent)]
    ids: dict[str, str] = {}
    left = list(row.steps)
    for number, part in enumerate(parts):
        raw = _bytes(part, {**names, **ids})
        for at in range(0, len(raw), piece):
            client.write(raw[at : at + piece])
        is_last = number == len(parts) - 1
        for step in left if is_last else [left.pop(0)]:
            _expect(client, step, names, ids)
    if row.is_closed:
        client.ground.loop.run_until(lambda: client.client.is_closed, 10_000)
    assert client.silent(50)
    assert client.client.is_closed == row.is_closed


def _expect(
    client: StompClient, step: list[str], names: dict[str, str], ids: dict[str, str]
) -> None:
    wanted = [_bytes(each, names).decode() for each in step]
    for _ in step:
        frame = client.next()
        if frame.command == "MESSAGE":
            ids.update({"{ack}": frame.get("ack") or "", "{id}": frame.get("message-id") or ""})
        kind = [each for each in wanted if each.startswith(frame.command)]
        shown = _shown(frame, kind[0] if kind else "")
        assert shown in wanted, (shown, wanted)
        wanted.remove(shown)


@pytest.mark.parametrize("row", _read(), ids=str)
@pytest.mark.parametrize("piece", [1_000_000, 1])
def test_clause(ground: Ground, row: Row, piece: int) -> None:
    _run(ground.stomp(version=row.version), row, piece)
