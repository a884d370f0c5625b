"""What the pages say of commands without a cluster, and of brokers' files, is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients import browser_pages
from tests.clients.up_ports import free_stretches, port_words
from tests.documentation.local_cluster import BROKERS
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file
from tests.documentation.tools_steps import PORTS_OFF, PORTS_SET, PREPARED, TOOLS_STEPS

THIS = this_file(__file__)

#: Simulated clusters take seconds each, and minutes beside much else.
BLOCK_TIMEOUT_S = 600

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]


def up_ports() -> dict[str, str]:
    """Return the options of `up` for ports that are free: all of them, and those of some words."""
    ports = free_stretches(BROKERS, ("kafka", "peer", "admin"))
    words = port_words(ports)
    some = [f"--{name}-port {ports[name]}" for name in ("peer", "admin")]
    return {
        "UP_PORTS": " ".join(words),
        "UP_OTHER_PORTS": " ".join(words[words.index("--port") + 2 :]),
        "UP_FEW_PORTS": " ".join((f"--port {ports['kafka']}", *some)),
        "UP_SERVER": f"127.0.0.1:{ports['kafka']}",
        "UP_ADMIN_PORT": str(ports["admin"]),
    }


@pytest.mark.parametrize("page", pages_run_by(THIS))
def test_a_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    if page == "docs/console.md" and (reason := browser_pages.missing()):
        pytest.skip(reason)
    numbers = (8081, 9094, 9325, 19092)
    here = unused_ports(len(numbers) + len(PORTS_SET))
    environment = {
        **up_ports(),
        **{name: str(here.pop()) for name in PORTS_SET},
        **dict.fromkeys(PORTS_OFF, "0"),
    }
    with Shell(tmp_path, environment, BLOCK_TIMEOUT_S) as shell:
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
