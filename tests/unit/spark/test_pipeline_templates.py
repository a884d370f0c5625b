"""Projects are made of templates, and nothing is written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.templates import copy_template, template_names


@pytest.mark.parametrize("name", template_names())
def test_a_project_is_a_copy_of_its_template(name: str, tmp_path: Path) -> None:
    files = {str(path) for path in copy_template(name, tmp_path / "project")}
    assert {"spark-pipeline.yml", "README.md", ".gitignore"} <= files
    assert any(file.startswith("transformations/") for file in files)
    assert not any("__pycache__" in file for file in files)


def test_the_blank_one_is_there() -> None:
    assert "blank" in template_names()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(WrongProject, match="is not empty"):
        copy_template("blank", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WrongProject, match="no template 'blnak'") as refused:
        copy_template("blnak", tmp_path / "project")
    assert refused.value.hint == "--template blank"
    assert not (tmp_path / "project").exists()


def test_no_project_is_made_where_it_could_not_run(tmp_path: Path) -> None:
    with pytest.raises(WrongProject, match=r"there is ' ' in the path .*my project/storage: Spark"):
        copy_template("blank", tmp_path / "my project")
    assert list(tmp_path.iterdir()) == []
    copy_template("blank", tmp_path / "projekt-Žižkov_1+2=3")


def test_a_project_from_the_blank_template_is_called_by_its_directory(tmp_path: Path) -> None:
    folder = tmp_path / "greetings"
    copy_template("blank", folder)
    assert 'name: "greetings"' in (folder / "spark-pipeline.yml").read_text().splitlines()
