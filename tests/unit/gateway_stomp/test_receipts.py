"""Receipts come in the order of the frames, whatever is done first."""

from __future__ import annotations

from kafkaesque.gateway.stomp.receipts import Receipts


def test_a_receipt_waits_for_all_before_it() -> None:
    sent: list[str] = []
    receipts = Receipts(sent.extend)
    first, silent, third = receipts.add("1"), receipts.add(None), receipts.add("3")
    third.done()
    silent.done()
    assert sent == []
    assert receipts.is_pending
    first.done()
    assert sent == ["1", "3"]
    assert not receipts.is_pending


def test_the_end_waits_for_all_before_it() -> None:
    sent: list[str] = []
    receipts = Receipts(sent.extend)
    first = receipts.add("1")
    receipts.when_done(lambda: sent.append("end"))
    assert sent == []
    first.done()
    assert sent == ["1", "end"]
