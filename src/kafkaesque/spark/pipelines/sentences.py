"""One sentence from what Spark, Python and the connector report as errors."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.pipelines.errors import BrokersAway, PipelineError, RunFailed, WrongProject

#: The last line of a Python traceback of ours, wherever Spark has put it.
_OURS = re.compile(r"^\s*(?:pyspark\S*: )?kafkaesque\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit)): (.*)$", re.MULTILINE
)
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_QUERY = re.compile(r"Query \[id = \S+, runId = \S+\] terminated with exception: (?:\[\w+\] )?")
_LINE_NUMBER = re.compile(r"\(line (\d+), pos \d+\)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
#: What Spark says of a machine that has too much to do, and of executors that are lost.
_PASSING = (
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
)
#: What helps then: the next run continues from the same checkpoints.
_AGAIN = (
    "run it again: Spark's workers were lost, or the machine was too busy to start them in time"
)
_TEXT_MAX = 600


def sentence_of(error: BaseException | str) -> str:
    """Return what is wrong in one line, without traces of Java or Python."""
    text = error if isinstance(error, str) else _text_of(error)
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return f"there is no module {missing[1]} in the Python of Spark's workers"
    if ours := _OURS.findall(text):
        return _one_line(ours[-1][1])
    if "Traceback (most recent call last)" in text and (found := _PYTHON_ERROR.findall(text)):
        name, words = found[-1]
        places = [each for each in _FRAME.findall(text) if "site-packages" not in each[0]]
        where = f" ({Path(places[-1][0]).name}, line {places[-1][1]})" if places else ""
        return _one_line(f"{name}: {words}") + where
    condition = _CONDITION.search(text)
    if condition is not None:
        words = _SQL_STATE.sub("", condition[2])
        return _one_line(_QUERY.sub("", words))
    return _one_line(text.strip().partition("\n")[0]) or type(error).__name__


def kind_of(error: BaseException | str) -> str:
    """Return the name of the connector's error in it, if one is."""
    found = _OURS.findall(error if isinstance(error, str) else _text_of(error))
    return str(found[-1][0]) if found else ""


def may_pass(error: BaseException | str) -> bool:
    """Whether the same may succeed later on without a change of the project."""
    text = error if isinstance(error, str) else _text_of(error)
    return kind_of(text) == "Unavailable" or any(words in text for words in _PASSING)


def failure(what: str, error: BaseException | str, hint: str = "") -> PipelineError:
    """Return the end of a run because of `error`; `what` says where it was."""
    if isinstance(error, PipelineError):
        return error
    message = f"{what}: {sentence_of(error)}"
    if kind_of(error) == "Unavailable":
        return BrokersAway(message, hint or "kafkaesque cluster status")
    return RunFailed(message, hint or (_AGAIN if may_pass(error) else ""))


def definition_failure(file: Path, folder: Path, error: BaseException) -> WrongProject:
    """Return the refusal of a file with transformations; says the line, where there is one."""
    line = None
    for frame in extract_tb(error.__traceback__):
        if Path(frame.filename) == file:
            line = frame.lineno
    if isinstance(error, SyntaxError) and error.filename == str(file):
        line = error.lineno
        words = f"{error.msg}"
    elif isinstance(error, ConnectorError):
        # Sentences for people already, and there may be several: one for each wrong rule.
        words = str(error)
    else:
        text = _text_of(error)
        words = _setting_is_missing(text) or sentence_of(error)
        found = _LINE_NUMBER.search(text)
        if line is None and found is not None:
            line = int(found[1])
        if not isinstance(error, PipelineError) and not _CONDITION.search(text):
            words = f"{type(error).__name__}: {words}"
    where = file.relative_to(folder) if file.is_relative_to(folder) else file
    return WrongProject(f"{where}{f', line {line}' if line else ''}: {words}")


def _setting_is_missing(text: str) -> str | None:
    found = re.search(r"SQL_CONF_NOT_FOUND\] The SQL config \"?([^\" ]+)\"?", text)
    if found is None:
        return None
    return (
        f"there is no setting {found[1]}: list it under configuration: in the project's spec (if it"
        " is there, Spark hides it as a secret: read it from os.environ)"
    )


def _text_of(error: BaseException) -> str:
    message = getattr(error, "getMessage", None)
    own = message() if callable(message) else None
    return f"{own}\n{error}" if own else str(error)


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    # Spark ends the text of an analysis error with its plan.
    words = words.split("; 'Project", 1)[0].split(";\n", 1)[0]
    return words if len(words) <= _TEXT_MAX else f"{words[:_TEXT_MAX]}…"
