"""The tutorial for Spark ends with something that works."""

from pathlib import Path

from tests.documentation.table import pages_run_by, this_file
from tests.tutorials import Reader

TIMEOUT_S = 600


def test_a_reader_of_the_tutorial_sees_what_it_says(bootstrap_servers: str, tmp_path: Path) -> None:
    reader = Reader("spark-pipeline.md", tmp_path, {"127.0.0.1:9092": bootstrap_servers}, TIMEOUT_S)
    reader.follow()
    assert pages_run_by(this_file(__file__)) == ["docs/tutorials/spark-pipeline.md"]
    assert (reader.saved, reader.typed, reader.compared) == (1, 11, 2)
