"""What a broker's file says of seeds, controllers and the cluster's secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import SECRET_FILE_BYTES_MAX, load_config, read_secrets

ONE, TWO = "0123456789abcdef", "fedcba9876543210"


def secret_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "cluster.secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def configured(directory: Path, broker: str, controllers: str = "") -> Path:
    path = directory / "broker.toml"
    path.write_text(f"[broker]\n{broker}\n[controllers]\n{controllers}\n")
    return path


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (f"{ONE}\n", (ONE,)),
        (ONE, (ONE,)),
        (f"{ONE}\n{TWO}\n", (ONE, TWO)),
        (f"\n  {ONE}\r\n\n{TWO}\n\n", (ONE, TWO)),
    ],
)
@pytest.mark.parametrize("mode", [0o600, 0o440])
def test_a_file_of_one_line_or_two(
    tmp_path: Path, text: str, secrets: tuple[str, ...], mode: int
) -> None:
    found = read_secrets(secret_file(tmp_path, text, mode))
    assert found == tuple(each.encode() for each in secrets)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("", 0o600, "is empty: write the cluster's secret into it"),
        ("\n", 0o644, "is empty: write the cluster's secret into it"),
        (f"{ONE}\n{TWO}\n{ONE}{TWO}", 0o600, "not 3"),
        ("too short\n", 0o600, "at least 16 bytes"),
        (f"{ONE}\n{ONE}\n", 0o600, "the new cluster secret is the old one"),
        (ONE, 0o644, "others may read it; chmod o="),
        (ONE, 0o602, "others may read it"),
        ("x" * (SECRET_FILE_BYTES_MAX + 1), 0o600, "is longer than 65536 bytes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, mode: int, words: str) -> None:
    path = secret_file(tmp_path, text, mode)
    with pytest.raises(ConfigError, match=words) as refused:
        read_secrets(path)
    assert f"cluster.secret.file {path}" in str(refused.value)
    assert ONE not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*secret: No such file"):
        read_secrets(tmp_path / "secret")


def test_seeds_and_controllers_without_addresses(tmp_path: Path) -> None:
    secret = secret_file(tmp_path, ONE)
    path = configured(
        tmp_path,
        f'id = 2\nseeds = "10.0.0.7:9190, far.example:19190"\ncluster.secret.file = "{secret}"',
        '1 = ""\n2 = ""\n3 = "10.0.0.3:9190"',
    )
    config = load_config(path, environment={}).broker
    assert config.secrets == (ONE.encode(),)
    assert ONE not in repr(config)
    assert dict(config.controllers) == {
        1: None,
        2: Address("127.0.0.1", 9190),
        3: Address("10.0.0.3", 9190),
    }
    assert config.seed_addresses() == [Address("10.0.0.7", 9190), Address("far.example", 19190)]


def test_controllers_are_the_seeds_where_there_are_none(tmp_path: Path) -> None:
    path = configured(tmp_path, "id = 1", '1 = "127.0.0.1:9190"\n2 = "10.0.0.2:9190"')
    config = load_config(path, environment={}).broker
    assert config.secrets == ()
    assert config.seed_addresses() == [Address("10.0.0.2", 9190)]


@pytest.mark.parametrize(
    ("broker", "controllers", "words"),
    [
        ('seeds = "10.0.0.7:9190"', "", "seeds need gossip, and gossip needs a cluster.secret"),
        ("", '2 = ""', "controller 2 has no address"),
        ('seeds = "10.0.0.7"', "", "seeds: '10.0.0.7' must be a peer address"),
        ('seeds = "10.0.0.7:0"', "", "seeds: '10.0.0.7:0' must be a peer address"),
        ("", '2 = "10.0.0.2:70000"', r"\[controllers\] 2 = '10.0.0.2:70000' must be"),
        ("", '2 = "nowhere"', r"\[controllers\] 2 = 'nowhere' must be"),
        ('cluster.secret = "x"', "", "cluster.secret"),
    ],
)
def test_what_contradicts_itself(tmp_path: Path, broker: str, controllers: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(configured(tmp_path, f"id = 1\n{broker}", controllers), environment={})
