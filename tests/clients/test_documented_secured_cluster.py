"""docs/security.md prints what it says: at `up --secure`, and at a broker whose file it writes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.documentation.blocks import Block
from tests.documentation.local_cluster import PORTS, LocalCluster
from tests.documentation.reader import Reader
from tests.documentation.secured_steps import BROKER_STEPS, FIRST, LAST, PAGE, UP_STEPS
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
BLOCKS = blocks_run_by(THIS, PAGE)
#: Of the broker by hand, beside those of `up`.
MORE_PORTS = (9095, 8443)

pytestmark = pytest.mark.extended


def _begins(block: Block, words: Sequence[str]) -> bool:
    return any(block.content.startswith(each) for each in words)


def test_the_page_is_all_that_there_is() -> None:
    assert pages_run_by(THIS) == [PAGE]


def test_up_secure_prints_what_the_page_says(tmp_path: Path) -> None:
    with (
        LocalCluster(
            tmp_path, "--secure", data="secured", last_line="Once you have both"
        ) as cluster,
        Shell(tmp_path, {"HOME": str(tmp_path)}) as shell,
    ):
        reader = Reader(
            shell,
            tmp_path,
            UP_STEPS,
            replaced={"/home/me": str(tmp_path)},
            ports=cluster.ports,
        )
        reader.follow([each for each in BLOCKS if _begins(each, tuple(UP_STEPS))])


def test_a_broker_does_what_the_page_says(tmp_path: Path) -> None:
    blocks = [each for each in BLOCKS if not _begins(each, tuple(UP_STEPS))]
    first = sorted(
        (each for each in blocks if _begins(each, FIRST)),
        key=lambda each: next(at for at, word in enumerate(FIRST) if each.content.startswith(word)),
    )
    last = [each for each in blocks if _begins(each, LAST)]
    others = [each for each in blocks if each not in first and each not in last]
    told = sorted({*MORE_PORTS, *(port + each for port in PORTS.values() for each in range(3))})
    ports = dict(zip(told, unused_ports(len(told)), strict=True))
    environment = {
        "HOME": str(tmp_path),
        "KAFKAESQUE_BOOTSTRAP_SERVER": f"127.0.0.1:{ports[9092]}",
        "KAFKAESQUE_ADMIN": f"127.0.0.1:{ports[8443]}",
    }
    with Shell(tmp_path, environment) as shell:
        try:
            Reader(
                shell,
                tmp_path,
                BROKER_STEPS,
                replaced={"/etc/kafkaesque": str(tmp_path), "/home/alice": str(tmp_path)},
                ports=ports,
            ).follow([*first, *others, *last])
        finally:
            shell.run('[ -z "$broker" ] || kill -9 $broker')
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
