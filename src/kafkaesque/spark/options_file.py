"""Options in a file, such as `app_spark.json` of `kafkaesque up --secure`.

So no password stands in a program, a pipeline's settings, an environment or Spark's plans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkaesque.spark.errors import WrongOption

OPTIONS_FILE: Final = "optionsFile"
FILE_BYTES_MAX: Final = 64 * 1024
#: What Spark gives instead of a setting that it takes for a secret by its name or value.
_REDACTED: Final = "(redacted)"


def with_options_file(given: Mapping[str, str]) -> dict[str, str]:
    """Return options with those of the file that `optionsFile` names; what is given counts first.

    Raises:
        WrongOption: the file cannot be read, or has something else than options; what is in it is
            not told.
    """
    path = next((value for name, value in given.items() if name.lower() == "optionsfile"), "")
    own = {name: value for name, value in given.items() if name.lower() != "optionsfile"}
    if not path.strip():
        return own
    names = {name.lower() for name in own}
    found = _read(path.strip())
    return {**{name: text for name, text in found.items() if name.lower() not in names}, **own}


def _read(path: str) -> dict[str, str]:
    if path.endswith(_REDACTED):
        raise WrongOption(
            f"the option {OPTIONS_FILE} is {path}: Spark hides settings in which a word such as "
            "secret or password stands; give the file another name"
        )
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WrongOption(
            f"cannot read {Path(path).absolute()}, which the option {OPTIONS_FILE} names: {reason}"
        ) from None
    try:
        found = json.loads(data) if len(data) <= FILE_BYTES_MAX else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise WrongOption(
            f"{path}, which the option {OPTIONS_FILE} names, is not JSON such as "
            '{"kafka.bootstrap.servers": "…"}, with a text for each option, of at most '
            f"{FILE_BYTES_MAX} bytes"
        )
    if any(name.lower() == OPTIONS_FILE.lower() for name in found):
        raise WrongOption(f"{path} names another {OPTIONS_FILE}: one is all that is read")
    return found
