"""The file of the key keeper: what it may hold, and who may read it."""

from base64 import b64encode
from pathlib import Path

import pytest

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.keeper_file import read_keeper_keys

ONE, TWO = b64encode(b"1" * 32), b64encode(b"2" * 32)


def file_of(directory: Path, content: bytes, mode: int = 0o600) -> Path:
    path = directory / "keeper.keys"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_first_key_comes_first(tmp_path: Path) -> None:
    keys = read_keeper_keys(file_of(tmp_path, TWO + b"\n\n" + ONE + b"\n"))
    assert [key.reveal() for key in keys] == [b"2" * 32, b"1" * 32]


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "is empty"),
        (ONE, 0o604, "others may read it"),
        (b"not base64!", 0o600, "32 bytes in base64"),
        (b64encode(b"short"), 0o600, "32 bytes in base64"),
        (ONE + b"\n" + ONE, 0o600, "twice"),
        (b"\n".join(b64encode(bytes([n]) * 32) for n in range(17)), 0o600, "more than 16"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes, mode: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_keeper_keys(file_of(tmp_path, content, mode))
    assert ONE.decode() not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read key\.keeper\.file"):
        read_keeper_keys(tmp_path / "none")
