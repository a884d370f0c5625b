"""The shell completes names of the cluster that is meant."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli_up import KAFKAESQUE


def complete(bootstrap: str, *words: str) -> list[str]:
    """Return what is offered for the last word."""
    done = subprocess.run(
        KAFKAESQUE,
        env={
            **os.environ,
            "KAFKAESQUE_BOOTSTRAP_SERVER": bootstrap,
            "_KAFKAESQUE_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["kafkaesque", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.extended
def test_names_of_topics_groups_and_queues_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        servers = cluster.bootstrap_servers

        def run(*words: str) -> None:
            command = [*KAFKAESQUE, *words, "-b", servers]
            subprocess.run(command, capture_output=True, timeout=60, check=True)

        for topic in ("orders", "orders-eu", "people"):
            run("topic", "create", topic)
        run("queue", "create", "mails")
        run("publish", "people", "one")
        read = ("--group", "billing", "--from-beginning", "--max", "1", "--timeout", "60")
        run("consume", "people", *read)
        wanted = ["orders", "orders-eu"]
        assert complete(servers, "topic", "describe", "ord") == wanted
        assert complete(servers, "publish", "peo") == ["people"]
        # The brokers' own are offered to those who begin so.
        assert complete(servers, "consume", "__cons") == ["__consumer_offsets"]
        assert "__consumer_offsets" not in complete(servers, "consume", "")
        assert complete(servers, "queue", "get", "m") == ["mails"]
        assert complete(servers, "group", "describe", "b") == ["billing"]
        # A context says which cluster is meant, as it does for the command itself.
        monkeypatch.setenv("KAFKAESQUE_CONTEXTS_FILE", str(tmp_path / "contexts.json"))
        run("context", "create", "shop")
        assert complete("", "--context", "shop", "topic", "describe", "ord") == wanted
        assert complete("", "--context", "other", "topic", "describe", "ord") == []
        run_plain = [*KAFKAESQUE, "context", "use", "shop"]
        subprocess.run(run_plain, capture_output=True, timeout=60, check=True)
        assert complete("", "topic", "describe", "ord") == wanted
        assert complete("", "context", "use", "s") == ["shop"]
        assert complete("", "--context", "s") == ["shop"]
    assert complete("127.0.0.1:1", "topic", "describe", "ord") == []
