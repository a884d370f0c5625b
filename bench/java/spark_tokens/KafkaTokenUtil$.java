package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

/** Says that there are no delegation tokens. */
public final class KafkaTokenUtil$ {
    public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

    public boolean needTokenUpdate(Map<String, Object> settings, Option<?> tokens) {
        return false;
    }

    public Option<?> findMatchingTokenClusterConfig(SparkConf configuration, String servers) {
        return Option.empty();
    }
}
