"""`python -m kafkaesque.server --config FILE`: one broker, without the command line's extras."""

import sys
from collections.abc import Sequence
from pathlib import Path

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import load_config
from kafkaesque.server.main import run_broker


def main() -> int:
    """Run the broker that a file describes."""
    path = _read_arguments(sys.argv[1:])
    try:
        config = load_config(path)
    except ConfigError as error:
        sys.stderr.writelines(f"error: {line}\n" for line in str(error).splitlines())
        return 2
    return run_broker(config)


def _read_arguments(arguments: Sequence[str]) -> Path:
    if len(arguments) == 2 and arguments[0] == "--config":
        return Path(arguments[1])
    # For help and mistakes alone: it takes as much memory as a gateway, and brokers keep it.
    import argparse

    parser = argparse.ArgumentParser(prog="kafkaesque.server", description="Run one broker.")
    parser.add_argument("--config", type=Path, required=True, help="its TOML file")
    path: Path = parser.parse_args(arguments).config
    return path


if __name__ == "__main__":
    sys.exit(main())
