import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The load of a share group: Java's producer, and share consumers that accept what they are given by
 * the next poll. Prints figures, a line each: name, "=", number.
 *
 * <pre>
 * drain SERVERS TOPIC GROUP CONSUMERS BYTES COUNT           how long the group takes for records that
 *                                                           are there: from the first one that is
 *                                                           given until all are acknowledged
 * paced SERVERS TOPIC GROUP CONSUMERS BYTES COUNT RATE      from when a record is due to be sent
 *                                                           until it is given; a fifth of the
 *                                                           records, the first ones, do not count
 * </pre>
 */
public final class ShareLoad {
    private static final Duration WAIT = Duration.ofMillis(100);
    private static final long TIMEOUT_NS = 300_000_000_000L;
    private static final int WARM_UP = 5;

    private final Properties properties = new Properties();
    private final String topic;
    private final int bytes;
    private final int count;
    private final AtomicLong firstAt = new AtomicLong();
    private final AtomicLong lastAt = new AtomicLong();
    private final AtomicLong acknowledged = new AtomicLong();
    private final AtomicLong given = new AtomicLong();
    private final long[] waited;

    private ShareLoad(String[] words) {
        properties.put("bootstrap.servers", words[1]);
        topic = words[2];
        properties.put("group.id", words[3]);
        bytes = Integer.parseInt(words[5]);
        count = Integer.parseInt(words[6]);
        waited = new long[count];
    }

    public static void main(String[] words) throws Exception {
        ShareLoad load = new ShareLoad(words);
        int consumers = Integer.parseInt(words[4]);
        if (words[0].equals("drain")) {
            load.produce(0);
            load.end(load.start(consumers));
            double seconds = (load.lastAt.get() - load.firstAt.get()) / 1e9;
            System.out.println("seconds=" + seconds);
        } else {
            List<Thread> threads = load.start(consumers);
            load.produce(Double.parseDouble(words[7]));
            load.end(threads);
            long[] counted = Arrays.copyOfRange(load.waited, load.count / WARM_UP, load.count);
            Arrays.sort(counted);
            System.out.println("p50_ms=" + counted[counted.length / 2] / 1e6);
            System.out.println("p99_ms=" + counted[counted.length * 99 / 100] / 1e6);
        }
        System.out.println("given=" + load.given.get());
        System.exit(0);
    }

    /** Sends all records, at a rate a second, or at once. Each says its number and when it is due. */
    private void produce(double rate) throws ExecutionException, InterruptedException {
        Properties ours = new Properties();
        ours.putAll(properties);
        ours.remove("group.id");
        ours.put("linger.ms", rate > 0 ? "0" : "5");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(ours, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>(count);
            producer.partitionsFor(topic);
            long begun = System.nanoTime();
            for (int number = 0; number < count; number++) {
                long due = rate > 0 ? begun + (long) (number * 1e9 / rate) : begun;
                long early = due - System.nanoTime();
                if (early > 0) {
                    Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
                }
                ByteBuffer value = ByteBuffer.allocate(bytes).putInt(number).putLong(due);
                sent.add(producer.send(new ProducerRecord<>(topic, value.array())));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private List<Thread> start(int consumers) {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < consumers; number++) {
            Thread thread = new Thread(this::consume);
            thread.setUncaughtExceptionHandler(
                    (broken, error) -> {
                        error.printStackTrace();
                        System.exit(1);
                    });
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    private void consume() {
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(
                        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.setAcknowledgementCommitCallback(
                    (offsets, error) -> {
                        if (error != null) {
                            System.err.println("acknowledgement: " + error);
                            return;
                        }
                        long done = 0;
                        for (var each : offsets.values()) {
                            done += each.size();
                        }
                        if (acknowledged.addAndGet(done) >= count) {
                            lastAt.compareAndSet(0, System.nanoTime());
                        }
                    });
            consumer.subscribe(List.of(topic));
            while (acknowledged.get() < count) {
                var records = consumer.poll(WAIT);
                long now = System.nanoTime();
                if (!records.isEmpty()) {
                    firstAt.compareAndSet(0, now);
                }
                for (ConsumerRecord<byte[], byte[]> each : records) {
                    ByteBuffer value = ByteBuffer.wrap(each.value());
                    waited[value.getInt()] = now - value.getLong();
                    given.incrementAndGet();
                }
            }
        }
    }

    private void end(List<Thread> threads) throws InterruptedException {
        long deadline = System.nanoTime() + TIMEOUT_NS;
        while (acknowledged.get() < count) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(
                        acknowledged.get() + " of " + count + " records were acknowledged in time");
            }
            Thread.sleep(10);
        }
        for (Thread each : threads) {
            each.join();
        }
    }
}
