import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's transactional producer and its reader of committed transactions.
 *
 * <pre>
 * produce SERVERS TOPIC ID SIZE   the lines of standard input, SIZE in a transaction; before every
 *                                 third one, its lines are sent with "aborted " before them, and
 *                                 aborted
 * copy SERVERS FROM TO ID COUNT   records from topic to topic, exactly once, until COUNT are copied
 * consume SERVERS TOPIC           what is committed up to now, a line each: key, tab, value
 * </pre>
 */
public final class Transactions {
    private static final Duration WAIT = Duration.ofMillis(500);

    public static void main(String[] words) throws IOException {
        switch (words[0]) {
            case "produce" -> produce(words[1], words[2], words[3], Integer.parseInt(words[4]));
            case "copy" ->
                    copy(words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
            case "consume" -> consume(words[1], words[2]);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static KafkaProducer<String, String> producer(String servers, String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("transactional.id", id);
        KafkaProducer<String, String> made =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    private static KafkaConsumer<String, String> consumer(String servers, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        if (group != null) {
            properties.put("group.id", group);
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static boolean isFatal(KafkaException error) {
        return error instanceof ProducerFencedException
                || error instanceof OutOfOrderSequenceException
                || error instanceof AuthorizationException
                || error instanceof UnsupportedVersionException;
    }

    /** Returns whether it was committed; if not, it was aborted and is to be done once more. */
    private static boolean inTransaction(KafkaProducer<String, String> producer, Runnable work) {
        try {
            producer.beginTransaction();
            work.run();
            while (true) {
                try {
                    producer.commitTransaction();
                    return true;
                } catch (TimeoutException error) {
                    System.err.println("commits once more: " + error);
                }
            }
        } catch (KafkaException error) {
            if (isFatal(error)) {
                throw error;
            }
            System.err.println("aborts and repeats: " + error);
            producer.abortTransaction();
            return false;
        }
    }

    private static void produce(String servers, String topic, String id, int size)
            throws IOException {
        List<String> lines;
        try (BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            lines = input.lines().collect(Collectors.toList());
        }
        try (KafkaProducer<String, String> producer = producer(servers, id)) {
            for (int at = 0, number = 0; at < lines.size(); at += size, number++) {
                List<String> part = lines.subList(at, Math.min(at + size, lines.size()));
                if (number % 3 == 0) {
                    producer.beginTransaction();
                    send(producer, topic, part, "aborted ");
                    producer.flush();
                    producer.abortTransaction();
                }
                while (!inTransaction(producer, () -> send(producer, topic, part, ""))) {}
            }
        }
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, List<String> lines, String mark) {
        for (String line : lines) {
            producer.send(new ProducerRecord<>(topic, mark + line));
        }
    }

    private static void copy(String servers, String from, String to, String id, int count) {
        int copied = 0;
        try (KafkaConsumer<String, String> consumer = consumer(servers, id);
                KafkaProducer<String, String> producer = producer(servers, id)) {
            consumer.subscribe(List.of(from));
            while (copied < count) {
                ConsumerRecords<String, String> records = consumer.poll(WAIT);
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (TopicPartition each : records.partitions()) {
                    offsets.put(each, new OffsetAndMetadata(consumer.position(each)));
                }
                boolean isCommitted =
                        inTransaction(
                                producer,
                                () -> {
                                    for (ConsumerRecord<String, String> each : records) {
                                        String value = each.value().toUpperCase();
                                        producer.send(new ProducerRecord<>(to, value));
                                    }
                                    producer.sendOffsetsToTransaction(
                                            offsets, consumer.groupMetadata());
                                });
                if (isCommitted) {
                    copied += records.count();
                } else {
                    records.partitions().forEach(each -> seekToCommitted(consumer, each));
                }
            }
        }
    }

    private static void seekToCommitted(
            KafkaConsumer<String, String> consumer, TopicPartition partition) {
        OffsetAndMetadata committed = consumer.committed(java.util.Set.of(partition)).get(partition);
        if (committed == null) {
            consumer.seekToBeginning(List.of(partition));
        } else {
            consumer.seek(partition, committed);
        }
    }

    private static void consume(String servers, String topic) {
        StringBuilder output = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = consumer(servers, null)) {
            List<TopicPartition> partitions =
                    consumer.partitionsFor(topic).stream()
                            .map(each -> new TopicPartition(each.topic(), each.partition()))
                            .collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                for (ConsumerRecord<String, String> each : consumer.poll(WAIT)) {
                    output.append(each.key()).append('\t').append(each.value()).append('\n');
                }
            }
        }
        System.out.print(output);
    }
}
