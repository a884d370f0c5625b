"""Lines become rows; the expected values are written by hand from the RFCs and manuals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkaesque.spark.logs.parse import (
    ASIDE_BYTES_MAX,
    LINE_BYTES_MAX,
    bad_lines,
    good_lines,
    parse_lines,
)

COLUMNS = (
    "line BINARY, source STRING, partition INT, position BIGINT, arrived TIMESTAMP, sender STRING"
)
#: A second of January: December is of the year before.
ARRIVED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INFO, NOTICE, WARNING, ERROR = 6, 5, 4, 3

# Line, time in UTC (Berlin is an hour ahead in winter, two in summer), host, kind, severity,
# status, program, and some of the fields.
GOOD: list[tuple[str, str, str, str, int, int | None, str | None, dict[str, str]]] = [
    (
        '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326',
        *("2000-10-10T20:55:36", "sender", "web", INFO, 200, None),
        {"client": "127.0.0.1", "user": "frank", "bytes": "2326"},
    ),
    (
        r'::1 - - [10/Oct/2000:13:55:36 +0200] "GET /a\"b HTTP/1.1" 503 - "http://x" "Q \"q\"" 0.1',
        *("2000-10-10T11:55:36", "sender", "web", ERROR, 503, None),
        {
            "client": "::1",
            "bytes": "-",
            "agent": r"Q \"q\"",
            "extra": "0.1",
            "referrer": "http://x",
        },
    ),
    (
        r'h - - [10/Oct/2000:13:55:36 +0000] "\x16\x03" 400 0',
        *("2000-10-10T13:55:36", "sender", "web", WARNING, 400, None),
        {"request": r"\x16\x03"},
    ),
    (
        "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
        *("2025-10-11T20:14:15", "mymachine", "syslog", 2, None, "su"),
        {"priority": "34", "message": "'su root' failed for lonvick on /dev/pts/8"},
    ),
    (
        "Dec  1 02:03:04 db1 postfix/smtpd[123]: lost\ncontact",
        *("2025-12-01T01:03:04", "db1", "syslog", INFO, None, "postfix/smtpd"),
        {"pid": "123", "message": "lost\ncontact"},
    ),
    (
        "Jan  3 04:00:00 db1 kernel: Failed at once",
        *("2026-01-03T03:00:00", "db1", "syslog", ERROR, None, "kernel"),
        {"message": "Failed at once"},
    ),
    (
        "Jan  3 05:00:00 db1 kernel: a clock that is ahead for more than a day",
        *("2025-01-03T04:00:00", "db1", "syslog", INFO, None, "kernel"),
        {},
    ),
    (
        "2024-03-01T12:00:00.123456+01:00 host7 systemd[1]: Started x.\r\n",
        *("2024-03-01T11:00:00.123456", "host7", "syslog", INFO, None, "systemd"),
        {"message": "Started x."},
    ),
    (
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473"
        ' iut="3" eventSource="App\\]\\"lication"][e p="1"] \ufeffAn application event',
        *("2003-10-11T22:14:15.003", "mymachine.example.com", "syslog", NOTICE, None, "evntslog"),
        {"msgid": "ID47", "message": "An application event"},
    ),
    ("<191>1 - - - - - -", "2026-01-02T03:04:05", "sender", "syslog", 7, None, None, {}),
    (
        "2024-07-01 12:00:00 status half-configured libc6:amd64 2.36-9",
        *("2024-07-01T10:00:00", "sender", "dpkg", INFO, None, "dpkg"),
        {"action": "status", "state": "half-configured", "package": "libc6:amd64"},
    ),
    (
        "2024-03-01 12:00:01 upgrade a:all 1 2",
        *("2024-03-01T11:00:01", "sender", "dpkg", NOTICE, None, "dpkg"),
        {"action": "upgrade", "package": "a:all", "previous": "1", "version": "2"},
    ),
    (
        "2024-03-01 12:00:01 conffile /etc/x keep",
        *("2024-03-01T11:00:01", "sender", "dpkg", INFO, None, "dpkg"),
        {"action": "conffile", "package": "/etc/x", "state": "keep"},
    ),
]

BAD: list[tuple[bytes | None, str]] = [
    (None, "the line is empty"),
    (b"", "the line is empty"),
    (b"\r\n", "the line is empty"),
    (b"junk", "it does not begin like a line of a web server, of syslog or of dpkg"),
    (b"\xff <34>Oct 11 22:14:15 a b: c", "the line is not UTF-8"),
    (b"<192>Oct 11 22:14:15 m x: y", "its priority is 192, more than 191"),
    (b"Feb 30 22:14:15 m x: y", "there is no such time: Feb 30 22:14:15"),
    (
        b'h - - [31/Feb/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1',
        "there is no such time: 31/Feb/2000:13:55:36 -0700",
    ),
    (
        b"<34>1 2003-10-11T22:14:15.003Z host app - - [open",
        "it begins like a line of syslog (RFC 5424) and does not go on like one",
    ),
    (
        b"<34>2 2003-10-11T22:14:15.003Z host app - - - a version to come",
        "it begins like a line of syslog (RFC 5424) and does not go on like one",
    ),
    (
        b'h - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200',
        "it begins like a line of a web server (common or combined log format) and does not go on"
        " like one",
    ),
    (
        b"2024-03-01 12:00:01 status installed",
        "it begins like a line of dpkg and does not go on like one",
    ),
    (
        b"<34>Oct 11 22:14:15 m x: " + b"y" * LINE_BYTES_MAX,
        f"the line has {25 + LINE_BYTES_MAX} bytes, more than {LINE_BYTES_MAX}",
    ),
]


@pytest.fixture(scope="module")
def parsed(spark: Any) -> Any:
    lines = [line.encode() for line, *_ in GOOD] + [line for line, _ in BAD]
    rows = [(line, "t", 0, number, ARRIVED, "sender") for number, line in enumerate(lines)]
    table = parse_lines(spark.createDataFrame(rows, COLUMNS), time_zone="Europe/Berlin", host="h")
    return table.persist()


@pytest.mark.parametrize("number", range(len(GOOD)), ids=lambda number: f"line-{number}")
def test_good_lines(parsed: Any, number: int) -> None:
    line, at, host, kind, severity, status, program, fields = GOOD[number]
    micros = "unix_micros(time) AS micros"
    (row,) = good_lines(parsed).where(f"position = {number}").selectExpr("*", micros).collect()
    expected = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert row.micros == round(expected.timestamp() * 1_000_000)
    found = (row.host, row.kind, row.severity, row.status, row.program)
    assert found == (host, kind, severity, status, program)
    assert row.line == line.rstrip("\r\n")
    assert fields.items() <= json.loads(row.fields).items()


def test_bad_lines_are_kept_with_their_bytes_and_all_that_is_known(parsed: Any) -> None:
    found = {}
    for row in bad_lines(parsed).collect():
        told = {each.key: bytes(each.value).decode() for each in row.headers}
        value = None if row.value is None else bytes(row.value)
        found[int(told.pop("position")) - len(GOOD)] = (value, told.pop("reason"))
        assert (row.key, told) == ("sender", {"source": "t", "partition": "0"})
    assert found == dict(enumerate(BAD))


def test_what_no_message_can_hold_is_cut_and_says_so(spark: Any) -> None:
    line = b"x" * (ASIDE_BYTES_MAX + 1)
    table = spark.createDataFrame([(line, "/var/log/x", None, 7, ARRIVED, None)], COLUMNS)
    (row,) = bad_lines(parse_lines(table)).collect()
    assert bytes(row.value) == line[:-1]
    told = {each.key: bytes(each.value).decode() for each in row.headers}
    assert (told["bytes"], told["source"], told["position"]) == ("900001", "/var/log/x", "7")
    assert "partition" not in told


def test_lines_that_are_made_to_cost_time_cost_little(spark: Any) -> None:
    """Quotes, brackets and backslashes in numbers on which a careless expression would despair."""
    half = LINE_BYTES_MAX // 4
    hostile = [
        b'h - - [10/Oct/2000:13:55:36 -0700] "' + b"\\" * half + b'" 200 1 "' + b"\\a" * half,
        b"<34>1 2003-10-11T22:14:15Z h a - - " + b'[a b="c"]' * (half // 5),
        b"Oct 11 22:14:15 m " + b"[" * half + b": " * half,
    ]
    rows = [(line, "t", 0, 0, ARRIVED, None) for line in hostile * 20]
    parsed = parse_lines(spark.createDataFrame(rows, COLUMNS))
    assert good_lines(parsed).count() + bad_lines(parsed).count() == len(rows)
