"""`python -m kafkaesque.server --config FILE`: one broker, without the command line's extras."""

import argparse
import sys
from pathlib import Path

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import load_config
from kafkaesque.server.main import run_broker


def main() -> int:
    """Run the broker that a file describes."""
    parser = argparse.ArgumentParser(prog="kafkaesque.server", description="Run one broker.")
    parser.add_argument("--config", type=Path, required=True, help="its TOML file")
    arguments = parser.parse_args()
    try:
        config = load_config(arguments.config)
    except ConfigError as error:
        sys.stderr.writelines(f"error: {line}\n" for line in str(error).splitlines())
        return 2
    return run_broker(config)


if __name__ == "__main__":
    sys.exit(main())
