"""A cluster comes to require a log-in, and TLS, while an application sends: nobody is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.securing import in_words, measure
from tests.documentation.output import missing
from tests.documentation.table import blocks_run_by, this_file


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_going_over_to_log_ins_and_tls_costs_clients_nothing(tmp_path: Path) -> None:
    report = measure(300, tmp_path)
    assert report.reasons == {}
    assert report.lost == 0
    assert report.sent_without_login > 500
    assert report.sent_with_login > 500
    assert report.acknowledged == report.sent_without_login + report.sent_with_login
    assert report.without_login_at_first > 0
    assert report.without_login_at_last == 0
    assert report.lets_strangers_in is False
    (shown,) = blocks_run_by(this_file(__file__), "docs/security.md")
    # The page's are of more messages a second.
    counts = ((r"(?m)^(sent|acknowledged)(.*: )\d+$", r"\1\2N"),)
    assert missing(shown.content, in_words(report), counts) == []
