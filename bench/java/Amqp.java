import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Address;
import com.rabbitmq.client.AddressResolver;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ListAddressResolver;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * RabbitMQ's client for Java, unchanged, against a cluster: everything that a worker does with
 * queues.
 *
 * <pre>
 * URL [URL ...]
 * </pre>
 *
 * Says what it has done, a line each, and ends with an error at the first thing that is not as it
 * should be. When it says "kill N" it waits for a line: then the broker at the URL of that number,
 * from 0 on, is dead.
 */
public final class Amqp {
    private static final long PATIENCE_S = 60;
    private static final long SILENCE_MS = 500;
    private static final int COUNT = 2_000;

    private interface Step {
        void run(Connection connection) throws Exception;
    }

    public static void main(String[] urls) throws Exception {
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("declares", Amqp::declares);
        steps.put("confirms and returns", Amqp::confirms);
        steps.put("consumes with a prefetch", Amqp::consumes);
        steps.put("dead letters with x-death", Amqp::deadLetters);
        steps.put("transactions", Amqp::transactions);
        steps.put("direct reply-to", Amqp::replies);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(urls[0]);
        factory.setAutomaticRecoveryEnabled(false);
        try (Connection connection = factory.newConnection()) {
            for (Map.Entry<String, Step> step : steps.entrySet()) {
                step.getValue().run(connection);
                System.out.println(step.getKey());
            }
        }
        recovers(urls);
        System.exit(0);
    }

    // -- what is asked again and again

    private static void equal(Object found, Object wanted, String what) {
        if (!found.equals(wanted)) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Delivery delivery) {
        return new String(delivery.getBody(), StandardCharsets.UTF_8);
    }

    private static String declare(Channel channel, String name, Map<String, Object> arguments)
            throws IOException {
        return channel.queueDeclare(name, true, false, false, arguments).getQueue();
    }

    private static void publish(Channel channel, String exchange, String key, String body)
            throws IOException {
        channel.basicPublish(exchange, key, MessageProperties.PERSISTENT_BASIC, bytes(body));
    }

    private static BlockingQueue<Delivery> consume(
            Channel channel, String queue, boolean isAutomatic) throws IOException {
        BlockingQueue<Delivery> found = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, isAutomatic, (tag, delivery) -> found.add(delivery), tag -> {});
        return found;
    }

    private static Delivery next(BlockingQueue<Delivery> deliveries, String what)
            throws InterruptedException {
        Delivery delivery = deliveries.poll(PATIENCE_S, TimeUnit.SECONDS);
        if (delivery == null) {
            throw new AssertionError(what + ": nothing came");
        }
        return delivery;
    }

    private static void nothing(BlockingQueue<Delivery> deliveries, String what)
            throws InterruptedException {
        Delivery delivery = deliveries.poll(SILENCE_MS, TimeUnit.MILLISECONDS);
        if (delivery != null) {
            throw new AssertionError(what + ": " + text(delivery) + " came");
        }
    }

    private static void acknowledge(Channel channel, Delivery delivery, boolean isMultiple)
            throws IOException {
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), isMultiple);
    }

    // -- the steps

    private static void declares(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        for (String kind : List.of("direct", "fanout", "topic", "headers")) {
            channel.exchangeDeclare("java-" + kind, kind, true);
        }
        declare(channel, "java-declared", Map.of("x-max-length", 10));
        channel.queueBind("java-declared", "java-topic", "a.*.c");
        publish(channel, "java-topic", "a.b.c", "routed");
        publish(channel, "java-topic", "a.b", "not routed");
        GetResponse message = channel.basicGet("java-declared", true);
        equal(new String(message.getBody(), StandardCharsets.UTF_8), "routed", "what is there");
        equal(channel.basicGet("java-declared", true) == null, true, "whether that was all");
        try {
            declare(channel, "java-declared", Map.of("x-max-length", 11));
            throw new AssertionError("it was declared otherwise");
        } catch (IOException error) {
            AMQP.Channel.Close close =
                    (AMQP.Channel.Close)
                            ((ShutdownSignalException) error.getCause()).getReason();
            equal(close.getReplyCode(), AMQP.PRECONDITION_FAILED, "declaring it otherwise");
        }
        equal(channel.isOpen(), false, "whether the channel is open");
        Channel other = connection.createChannel();
        String made = other.queueDeclare().getQueue();
        equal(made.startsWith("amq.gen"), true, "whether its name was made up: " + made);
        equal(other.queueDelete("java-declared").getMessageCount(), 0, "how many were deleted");
        other.close();
    }

    private static void confirms(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        declare(channel, "java-confirmed", null);
        channel.confirmSelect();
        List<Return> returned = new ArrayList<>();
        channel.addReturnListener(returned::add);
        for (int number = 0; number < 500; number++) {
            publish(channel, "", "java-confirmed", Integer.toString(number));
        }
        channel.waitForConfirmsOrDie(PATIENCE_S * 1_000);
        channel.basicPublish("", "java-missing", true, null, bytes("x"));
        channel.waitForConfirmsOrDie(PATIENCE_S * 1_000);
        equal(returned.size(), 1, "how many were returned before the confirm");
        equal(returned.get(0).getReplyCode(), AMQP.NO_ROUTE, "why it is returned");
        equal(channel.queuePurge("java-confirmed").getMessageCount(), 500, "how many were purged");
        channel.close();
    }

    private static void consumes(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = declare(channel, "java-consumed", null);
        for (int number = 0; number < 12; number++) {
            publish(channel, "", queue, Integer.toString(number));
        }
        channel.basicQos(5);
        BlockingQueue<Delivery> deliveries = consume(channel, queue, false);
        List<Delivery> held = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            held.add(next(deliveries, "the first five"));
            equal(text(held.get(number)), Integer.toString(number), "the order");
            equal(held.get(number).getEnvelope().isRedeliver(), false, "whether it came before");
        }
        nothing(deliveries, "more than the prefetch");
        acknowledge(channel, held.get(2), true);
        for (int number = 5; number < 8; number++) {
            equal(text(next(deliveries, "three more")), Integer.toString(number), "the order");
        }
        channel.basicNack(held.get(3).getEnvelope().getDeliveryTag(), false, true);
        Delivery again = next(deliveries, "what was given back");
        equal(text(again), "3", "what came again");
        equal(again.getEnvelope().isRedeliver(), true, "whether it says that it came before");
        channel.close();
        Channel other = connection.createChannel();
        deliveries = consume(other, queue, false);
        for (int number = 3; number < 12; number++) {
            Delivery delivery = next(deliveries, "all that is left");
            equal(text(delivery), Integer.toString(number), "the order of what is left");
            boolean isRedelivered = delivery.getEnvelope().isRedeliver();
            equal(isRedelivered, number < 8, "whether it says that it came before");
            acknowledge(other, delivery, false);
        }
        nothing(deliveries, "more than there is");
        other.close();
    }

    private static void deadLetters(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.exchangeDeclare("java-dead", "direct", true);
        declare(channel, "java-buried", null);
        channel.queueBind("java-buried", "java-dead", "grave");
        Map<String, Object> route = new HashMap<>();
        route.put("x-dead-letter-exchange", "java-dead");
        route.put("x-dead-letter-routing-key", "grave");
        declare(channel, "java-alive", route);
        route.put("x-message-ttl", 200);
        declare(channel, "java-short-lived", route);
        BlockingQueue<Delivery> buried = consume(channel, "java-buried", true);
        BlockingQueue<Delivery> alive = consume(channel, "java-alive", false);
        publish(channel, "", "java-alive", "poison");
        long tag = next(alive, "the poison").getEnvelope().getDeliveryTag();
        channel.basicReject(tag, false);
        checkDeath(next(buried, "the rejected one"), "poison", "java-alive", "rejected");
        publish(channel, "", "java-short-lived", "late");
        checkDeath(next(buried, "the expired one"), "late", "java-short-lived", "expired");
        channel.close();
    }

    private static void checkDeath(Delivery delivery, String body, String queue, String reason) {
        equal(text(delivery), body, "the dead letter");
        equal(delivery.getEnvelope().getExchange(), "java-dead", "which way it came");
        equal(delivery.getEnvelope().getRoutingKey(), "grave", "which way it came");
        Map<String, Object> headers = delivery.getProperties().getHeaders();
        List<?> deaths = (List<?>) headers.get("x-death");
        equal(deaths.size(), 1, "how often it died");
        Map<?, ?> death = (Map<?, ?>) deaths.get(0);
        equal(death.get("queue").toString(), queue, "where it died");
        equal(death.get("reason").toString(), reason, "why it died");
        equal(death.get("count"), 1L, "how often it died there");
        equal(death.get("routing-keys").toString(), "[" + queue + "]", "its routing keys");
        equal(headers.get("x-first-death-reason").toString(), reason, "why it died first");
    }

    private static void transactions(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        Channel other = connection.createChannel();
        String from = declare(channel, "java-tx-from", null);
        String to = declare(channel, "java-tx-to", null);
        publish(channel, "", from, "order");
        BlockingQueue<Delivery> seen = consume(other, to, true);
        channel.txSelect();
        long tag = channel.basicGet(from, false).getEnvelope().getDeliveryTag();
        publish(channel, "", to, "rolled back");
        channel.basicAck(tag, false);
        nothing(seen, "what is not committed");
        channel.txRollback();
        publish(channel, "", to, "bill");
        channel.basicAck(tag, false);
        channel.txCommit();
        equal(text(next(seen, "what is committed")), "bill", "what is committed");
        nothing(seen, "what was rolled back");
        channel.close();
        equal(other.messageCount(from), 0L, "what is left of the orders");
        other.close();
    }

    private static void replies(Connection connection) throws Exception {
        Channel server = connection.createChannel();
        Channel client = connection.createChannel();
        declare(server, "java-questions", null);
        BlockingQueue<Delivery> questions = consume(server, "java-questions", true);
        BlockingQueue<Delivery> answers = consume(client, "amq.rabbitmq.reply-to", true);
        AMQP.BasicProperties.Builder properties = new AMQP.BasicProperties.Builder();
        properties.correlationId("7").replyTo("amq.rabbitmq.reply-to");
        client.basicPublish("", "java-questions", properties.build(), bytes("six times seven"));
        AMQP.BasicProperties asked = next(questions, "the question").getProperties();
        AMQP.BasicProperties.Builder answer = new AMQP.BasicProperties.Builder();
        answer.correlationId(asked.getCorrelationId());
        server.basicPublish("", asked.getReplyTo(), answer.build(), bytes("42"));
        Delivery answered = next(answers, "the answer");
        equal(text(answered), "42", "the answer");
        equal(answered.getProperties().getCorrelationId(), "7", "to which question");
        server.close();
        client.close();
    }

    // -- a broker is killed

    /** The library connects with another broker by itself, and consumes there as before. */
    private static void recovers(String[] urls) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(urls[0]);
        factory.setAutomaticRecoveryEnabled(true);
        factory.setTopologyRecoveryEnabled(true);
        factory.setNetworkRecoveryInterval(200);
        List<Address> addresses = new ArrayList<>();
        for (String url : urls) {
            URI parsed = URI.create(url);
            addresses.add(new Address(parsed.getHost(), parsed.getPort()));
        }
        // In their order: the first broker is the one that is to be killed.
        AddressResolver inOrder =
                new ListAddressResolver(addresses) {
                    @Override
                    public List<Address> maybeShuffle(List<Address> input) {
                        return input;
                    }
                };
        Connection consuming = factory.newConnection(inOrder);
        Channel channel = consuming.createChannel();
        String queue = declare(channel, "java-killed", Map.of("x-queue-type", "quorum"));
        channel.basicQos(20);
        BlockingQueue<Delivery> found = new LinkedBlockingQueue<>();
        channel.basicConsume(
                queue,
                false,
                (tag, delivery) -> {
                    found.add(delivery);
                    try {
                        acknowledge(channel, delivery, false);
                    } catch (AlreadyClosedException error) {
                        // It comes again.
                    }
                },
                tag -> {});
        int[] attempted = new int[COUNT];
        CountDownLatch started = new CountDownLatch(1);
        Thread publisher =
                new Thread(
                        () -> {
                            try {
                                publishAll(factory, addresses, queue, attempted, started);
                            } catch (Exception error) {
                                throw new AssertionError("publishing", error);
                            }
                        });
        publisher.setUncaughtExceptionHandler(
                (thread, error) -> {
                    error.printStackTrace();
                    System.exit(1);
                });
        publisher.start();
        equal(started.await(2 * PATIENCE_S, TimeUnit.SECONDS), true, "whether it publishes");
        System.out.println("kill 0");
        if (System.in.read() < 0) {
            throw new AssertionError("nobody says that the broker is dead");
        }
        publisher.join(2 * PATIENCE_S * 1_000);
        equal(publisher.isAlive(), false, "whether it publishes after all");
        Map<Integer, Integer> seen = new HashMap<>();
        int again = 0;
        while (seen.size() < COUNT) {
            Delivery delivery = next(found, seen.size() + " of all messages");
            int number = Integer.parseInt(text(delivery));
            if (seen.merge(number, 1, Integer::sum) > attempted[number]) {
                again++;
                boolean isRedelivered = delivery.getEnvelope().isRedeliver();
                equal(isRedelivered, true, "whether " + number + " says that it came before");
            }
        }
        consuming.close();
        System.out.printf("recovers: %d confirmed and delivered, %d again%n", COUNT, again);
    }

    /** What is not confirmed is sent again, over a connection with the next broker. */
    private static void publishAll(
            ConnectionFactory factory,
            List<Address> addresses,
            String queue,
            int[] attempted,
            CountDownLatch started)
            throws InterruptedException {
        int number = 0;
        for (int at = 0; number < COUNT; at++) {
            ConnectionFactory once = factory.clone();
            once.setAutomaticRecoveryEnabled(false);
            Address address = addresses.get(at % addresses.size());
            try (Connection connection = once.newConnection(List.of(address))) {
                Channel channel = connection.createChannel();
                channel.confirmSelect();
                while (number < COUNT) {
                    attempted[number]++;
                    publish(channel, "", queue, Integer.toString(number));
                    channel.waitForConfirmsOrDie(PATIENCE_S * 1_000);
                    number++;
                    if (number == COUNT / 4) {
                        started.countDown();
                    }
                }
            } catch (IOException | TimeoutException | ShutdownSignalException error) {
                System.err.println("publishes elsewhere: " + error);
                Thread.sleep(100);
            }
        }
    }
}
