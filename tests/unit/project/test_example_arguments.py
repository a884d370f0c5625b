"""The recipes find the cluster as the commands do: option, environment, this machine."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
VARIABLE = "KAFKAESQUE_BOOTSTRAP_SERVER"


def server_of(recipe: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", [recipe, *arguments])
    found = importlib.import_module(f"examples.{recipe}").parse_arguments().bootstrap_server
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_asks_the_cluster_that_commands_ask(
    recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert server_of(recipe, monkeypatch) == "127.0.0.1:9092"
    monkeypatch.setenv(VARIABLE, "")
    assert server_of(recipe, monkeypatch) == "127.0.0.1:9092"
    monkeypatch.setenv(VARIABLE, "broker-1:9192")
    assert server_of(recipe, monkeypatch) == "broker-1:9192"
    assert server_of(recipe, monkeypatch, "--bootstrap-server", "other:9092") == "other:9092"
