"""Causes at three real brokers; `python -m tests.clients.why_causes` prints the table."""

from pathlib import Path

import pytest

from tests.clients.why_causes import run


@pytest.mark.extended
def test_causes_at_real_brokers_are_named_first(tmp_path: Path) -> None:
    answers = run(tmp_path)
    assert [each for each in answers if not each.is_right] == []
    doubtful = {each.kind for each in answers if not each.is_certain}
    assert doubtful == {"quota", "no leader (hangs)"}
