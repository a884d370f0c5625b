"""Delays per carrier and hour, with the weather that the flights had: from topics to a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
brokers = {
    "kafka.bootstrap.servers": spark.conf.get("kafkaesque.bootstrap.servers"),
    "optionsFile": spark.conf.get("kafkaesque.options.file"),
}
flights_topic = spark.conf.get("kafkaesque.flights.topic")
weather_topic = spark.conf.get("kafkaesque.weather.topic")
airlines_topic = spark.conf.get("kafkaesque.airlines.topic")
delays_topic = spark.conf.get("kafkaesque.delays.topic")
unreadable_topic = spark.conf.get("kafkaesque.unreadable.topic")
group = spark.conf.get("kafkaesque.delays.group")
watermark_delay = spark.conf.get("kafkaesque.watermark.delay")

#: What a line of each topic holds, NA where it is not known. A line that does not fit stands in
#: `malformed`.
FLIGHT = """
    id STRING, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT,
    arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING,
    origin STRING, dest STRING, air_time INT, distance INT, hour INT, minute INT,
    time_hour TIMESTAMP, malformed STRING
"""
WEATHER = """
    origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,
    wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE,
    visib DOUBLE, time_hour TIMESTAMP, malformed STRING
"""
#: An hour far ahead of its publishing is a clock that is wrong. It would move the watermark, and so
#: make everything late that is right.
IS_POSSIBLE = "malformed IS NULL AND time_hour < timestamp + INTERVAL 3 DAYS"
IS_FLIGHT = f"coalesce({IS_POSSIBLE} AND id IS NOT NULL, false)"
IS_WEATHER = f"coalesce({IS_POSSIBLE} AND origin IS NOT NULL, false)"

#: What is told of the flights of a carrier and hour. An end-of-data record has no carrier, so it
#: counts nowhere.
MEASURES = {
    "flights": f.count("carrier"),
    "departed": f.count("dep_delay"),
    "delayed": f.count_if(f.col("dep_delay") >= 15),
    "delay_sum": f.sum("dep_delay"),
    "delay_max": f.max("dep_delay"),
    "with_weather": f.count("weather.origin"),
    "in_rain": f.count_if(f.col("precip") > 0),
    "visibility_min": f.min("visib"),
    "wind_max": f.max("wind_speed"),
}


def read_lines(topic: str, columns: str, group: str) -> DataFrame:
    """Read a topic's lines, in columns; the group shows how far the query is.

    Without a limit: a micro-batch that takes every partition to its end is never ahead in one of
    them, so no record is late only because of the partition it is in.
    """
    lines = (
        spark.readStream.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", group)
        .option("columns", "key,value,topic,partition,offset,timestamp")
        .load()
    )
    csv = {"nullValue": "NA", "columnNameOfCorruptRecord": "malformed"}
    # Taken apart by `inline`, a line is parsed once and not for each column and condition.
    return lines.select(
        "*", f.inline(f.array(f.from_csv(f.col("value").cast("string"), columns, csv)))
    )


@dp.temporary_view
def flights() -> DataFrame:
    """Each flight once, as its id tells, if it comes before its hour is closed."""
    return (
        read_lines(flights_topic, FLIGHT, group)
        .where(IS_FLIGHT)
        .select("id", "time_hour", "carrier", "origin", "dep_delay")
        .withWatermark("time_hour", watermark_delay)
        .dropDuplicatesWithinWatermark(["id"])
    )


@dp.temporary_view
def weather() -> DataFrame:
    """The first observation of each airport and hour."""
    return (
        read_lines(weather_topic, WEATHER, group)
        .where(IS_WEATHER)
        .select("origin", "time_hour", "precip", "visib", "wind_speed")
        .withWatermark("time_hour", watermark_delay)
        .dropDuplicatesWithinWatermark(["origin", "time_hour"])
    )


@dp.temporary_view
def airlines() -> DataFrame:
    """The newest name of each carrier: a compacted topic as a table."""
    names = (
        spark.read.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", airlines_topic)
        .load()
    )
    return names.groupBy(f.col("key").cast("string").alias("carrier")).agg(
        f.max_by(f.col("value").cast("string"), "offset").alias("name")
    )


dp.create_sink("delays", "kafkaesque", {**brokers, "topic": delays_topic})
dp.create_sink("unreadable", "kafkaesque", {**brokers, "topic": unreadable_topic})


@dp.append_flow(target="delays", name="delays_per_carrier_and_hour")
def delays_per_carrier_and_hour() -> DataFrame:
    """Join each flight with its hour's weather, add up by carrier and hour, name the carrier.

    An hour is written once, when no flight of it can come any more.
    """
    flights = spark.readStream.table("flights").alias("flights")
    weather = spark.readStream.table("weather").alias("weather")
    same_place_and_hour = (f.col("flights.origin") == f.col("weather.origin")) & (
        f.col("flights.time_hour") == f.col("weather.time_hour")
    )
    by_hour = (
        flights.join(weather, same_place_and_hour, "left")
        .groupBy(f.window("flights.time_hour", "1 hour"), "carrier")
        .agg(*[measure.alias(name) for name, measure in MEASURES.items()])
        .where("flights > 0")
        .join(spark.read.table("airlines"), "carrier", "left")
    )
    hour = f.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("hour")
    return by_hour.select(
        f.concat_ws(" ", "carrier", hour).alias("key"),
        f.to_json(f.struct("carrier", "name", hour, *MEASURES)).alias("value"),
    )


@dp.append_flow(target="unreadable", name="unreadable_lines")
def unreadable_lines() -> DataFrame:
    """Keep what is neither a flight nor weather aside, as it came, with where it was."""
    wheres = [
        f.struct(f.lit(name).alias("key"), f.col(name).cast("string").cast("binary").alias("value"))
        for name in ("topic", "partition", "offset")
    ]
    flights, weather = [
        read_lines(topic, columns, f"{group}.unreadable")
        .where(f"NOT {is_readable}")
        .select("key", "value", f.array(*wheres).alias("headers"))
        for topic, columns, is_readable in (
            (flights_topic, FLIGHT, IS_FLIGHT),
            (weather_topic, WEATHER, IS_WEATHER),
        )
    ]
    return flights.union(weather)
