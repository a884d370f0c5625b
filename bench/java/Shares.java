import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Java's share consumer, which says what it is given and what becomes of it.
 *
 * <pre>
 * explicit SERVERS TOPIC GROUP   each record is acknowledged by what it says: "line N" is released
 *                                the first time where N ends with 3, rejected where it ends with 5,
 *                                renewed once where it ends with 7, and accepted otherwise; "slow"
 *                                is renewed until SLOW_MS are over
 * implicit SERVERS TOPIC GROUP   each record is accepted by the poll after it
 * </pre>
 *
 * It ends in order when standard input ends. It prints lines of words, with tabs between them:
 * "given", "renewed", "done" and "doubt", each with partition, offset and delivery count; "given"
 * with the value, the others with the kind of the acknowledgement. "doubt" is what the broker has
 * not confirmed.
 */
public final class Shares {
    private static final Duration WAIT = Duration.ofMillis(500);
    private static final long SLOW_MS = 20_000;
    private static final long PAUSE_MS = 100;

    private static volatile boolean isStopping = false;

    private record Place(int partition, long offset) {}

    /** A record, and which time it was given. */
    private record Attempt(int partition, long offset, int count) {
        static Attempt of(ConsumerRecord<String, String> record) {
            int count = record.deliveryCount().map(Short::intValue).orElse(0);
            return new Attempt(record.partition(), record.offset(), count);
        }

        void say(String what, String more) {
            System.out.println(
                    what + '\t' + partition + '\t' + offset + '\t' + count + '\t' + more);
            System.out.flush();
        }
    }

    private final KafkaShareConsumer<String, String> consumer;

    /** Since when records are kept that were renewed. */
    private final Map<Attempt, Long> renewedSince = new HashMap<>();

    private Shares(Properties properties) {
        consumer =
                new KafkaShareConsumer<>(
                        properties, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] words) throws InterruptedException {
        Properties properties = new Properties();
        properties.put("share.acknowledgement.mode", words[0]);
        properties.put("bootstrap.servers", words[1]);
        properties.put("group.id", words[3]);
        properties.put("max.poll.records", "50");
        Thread watcher = new Thread(Shares::awaitEndOfInput);
        watcher.setDaemon(true);
        watcher.start();
        Shares shares = new Shares(properties);
        shares.consumer.subscribe(List.of(words[2]));
        if (words[0].equals("explicit")) {
            while (!isStopping) {
                shares.explicitly();
            }
        } else {
            shares.implicitly();
        }
        shares.consumer.close();
    }

    private static void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException error) {
            System.err.println("standard input: " + error);
        }
        isStopping = true;
    }

    private AcknowledgeType fateOf(Attempt attempt, String value) {
        Long since = renewedSince.get(attempt);
        if (value.equals("slow")) {
            boolean isOver = since != null && System.currentTimeMillis() - since > SLOW_MS;
            return isOver ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW;
        }
        return switch (value.charAt(value.length() - 1)) {
            case '3' -> attempt.count() == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
            case '5' -> AcknowledgeType.REJECT;
            case '7' -> since == null ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT;
            default -> AcknowledgeType.ACCEPT;
        };
    }

    /** What was renewed is given by the next poll once more, which is no other delivery. */
    private void explicitly() throws InterruptedException {
        ConsumerRecords<String, String> records = consumer.poll(WAIT);
        Map<Attempt, AcknowledgeType> asked = new HashMap<>();
        boolean isNew = false;
        for (ConsumerRecord<String, String> record : records) {
            Attempt attempt = Attempt.of(record);
            if (!renewedSince.containsKey(attempt)) {
                attempt.say("given", record.value());
                isNew = true;
            }
            AcknowledgeType kind = fateOf(attempt, record.value());
            if (kind == AcknowledgeType.RENEW) {
                renewedSince.putIfAbsent(attempt, System.currentTimeMillis());
            } else {
                renewedSince.remove(attempt);
            }
            consumer.acknowledge(record, kind);
            asked.put(attempt, kind);
        }
        if (!asked.isEmpty()) {
            Map<Integer, Boolean> isConfirmed = new HashMap<>();
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each :
                    consumer.commitSync().entrySet()) {
                isConfirmed.put(each.getKey().partition(), each.getValue().isEmpty());
                each.getValue().ifPresent(error -> System.err.println("commit: " + error));
            }
            asked.forEach(
                    (attempt, kind) -> {
                        boolean isDone = isConfirmed.getOrDefault(attempt.partition(), false);
                        String done = kind == AcknowledgeType.RENEW ? "renewed" : "done";
                        attempt.say(isDone ? done : "doubt", kind.name());
                    });
        }
        if (!isNew && !records.isEmpty()) {
            Thread.sleep(PAUSE_MS);
        }
    }

    private void implicitly() {
        // The callback does not know which delivery it is.
        Map<Place, Attempt> newest = new HashMap<>();
        consumer.setAcknowledgementCommitCallback(
                (offsets, error) -> {
                    if (error != null) {
                        System.err.println("acknowledgement: " + error);
                    }
                    String what = error == null ? "done" : "doubt";
                    offsets.forEach(
                            (partition, each) -> {
                                for (long offset : each) {
                                    newest.get(new Place(partition.partition(), offset))
                                            .say(what, "ACCEPT");
                                }
                            });
                });
        while (!isStopping) {
            for (ConsumerRecord<String, String> record : consumer.poll(WAIT)) {
                Attempt attempt = Attempt.of(record);
                attempt.say("given", record.value());
                newest.put(new Place(attempt.partition(), attempt.offset()), attempt);
            }
        }
        consumer.commitSync();
    }
}
