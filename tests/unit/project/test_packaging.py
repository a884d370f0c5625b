"""What lies in packaging/ is read by the programs that it is for, as far as they are here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.server.config import load_config

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"
SERVICE = PACKAGING / "systemd" / "kafkaesque@.service"
COMPOSE = PACKAGING / "compose" / "compose.yaml"
NUMBERS = ("1", "2", "3")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    # It comes with the requirements of Spark; nothing else here needs it.
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    # That the programs are not installed here is no mistake of the unit.
    text = SERVICE.read_text().replace("/opt/kafkaesque/bin/kafkaesque", "/bin/true")
    unit = tmp_path / "kafkaesque@1.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if "kafkaesque" in line]
    assert told == [], done.stderr
    assert done.returncode == 0, done.stderr


def test_the_unit_runs_commands_that_there_are() -> None:
    text = SERVICE.read_text()
    assert re.findall(r"^ExecStart(?:Pre)?=\S+ (\w+) --config (\S+)", text, re.MULTILINE) == [
        ("broker", "/etc/kafkaesque/broker-%i.toml"),
        ("broker", "/etc/kafkaesque/broker-%i.toml"),
    ]


@pytest.mark.parametrize("number", NUMBERS)
def test_each_broker_of_the_compose_file_has_a_configuration_that_is_valid(
    compose: dict[str, Any], number: str
) -> None:
    service = compose["services"][f"broker-{number}"]
    assert service["command"] == ["broker", "--config", "/etc/kafkaesque/broker.toml"]
    volumes = dict(each.split(":")[:2] for each in service["volumes"])
    config = load_config(COMPOSE.parent / "broker.toml", environment=service["environment"])
    assert str(config.broker.node) == number
    assert str(config.broker.peer_address) == f"broker-{number}:9190"
    kafka = next(each for each in config.broker.listeners if each.protocol == "kafka")
    # Clients outside and inside find the same port, so that what brokers tell them is true.
    assert f"127.0.0.1:{kafka.advertised.port}:{kafka.advertised.port}" in service["ports"]
    assert volumes["./broker.toml"] == "/etc/kafkaesque/broker.toml"
    assert volumes[f"data-{number}"] == "/var/lib/kafkaesque"


def test_ports_that_let_everybody_in_are_published_on_this_machine_alone(
    compose: dict[str, Any],
) -> None:
    ports = [each for service in compose["services"].values() for each in service["ports"]]
    assert len(ports) == len(set(ports)) == 6
    assert all(each.startswith("127.0.0.1:") for each in ports)
    assert set(compose["volumes"]) == {f"data-{number}" for number in NUMBERS}


def test_the_containerfile_copies_what_there_is_and_pins_what_it_installs() -> None:
    text = re.sub(r"\\\n\s*", " ", (PACKAGING / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {line.split()[0] for line in lines} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    for line in lines:
        words = line.split()
        if words[0] == "COPY" and not words[1].startswith("--from="):
            assert [each for each in words[1:-1] if not (ROOT / each).exists()] == []
        if "pip install" in line:
            assert "--require-hashes" in line or "--no-deps --no-build-isolation ." in line
    users = [number for number, line in enumerate(lines) if line.startswith("USER kafkaesque")]
    assert users
    assert users[0] < len(lines) - 1


def test_the_script_that_packages_reads_as_a_script() -> None:
    script = ROOT / "scripts" / "package"
    subprocess.run(["bash", "-n", str(script)], timeout=30, check=True)
    told = subprocess.run(
        [str(script), "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    assert "source distribution" in told.stdout
