"""What the pages say of commands without a cluster, and of brokers' files, is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.documentation.blocks import ROOT
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file
from tests.documentation.tools_steps import PORTS_OFF, PORTS_SET, PREPARED, TOOLS_STEPS

THIS = this_file(__file__)

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("page", pages_run_by(THIS))
def test_a_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    numbers = (8081, 9094, 9325)
    here = unused_ports(len(numbers) + len(PORTS_SET))
    environment = {
        "CHECKOUT": str(ROOT),
        **{name: str(here.pop()) for name in PORTS_SET},
        **dict.fromkeys(PORTS_OFF, "0"),
    }
    with Shell(tmp_path, environment) as shell:
        shell.run(PREPARED)
        reader = Reader(
            shell,
            tmp_path,
            TOOLS_STEPS.get(page, {}),
            replaced={".venv/bin/": "", "/etc/kafkaesque": str(tmp_path)},
            ports=dict(zip(numbers, here, strict=True)),
        )
        reader.follow(blocks_run_by(THIS, page))


def test_there_are_no_steps_of_other_pages() -> None:
    assert set(TOOLS_STEPS) <= set(pages_run_by(THIS))
