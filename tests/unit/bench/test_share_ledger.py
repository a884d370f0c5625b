"""Made-up words of share consumers, each with one thing wrong, which the ledger has to name."""

import pytest

from bench.share_ledger import ShareLedger

GOOD = """\
one: given 0 1 1 line 1
two: given 0 2 1 line 2
one: done 0 1 1 ACCEPT
two: done 0 2 1 RELEASE
one: given 0 2 2 line 2
one: renewed 0 2 2 RENEW
one: done 0 2 2 ACCEPT
two: given 0 3 1 line 3
two: doubt 0 3 1 ACCEPT
one: given 0 3 2 line 3
one: done 0 3 2 REJECT
"""
WANTED = ["line 1", "line 2", "line 3"]


def ledger_of(text: str) -> ShareLedger:
    ledger = ShareLedger()
    for line in text.splitlines():
        consumer, _, said = line.partition(": ")
        ledger.note(consumer, "\t".join(said.split(" ", 4)))
    return ledger


def test_nothing_is_wrong_where_all_is_well() -> None:
    ledger = ledger_of(GOOD)
    assert ledger.check(WANTED) == []
    assert ledger.count_given() == 3
    assert ledger.tally() == "5 given, 2 ACCEPT, 1 RELEASE, 1 REJECT, 1 renewed, 1 in doubt"


def test_the_order_of_lines_of_several_consumers_does_not_matter() -> None:
    of_two = [line for line in GOOD.splitlines() if line.startswith("two")]
    of_one = [line for line in GOOD.splitlines() if line.startswith("one")]
    assert ledger_of("\n".join([*of_one, *of_two])).check(WANTED) == []


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("two: given 0 1 2 line 1\ntwo: done 0 1 2 ACCEPT", "given again"),
        ("two: given 0 3 3 line 3\ntwo: done 0 3 3 ACCEPT", "given again"),
        ("two: given 0 1 1 line 1\ntwo: done 0 1 1 ACCEPT", "attempt given twice"),
        ("one: given 0 9 1 aborted line 1\none: done 0 9 1 ACCEPT", "aborted read"),
        ("one: given 0 9 1 other\none: done 0 9 1 ACCEPT", "unsent"),
        ("one: given 0 9 1 line 1", "forgotten"),
        ("one: given 0 9 1 line 1\none: done 0 9 1 RELEASE", "lost"),
        (
            "one: given 0 9 1 line 1\none: renewed 0 9 1 RENEW\n"
            "two: given 0 9 2 line 1\ntwo: done 0 9 2 ACCEPT",
            "lock ended early",
        ),
        ("one: done 0 9 1 ACCEPT", "one settled what it was not given"),
    ],
)
def test_each_anomaly_is_named(more: str, name: str) -> None:
    found = ledger_of(GOOD + more).check(WANTED)
    assert [each for each in found if each.startswith(name)], found


@pytest.mark.parametrize(
    ("more", "is_over"),
    [
        ("", True),
        ("one: given 0 9 1 line 1", False),
        ("one: given 0 9 1 line 1\none: done 0 9 1 RELEASE", False),
        ("one: given 0 9 1 line 1\none: doubt 0 9 1 ACCEPT", True),
    ],
)
def test_it_is_over_when_nothing_is_under_way(more: str, is_over: bool) -> None:
    ledger = ledger_of(GOOD + more)
    assert ledger.is_over(-1) is is_over
    assert not ledger.is_over(60)


def test_what_nobody_was_given_is_lost() -> None:
    assert ledger_of(GOOD).check([*WANTED, "line 4"]) == ["lost: 'line 4' was never given"]


def test_who_was_killed_may_have_settled_what_it_did_not_tell() -> None:
    ledger = ledger_of(GOOD + "one: given 0 9 1 line 1")
    ledger.note_killed("one")
    assert ledger.check(WANTED) == []
