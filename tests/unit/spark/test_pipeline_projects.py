"""A project's spec is read, and what cannot be meant is refused with the place where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.project import load_project
from kafkaesque.spark.pipelines.templates import copy_template, template_names

pytest.importorskip("yaml")

SPEC = """
name: p
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaesque.a: "1"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "transformations" / "deep").mkdir(parents=True)
    (tmp_path / "transformations" / "a.py").write_text("")
    (tmp_path / "transformations" / "deep" / "b.sql").write_text("")
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    return tmp_path


@pytest.mark.parametrize("name", template_names())
def test_templates_can_be_read(name: str, tmp_path: Path) -> None:
    copy_template(name, tmp_path / "project")
    project = load_project(tmp_path / "project")
    assert project.bootstrap_servers
    assert project.sources


def test_paths_are_of_the_project_and_settings_of_the_run_come_last(folder: Path) -> None:
    project = load_project(folder, {"kafkaesque.a": "2", "spark.x": "y"})
    assert project.storage == f"file://{folder.resolve()}/storage"
    assert project.settings == {"kafkaesque.a": "2", "spark.x": "y"}
    assert [path.name for path in project.sources] == ["a.py", "b.sql"]


@pytest.mark.parametrize("name", template_names())
def test_a_new_project_runs_on_the_cluster_that_commands_ask(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_template(name, tmp_path / "project")
    monkeypatch.delenv("KAFKAESQUE_BOOTSTRAP_SERVER", raising=False)
    assert load_project(tmp_path / "project").bootstrap_servers == "127.0.0.1:9092"
    monkeypatch.setenv("KAFKAESQUE_BOOTSTRAP_SERVER", "broker-1:9192,broker-2:9192")
    project = load_project(tmp_path / "project")
    assert project.bootstrap_servers == "broker-1:9192,broker-2:9192"
    named = load_project(tmp_path / "project", {"kafkaesque.bootstrap.servers": "other:9092"})
    assert named.bootstrap_servers == "other:9092"


def test_what_the_environment_lacks_may_have_a_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "  kafkaesque.b: 'at ${env:A_PLACE:-a:-b}, ${env:A_PLACE:-}'\n"
    (folder / "spark-pipeline.yml").write_text(SPEC + settings)
    monkeypatch.delenv("A_PLACE", raising=False)
    assert load_project(folder).settings["kafkaesque.b"] == "at a:-b, "
    monkeypatch.setenv("A_PLACE", "")
    assert load_project(folder).settings["kafkaesque.b"] == "at a:-b, "
    monkeypatch.setenv("A_PLACE", "c")
    assert load_project(folder).settings["kafkaesque.b"] == "at c, c"


def test_secrets_may_stand_in_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "kafkaesque.sasl.jaas.config": 'Module required password="${env:A_SECRET}";',
        "kafkaesque.ssl.truststore.location": "a.pem",
        "kafkaesque.security.protocol": "SASL_SSL",
        "spark.x": "${env:A_SECRET}",
    }
    settings = "".join(f"  {name}: '{value}'\n" for name, value in given.items())
    (folder / "spark-pipeline.yml").write_text(SPEC + settings)
    with pytest.raises(WrongProject, match="no environment variable A_SECRET"):
        load_project(folder)
    monkeypatch.setenv("A_SECRET", "hidden-word")
    project = load_project(folder)
    assert project.settings["spark.x"] == "${env:A_SECRET}"
    assert project.security_options == {
        "kafka.sasl.jaas.config": 'Module required password="hidden-word";',
        "kafka.ssl.truststore.location": "a.pem",
        "kafka.security.protocol": "SASL_SSL",
    }


def test_a_storage_elsewhere_is_left_as_it_is(folder: Path) -> None:
    (folder / "spark-pipeline.yml").write_text(
        SPEC.replace("storage: storage", "storage: s3a://b/c")
    )
    assert load_project(folder).storage == "s3a://b/c"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name: p", "nam: p", "there is no field 'nam'; the nearest is name"),
        ("name: p", "", "the field name is needed, as a text"),
        ("storage: storage", "storage: 5", "the field storage is needed, as a text"),
        ('kafkaesque.a: "1"', "kafkaesque.a: 1", "kafkaesque.a has to be a text, and 1 is none"),
        ("name: p", "name: [p", "is not YAML: "),
        ("transformations/**", "transformation/**", "no file matches what libraries: lists"),
        ("transformations/**", "t*/a.py", "'t*/a.py' is neither a file nor a directory"),
        ("  - glob:", "  - blob:", "is not - glob: include:"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_meant(folder: Path, old: str, new: str, sentence: str) -> None:
    (folder / "spark-pipeline.yml").write_text(SPEC.replace(old, new))
    with pytest.raises(WrongProject) as refused:
        load_project(folder)
    assert sentence in refused.value.message
    assert str(folder) in refused.value.message


def test_files_of_another_kind(folder: Path) -> None:
    (folder / "transformations" / "notes.txt").write_text("")
    with pytest.raises(WrongProject, match=r"notes.txt is neither .py nor .sql"):
        load_project(folder)


def test_a_setting_that_the_project_does_not_have(folder: Path) -> None:
    with pytest.raises(WrongProject, match=r"no setting kafkaesque.b in .*nearest is kafkaesque.a"):
        load_project(folder, {"kafkaesque.b": "2"})


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(WrongProject, match=r"is no project: there is no spark-pipeline.yml in it"):
        load_project(tmp_path)


def test_a_table_has_one_full_name(folder: Path) -> None:
    (folder / "spark-pipeline.yml").write_text(f"{SPEC}\ndatabase: Sales\n")
    name = load_project(folder).full_name
    assert name("Orders") == name("sales.orders") == name("spark_catalog.sales.ORDERS")
    assert name("Orders") == ("spark_catalog", "sales", "orders")


@pytest.mark.parametrize(
    "storage", ["my storage", "50%", "file:///tmp/a b", "s3a://b/c d", "tab\\t", "#1", "a?"]
)
def test_paths_that_spark_would_mistake(folder: Path, storage: str) -> None:
    (folder / "spark-pipeline.yml").write_text(
        SPEC.replace("storage: storage", f'storage: "{storage}"')
    )
    with pytest.raises(WrongProject, match="Spark would keep checkpoints elsewhere"):
        load_project(folder)
