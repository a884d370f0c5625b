import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams counts the words of one topic into another, exactly once, until its standard input
 * ends.
 *
 * <pre>WordCount SERVERS FROM TO APPLICATION DIRECTORY</pre>
 */
public final class WordCount {
    public static void main(String[] words) throws IOException, InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(words[1], Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(words[2], Produced.with(Serdes.String(), Serdes.String()));

        Properties properties = new Properties();
        properties.put("bootstrap.servers", words[0]);
        properties.put("application.id", words[3]);
        properties.put("state.dir", words[4]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("replication.factor", "3");
        properties.put("num.stream.threads", "2");
        // One that was killed is to be replaced soon.
        properties.put("consumer.session.timeout.ms", "6000");
        properties.put("consumer.heartbeat.interval.ms", "1500");

        CountDownLatch isRunning = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener(
                (state, before) -> {
                    if (state == KafkaStreams.State.RUNNING) {
                        isRunning.countDown();
                    } else if (state == KafkaStreams.State.ERROR) {
                        System.err.println("Kafka Streams has given up");
                        Runtime.getRuntime().halt(1);
                    }
                });
        streams.start();
        isRunning.await();
        System.out.println("running");
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofSeconds(30));
    }
}
