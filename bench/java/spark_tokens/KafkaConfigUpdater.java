package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Collects the settings of a Kafka client for Spark's connector. Stands where Spark's library of
 * delegation tokens would: without secured connections there is nothing to authenticate.
 */
public final class KafkaConfigUpdater {
    private final Map<String, Object> settings;

    public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, Object> given) {
        settings = new HashMap<>(CollectionConverters.asJava(given));
    }

    public KafkaConfigUpdater set(String name, Object value) {
        settings.put(name, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String name, Object value) {
        settings.putIfAbsent(name, value);
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option<?> tokens) {
        return this;
    }

    public Map<String, Object> build() {
        return settings;
    }
}
