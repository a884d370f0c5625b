"""The table in `clauses.txt`, and events in short."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kafkaesque.protocols.stomp import events as e
from kafkaesque.protocols.stomp.versions import Version

_LETTERS = re.compile(r"\$(\d+)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clause in one version."""

    version: Version
    what: str
    sent: bytes
    told: list[str]
    error: str
    receipt_id: str | None
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.what} ({self.version.value})"


def _text(text: str) -> str:
    text = _LETTERS.sub(lambda found: "a" * int(found[1]), text)
    return text.encode().decode("unicode_escape").replace("~", "\\")


def _read() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    section = ""
    text = Path(__file__).with_suffix(".txt").read_text()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("["):
            section = line.strip("[]")
        if not line or line[0] in "#[":
            continue
        versions, what, sent, told, error = (cell.strip() for cell in line.split("|"))
        found = re.fullmatch(r"(.*), (\d+)", error)
        for version in versions.split():
            row = Row(
                version=Version(version),
                what=what,
                sent=_text(sent).encode("latin-1"),
                told=[_text(each.strip()) for each in told.split(";")] if told else [],
                error=found[1] if found else error,
                receipt_id=found[2] if found else None,
                number=number,
            )
            rows.setdefault(section, []).append(row)
    return rows


def shown(event: e.Event) -> str:
    """An event in the words of the table."""
    words = _words(event)
    if event.receipt is not None:
        words.append(f"+{event.receipt}")
    return " ".join(words)


def _words(event: e.Event) -> list[str]:
    match event:
        case e.ConnectReceived():
            login = [each.replace(" ", ".") for each in (event.login, event.passcode) if each]
            return ["CONNECT", event.version.value, *login]
        case e.Sent():
            headers = [f"{name}={value.replace(' ', '.')}" for name, value in event.headers]
            body = event.body.decode() or "''"
            return ["SEND", event.destination, body, *headers, *_within(event.transaction)]
        case e.Subscribed():
            return ["SUBSCRIBE", event.subscription_id, event.destination, event.ack_mode.value]
        case e.Unsubscribed():
            return ["UNSUBSCRIBE", event.subscription_id]
        case e.Acknowledged():
            name = "ACK" if event.is_positive else "NACK"
            subscription = [event.subscription_id] if event.subscription_id else []
            return [name, event.ack_id, *subscription, *_within(event.transaction)]
        case e.TransactionBegun():
            return ["BEGIN", event.transaction]
        case e.TransactionEnded():
            return ["COMMIT" if event.is_committed else "ABORT", event.transaction]
        case e.Disconnected():
            return ["DISCONNECT"]
    raise AssertionError(event)


def _within(transaction: str | None) -> list[str]:
    return [] if transaction is None else ["in", transaction]


ROWS = _read()
