"""What the pages say of scripts that install, build or look for long is so, in a checkout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from bench.maven import cache_directory
from kafkaesque.cli.broker_ports import unused_ports
from tests.clients import browser_pages
from tests.clients.node_client import missing
from tests.documentation.blocks import ROOT
from tests.documentation.own_checkout import (
    copy_sources,
    lacks_pins,
    lend_packages,
    make_checkout,
)
from tests.documentation.reader import Reader
from tests.documentation.scripts_steps import SCRIPTS_STEPS
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file
from tests.documentation.tools_steps import PORTS_OFF, PORTS_SET

THIS = this_file(__file__)
CONSOLE_PACKAGES = ROOT / "console" / "node_modules"

BLOCK_TIMEOUT_S = 600

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]


def lacks_rabbitmq() -> str:
    """Return why there is no RabbitMQ: nothing is fetched here."""
    is_there = (cache_directory() / "rabbitmq").exists()
    return "" if is_there else "scripts/peers --rabbitmq has not fetched RabbitMQ"


def lacks_root() -> str:
    """Return why no user can be added, be it in a folder."""
    lacking = [each for each in ("useradd", "systemctl") if shutil.which(each) is None]
    if lacking:
        return f"there is no {lacking[0]}"
    return "" if os.geteuid() == 0 else "only root adds users"


def lacks_console() -> str:
    """Return why the console cannot be built and looked at."""
    if not (CONSOLE_PACKAGES / ".stamp").exists():
        return "scripts/test-console has not installed the packages of the console"
    return browser_pages.missing()


#: By page, what its scripts write to.
COPIED: Mapping[str, Sequence[str]] = {"docs/console.md": ("codegen", "console", "src")}
#: By page, what it needs that may be missing.
NEEDS: Mapping[str, Callable[[], str]] = {
    "README.md": lambda: missing() or lacks_pins("runtime", "build", "test", "quickstart", "spark"),
    "docs/amqp.md": lacks_rabbitmq,
    "docs/console.md": lacks_console,
    "docs/operations.md": lacks_root,
    "docs/spark.md": lambda: lacks_pins("runtime", "build", "test", "quickstart", "spark"),
}


@pytest.mark.parametrize("page", pages_run_by(THIS))
def test_a_page_is_followed_in_a_checkout(page: str, tmp_path: Path) -> None:
    if reason := NEEDS.get(page, str)():
        pytest.skip(reason)
    checkout = make_checkout(tmp_path / "checkout", COPIED.get(page, ()))
    if "console" in COPIED.get(page, ()):
        (checkout / "console" / "node_modules").symlink_to(CONSOLE_PACKAGES)
    # The others are built and installed.
    copy_sources(checkout / "sources")
    lent = lend_packages(tmp_path / "lent")
    ports = zip(PORTS_SET, map(str, unused_ports(len(PORTS_SET))), strict=True)
    environment = {"LENT": str(lent), **dict(ports), **dict.fromkeys(PORTS_OFF, "0")}
    with Shell(checkout, environment, BLOCK_TIMEOUT_S) as shell:
        reader = Reader(shell, checkout, SCRIPTS_STEPS[page], replaced={}, ports={})
        reader.follow(blocks_run_by(THIS, page))


def test_there_are_no_steps_of_other_pages() -> None:
    assert set(SCRIPTS_STEPS) == set(pages_run_by(THIS))
