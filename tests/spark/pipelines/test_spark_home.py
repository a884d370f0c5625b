"""The home of Spark that its own processes are given: whole, but for a second PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkaesque.spark.pipelines.spark_home import make_light_home, spark_home


def test_all_of_spark_is_there_but_its_copy_of_pyspark(tmp_path: Path) -> None:
    home = make_light_home(tmp_path / "home")
    assert {path.name for path in spark_home().iterdir()} - {
        path.name for path in home.iterdir()
    } == {"python"}
    assert (home / "bin" / "spark-submit").is_file()


def test_workers_load_the_pyspark_that_is_installed(spark: Any) -> None:
    def places(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyspark

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [pyspark.__file__]})

    (row,) = spark.range(1).mapInArrow(places, "place string").collect()
    assert row.place == str(spark_home() / "__init__.py")
