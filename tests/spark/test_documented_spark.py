"""The pages on Spark and pipelines do what they say: with real Spark, at clusters of `up`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.documentation.blocks import Block
from tests.documentation.local_cluster import LocalCluster
from tests.documentation.open_steps import CLEAN
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.spark_secured_steps import SECURED_STEPS
from tests.documentation.spark_steps import SPARK_STEPS
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
#: Of the master of Spark, as the pages have it.
MASTER = 7077
BLOCK_TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(2400)


def is_secured(block: Block) -> bool:
    """Whether a block is of a secured cluster."""
    return any(block.content.startswith(each) for each in SECURED_STEPS.get(block.page, {}))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("up")) as found:
        yield found


@pytest.mark.parametrize("page", pages_run_by(THIS))
def test_a_page_does_what_it_says(page: str, tmp_path: Path, cluster: LocalCluster) -> None:
    blocks = [each for each in blocks_run_by(THIS, page) if not is_secured(each)]
    environment = {"KAFKAESQUE_BOOTSTRAP_SERVER": cluster.address}
    with Shell(tmp_path, environment, BLOCK_TIMEOUT_S) as shell:
        reader = Reader(
            shell,
            tmp_path,
            SPARK_STEPS[page],
            # Where the pages' projects are, and the machine whose lines name none.
            replaced={
                "/tmp/archive/": f"{tmp_path}/archive/",
                "  vm  ": f"  {socket.gethostname()}  ",
            },
            ports={**cluster.ports, MASTER: unused_ports(1)[0]},
        )
        try:
            reader.follow(blocks)
        finally:
            shell.run(CLEAN)


def test_secured_clusters_are_as_the_pages_say(tmp_path: Path) -> None:
    with (
        LocalCluster(
            tmp_path, "--secure", data="secured", last_line="Once you have both"
        ) as cluster,
        Shell(tmp_path, {"HOME": str(tmp_path)}, BLOCK_TIMEOUT_S) as shell,
    ):
        password = (cluster.data / "app.password").read_text().strip()
        for page, steps in SECURED_STEPS.items():
            reader = Reader(
                shell,
                tmp_path,
                steps,
                replaced={
                    "/home/me": str(tmp_path),
                    "/etc/kafka/authority.pem": str(cluster.data / "certs" / "ca.pem"),
                    "broker-1:9093": cluster.address,
                    r"password=\"…\"": rf"password=\"{password}\"",
                },
                ports=cluster.ports,
            )
            reader.follow(filter(is_secured, blocks_run_by(THIS, page)))


def test_there_are_no_steps_of_other_pages() -> None:
    assert set(SPARK_STEPS) == set(pages_run_by(THIS))
    assert set(SECURED_STEPS) <= set(SPARK_STEPS)
