import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.RestService;
import io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import io.confluent.kafka.schemaregistry.client.rest.entities.Rule;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleKind;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleMode;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleSet;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaString;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.subject.TopicRecordNameStrategy;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Confluent's serializers and client for Java, unchanged, against a cluster's schema registry.
 *
 * <pre>
 * open SERVERS URL URL ...
 * secured SERVERS URL CA USER PASSWORD
 * </pre>
 *
 * Says what it has done, a line each, and ends with an error at the first thing that is not as it
 * should be. When it says "ask JSON" it waits for a line: then it has been done.
 */
public final class Registry {
    private static final Duration WAIT = Duration.ofMillis(500);
    private static final long PATIENCE_MS = 60_000;
    private static final int CACHED = 100;
    private static final String LONG_FIELD = "{'name':'id','type':'long'}";
    private static final Schema FIRST = record("Order", LONG_FIELD);
    private static final Schema SECOND =
            record("Order", LONG_FIELD, "{'name':'note','type':'string','default':'none'}");
    private static final Schema UNFIT =
            record("Order", LONG_FIELD, "{'name':'to','type':'string'}");
    private static final String ADDRESS =
            record("Address", "{'name':'city','type':'string'}").toString();
    private static final String CUSTOMER =
            text(
                    "{'type':'record','name':'Customer','namespace':'shop','fields':["
                            + "{'name':'home','type':'shop.Address'}]}");
    private static final Schema EVERYTHING =
            record(
                    "Everything",
                    "{'name':'long','type':'long'}",
                    "{'name':'text','type':'string'}",
                    "{'name':'isTrue','type':'boolean'}",
                    "{'name':'real','type':'double'}",
                    "{'name':'maybe','type':['null','string'],'default':null}",
                    "{'name':'many','type':{'type':'array','items':'int'}}",
                    "{'name':'named','type':{'type':'map','values':'long'}}",
                    "{'name':'kind','type':{'type':'enum','name':'Kind','symbols':['A','B']}}",
                    "{'name':'home','type':" + ADDRESS + "}");
    private static final String EVERYTHING_JSON =
            text(
                    "{'long':1099511627776,'text':'ä','isTrue':true,'real':0.5,'maybe':null,"
                            + "'many':[1,-2],'named':{'b':2},'kind':'B','home':{'city':'Ulm'}}");

    private final ObjectMapper json = new ObjectMapper();
    private final BufferedReader answers =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final Map<String, Object> kafka;
    private final Map<String, Object> registry;
    private final List<String> urls;
    private final SchemaRegistryClient client;

    private interface Step {
        void run() throws Exception;
    }

    private Registry(Map<String, Object> kafka, Map<String, Object> registry, List<String> urls) {
        this.kafka = kafka;
        this.registry = registry;
        this.urls = urls;
        this.client = newClient(registry);
    }

    public static void main(String[] words) throws Exception {
        Map<String, Step> steps = new LinkedHashMap<>();
        Map<String, Object> kafka = new HashMap<>(Map.of("bootstrap.servers", words[1]));
        if (words[0].equals("secured")) {
            secure(words, kafka, steps);
        } else {
            List<String> urls = Arrays.asList(words).subList(2, words.length);
            new Registry(kafka, Map.of(), urls).open(steps);
        }
        for (Map.Entry<String, Step> step : steps.entrySet()) {
            step.getValue().run();
            System.out.println(step.getKey());
        }
        System.exit(0);
    }

    private void open(Map<String, Step> steps) {
        steps.put("registers keys and values, writes and reads", this::writesAndReads);
        steps.put("evolves a schema", this::evolves);
        steps.put("is refused a schema that does not fit (409)", this::isRefused);
        steps.put("auto.register.schemas=false: takes what is there", this::registersNothing);
        steps.put("use.latest.version writes with the last version", this::usesLatest);
        steps.put("use.schema.id writes with one that is named", this::usesId);
        steps.put("finds a schema that was registered in another spelling", this::findsSpellings);
        steps.put("two kinds of records in a topic, by TopicRecordNameStrategy", this::mixes);
        steps.put("references: a record of another subject", this::refers);
        steps.put("reads what Python has written, and Python what Java has", this::meetsPython);
        steps.put("Python's JSON Schema and Protocol Buffers, by the client", this::seesOthers);
        steps.put("levels, modes and deleting", this::manages);
        steps.put("rules and metadata are refused (42201)", this::keepsNoRules);
        steps.put("a topic with schema.validation takes Avro and refuses text", this::isValidated);
        steps.put("goes on when a broker has died", this::outlives);
    }

    private static void secure(String[] words, Map<String, Object> kafka, Map<String, Step> steps) {
        String url = words[2], user = words[4], password = words[5];
        Map<String, Object> trust =
                Map.of("ssl.truststore.type", "PEM", "ssl.truststore.location", words[3]);
        kafka.putAll(trust);
        kafka.put("security.protocol", "SASL_SSL");
        kafka.put("sasl.mechanism", "SCRAM-SHA-512");
        kafka.put(
                "sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\""
                        + user + "\" password=\"" + password + "\";");
        Map<String, Object> stranger = new HashMap<>();
        trust.forEach((name, value) -> stranger.put("schema.registry." + name, value));
        Registry byNobody = new Registry(kafka, stranger, List.of(url));
        Registry byInfo = new Registry(kafka, with(stranger, user + ":" + password), List.of(url));
        Registry byLiar = new Registry(kafka, with(stranger, user + ":wrong"), List.of(url));
        String named = url.replace("://", "://" + user + ":" + password + "@");
        Map<String, Object> source = new HashMap<>(stranger);
        source.put("basic.auth.credentials.source", "URL");
        Registry byUrl = new Registry(kafka, source, List.of(named));
        steps.put("over TLS with USER_INFO: registers, writes and reads", byInfo::writesAndReads);
        steps.put("over TLS with the password in the URL: evolves a schema", byUrl::evolves);
        steps.put("another subject is forbidden (403)", () -> byInfo.isDenied("bank-value", 40301));
        steps.put("a wrong password is refused (401)", () -> byLiar.isDenied("shop-value", 401));
        steps.put("nobody is refused (401)", () -> byNobody.isDenied("shop-value", 401));
    }

    private static Map<String, Object> with(Map<String, Object> options, String login) {
        Map<String, Object> found = new HashMap<>(options);
        found.put("basic.auth.credentials.source", "USER_INFO");
        found.put("basic.auth.user.info", login);
        return found;
    }

    // -- what is asked again and again

    private static String text(String quoted) {
        return quoted.replace('\'', '"');
    }

    private static Schema record(String name, String... fields) {
        String start = "{'type':'record','name':'" + name + "','namespace':'shop','fields':[";
        return new Schema.Parser().parse(text(start + String.join(",", fields) + "]}"));
    }

    private static GenericRecord order(Schema schema, long id) {
        GenericRecordBuilder made = new GenericRecordBuilder(schema).set("id", id);
        return (schema == UNFIT ? made.set("to", "Ulm") : made).build();
    }

    private static GenericRecord customer(Schema schema) {
        Schema home = schema.getField("home").schema();
        GenericRecord address = new GenericRecordBuilder(home).set("city", "Ulm").build();
        return new GenericRecordBuilder(schema).set("home", address).build();
    }

    private static GenericRecord everything() {
        Schema kind = EVERYTHING.getField("kind").schema();
        Schema home = EVERYTHING.getField("home").schema();
        return new GenericRecordBuilder(EVERYTHING)
                .set("long", 1L << 40)
                .set("text", "ä")
                .set("isTrue", true)
                .set("real", 0.5)
                .set("many", List.of(1, -2))
                .set("named", Map.of("b", 2L))
                .set("kind", new GenericData.EnumSymbol(kind, "B"))
                .set("home", new GenericRecordBuilder(home).set("city", "Ulm").build())
                .build();
    }

    private static void equal(Object found, Object wanted, String what) {
        if (!found.equals(wanted)) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
    }

    private SchemaRegistryClient newClient(Map<String, Object> options) {
        return new CachedSchemaRegistryClient(
                urls, CACHED, List.of(new AvroSchemaProvider()), options, Map.of());
    }

    /** Makes a topic that nobody else has. */
    private String topic(String name, Map<String, String> options) throws Exception {
        String topic = "shop-" + name + "-" + UUID.randomUUID().toString().substring(0, 8);
        try (Admin admin = Admin.create(kafka)) {
            int brokers = admin.describeCluster().nodes().get().size();
            NewTopic made = new NewTopic(topic, 1, (short) Math.min(3, brokers));
            admin.createTopics(List.of(made.configs(options))).all().get();
        }
        return topic;
    }

    private String topic(String name) throws Exception {
        return topic(name, Map.of());
    }

    /** Writes with Confluent's serializer and the options given. */
    private void send(String topic, Map<String, ?> options, Object... values) throws Exception {
        Map<String, Object> all = options(urls, options);
        all.put("key.serializer", KafkaAvroSerializer.class);
        all.put("value.serializer", KafkaAvroSerializer.class);
        try (KafkaProducer<Object, Object> producer = new KafkaProducer<>(all)) {
            for (Object value : values) {
                producer.send(new ProducerRecord<>(topic, "k", value)).get();
            }
        }
    }

    private Map<String, Object> options(List<String> urls, Map<String, ?> more) {
        Map<String, Object> all = new HashMap<>(kafka);
        all.putAll(registry);
        all.put("schema.registry.url", String.join(",", urls));
        all.putAll(more);
        return all;
    }

    /** Reads with Confluent's deserializer, which asks another broker than the one that wrote. */
    private List<Object> read(String topic, int count) throws Exception {
        Map<String, Object> all = options(List.of(urls.get(urls.size() - 1)), Map.of());
        all.put("key.deserializer", KafkaAvroDeserializer.class);
        all.put("value.deserializer", KafkaAvroDeserializer.class);
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<Object, Object> each : poll(topic, count, all)) {
            equal(String.valueOf(each.key()), "k", "the key");
            found.add(each.value());
        }
        return found;
    }

    private List<byte[]> readRaw(String topic, int count) throws Exception {
        Map<String, Object> all = new HashMap<>(kafka);
        all.put("key.deserializer", ByteArrayDeserializer.class);
        all.put("value.deserializer", ByteArrayDeserializer.class);
        List<ConsumerRecord<byte[], byte[]>> found = poll(topic, count, all);
        return found.stream().map(ConsumerRecord::value).toList();
    }

    private static <T> List<ConsumerRecord<T, T>> poll(
            String topic, int count, Map<String, Object> options) throws Exception {
        List<ConsumerRecord<T, T>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<T, T> consumer = new KafkaConsumer<>(options)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (found.size() < count) {
                if (System.currentTimeMillis() > end) {
                    throw new AssertionError(found.size() + " of " + count + " came of " + topic);
                }
                consumer.poll(WAIT).forEach(found::add);
            }
        }
        return found;
    }

    /** The ids of schemas that a topic's values begin with, after a zero. */
    private List<Integer> ids(String topic, int count) throws Exception {
        List<Integer> found = new ArrayList<>();
        for (byte[] each : readRaw(topic, count)) {
            equal(each[0], (byte) 0, "the first byte");
            found.add(ByteBuffer.wrap(each, 1, 4).getInt());
        }
        return found;
    }

    private static Throwable refusal(Callable<?> act) {
        try {
            act.call();
        } catch (Exception error) {
            return error;
        }
        throw new AssertionError("it was not refused");
    }

    /** Serializers hide the client's exception, and keep its message. */
    private static void refused(int code, Callable<?> act) {
        Throwable error = refusal(act);
        Throwable found = error;
        while (found.getCause() != null) {
            found = found.getCause();
        }
        if (!String.valueOf(found.getMessage()).endsWith("; error code: " + code)) {
            throw new AssertionError("it did not fail with " + code, error);
        }
    }

    private void ask(String what, String topic, Map<String, ?> more) throws Exception {
        ObjectNode asked = json.createObjectNode().put("do", what).put("topic", topic);
        more.forEach((name, value) -> asked.set(name, json.valueToTree(value)));
        System.out.println("ask " + json.writeValueAsString(asked));
        if (answers.readLine() == null) {
            throw new AssertionError("nobody answers");
        }
    }

    // -- steps

    private void writesAndReads() throws Exception {
        String topic = topic("orders");
        GenericRecord first = order(FIRST, 1), second = order(FIRST, 1L << 40);
        send(topic, Map.of(), first, null, second);
        equal(read(topic, 3), Arrays.asList(first, null, second), "what was read");
        int id = client.getLatestSchemaMetadata(topic + "-value").getId();
        equal(readRaw(topic, 3).get(1) == null, true, "that there is no value");
        equal(client.getId(topic + "-value", new AvroSchema(FIRST)), id, "the id by the schema");
        equal(client.getSchemaById(id).rawSchema(), FIRST, "the schema by its id");
        String key = client.getLatestSchemaMetadata(topic + "-key").getSchema();
        equal(key, "\"string\"", "the key's schema");
    }

    private void evolves() throws Exception {
        String topic = topic("evolving"), subject = topic + "-value";
        send(topic, Map.of(), order(FIRST, 1), order(SECOND, 2));
        equal(read(topic, 2), List.of(order(FIRST, 1), order(SECOND, 2)), "what was read");
        equal(client.getAllVersions(subject), List.of(1, 2), "the versions");
        equal(client.getVersion(subject, new AvroSchema(SECOND)), 2, "the second's version");
        try (KafkaAvroDeserializer reader = new KafkaAvroDeserializer()) {
            reader.configure(options(urls, Map.of()), false);
            Object old = reader.deserialize(topic, readRaw(topic, 2).get(0), SECOND);
            equal(old, order(SECOND, 1), "an old record, read by the new schema");
        }
    }

    private void isRefused() throws Exception {
        String topic = topic("refused"), subject = topic + "-value";
        send(topic, Map.of(), order(FIRST, 1));
        refused(409, () -> sent(topic, Map.of(), order(UNFIT, 2)));
        equal(client.testCompatibility(subject, new AvroSchema(UNFIT)), false, "whether it fits");
        List<String> why = client.testCompatibilityVerbose(subject, new AvroSchema(UNFIT));
        equal(why.size() == 1 && why.get(0).contains("/fields/to"), true, "why not: " + why);
        equal(client.testCompatibility(subject, new AvroSchema(SECOND)), true, "that it fits");
        equal(client.getAllVersions(subject), List.of(1), "the versions");
    }

    private Object sent(String topic, Map<String, ?> options, Object value) throws Exception {
        send(topic, options, value);
        return value;
    }

    private void registersNothing() throws Exception {
        String topic = topic("known");
        Map<String, Object> options = Map.of("auto.register.schemas", false);
        refused(40401, () -> sent(topic, options, order(FIRST, 1)));
        client.register(topic + "-key", new AvroSchema("\"string\""));
        client.register(topic + "-value", new AvroSchema(FIRST));
        send(topic, options, order(FIRST, 1));
        refused(40403, () -> sent(topic, options, order(SECOND, 2)));
        equal(read(topic, 1), List.of(order(FIRST, 1)), "what was read");
    }

    private void usesLatest() throws Exception {
        String topic = topic("latest"), subject = topic + "-value";
        send(topic, Map.of(), order(FIRST, 1));
        int last = client.register(subject, new AvroSchema(SECOND));
        String noted = SECOND.toString().replace("\"note\",", "\"note\",\"doc\":\"ours\",");
        Schema unknown = new Schema.Parser().parse(noted);
        Map<String, Object> options =
                Map.of("auto.register.schemas", false, "use.latest.version", true);
        send(topic, options, order(unknown, 2));
        equal(ids(topic, 2).get(1), last, "the id that is written");
        equal(read(topic, 2).get(1), order(SECOND, 2), "what was read");
        equal(client.getLatestSchemaMetadata(subject).getVersion(), 2, "the last version");
    }

    private void usesId() throws Exception {
        String topic = topic("by-id"), subject = topic + "-value";
        int id = client.register(subject, new AvroSchema(FIRST));
        client.register(subject, new AvroSchema(SECOND));
        client.register(topic + "-key", new AvroSchema("\"string\""));
        Map<String, Object> options =
                options(urls, Map.of("auto.register.schemas", false, "use.schema.id", id));
        try (KafkaAvroSerializer writer = new KafkaAvroSerializer();
                KafkaAvroDeserializer reader = new KafkaAvroDeserializer()) {
            writer.configure(options, false);
            reader.configure(options(urls, Map.of()), false);
            byte[] written = writer.serialize(topic, order(FIRST, 5));
            equal(ByteBuffer.wrap(written, 1, 4).getInt(), id, "the id that is written");
            equal(reader.deserialize(topic, written), order(FIRST, 5), "what was read");
        }
    }

    /** What somebody has registered from a file is what Java looks up, however it was written. */
    private void findsSpellings() throws Exception {
        String topic = topic("spelled"), subject = topic + "-value";
        RestService rest = new RestService(urls);
        String field = "{'type':{'type':'long'},'name':'id'}";
        String other = text("{'fields':[" + field + "],  'name':'shop.Order','type':'record'}");
        int id = rest.registerSchema(other, subject);
        client.register(topic + "-key", new AvroSchema("\"string\""));
        send(topic, Map.of("auto.register.schemas", false), order(FIRST, 1));
        send(topic, Map.of("normalize.schemas", true), order(FIRST, 2));
        equal(ids(topic, 2), List.of(id, id), "the ids that are written");
        equal(client.getAllVersions(subject), List.of(1), "the versions");
        equal(rest.getId(id).getSchemaString(), FIRST.toString(), "the text that is kept");
    }

    private void mixes() throws Exception {
        String topic = topic("mixed");
        Map<String, Object> options =
                Map.of("value.subject.name.strategy", TopicRecordNameStrategy.class);
        send(topic, options, order(FIRST, 1), everything());
        List<Object> found = read(topic, 2);
        equal(found.get(0), order(FIRST, 1), "the first record");
        sameJson(found.get(1));
        for (String name : List.of("shop.Order", "shop.Everything")) {
            equal(client.getAllVersions(topic + "-" + name), List.of(1), "the versions of " + name);
        }
    }

    private void sameJson(Object record) throws Exception {
        JsonNode found = json.readTree(record.toString());
        equal(found, json.readTree(EVERYTHING_JSON), "the record");
    }

    /** Registers a record that uses another subject's, writes and reads it. */
    private void refers() throws Exception {
        String topic = topic("customers"), addresses = topic("addresses") + "-value";
        client.register(addresses, new AvroSchema(ADDRESS));
        List<SchemaReference> references =
                List.of(new SchemaReference("shop.Address", addresses, 1));
        AvroSchema whole =
                new AvroSchema(CUSTOMER, references, Map.of("shop.Address", ADDRESS), null);
        int id = client.register(topic + "-value", whole);
        GenericRecord written = customer(whole.rawSchema());
        Map<String, Object> options =
                Map.of("auto.register.schemas", false, "use.latest.version", true);
        client.register(topic + "-key", new AvroSchema("\"string\""));
        send(topic, options, written);
        equal(ids(topic, 1), List.of(id), "the id that is written");
        equal(read(topic, 1), List.of(written), "what was read");
        SchemaRegistryClient other = newClient(registry);
        equal(other.getSchemaById(id).references(), references, "what it refers to");
        RestService rest = new RestService(urls);
        equal(rest.getReferencedBy(addresses, 1), List.of(id), "what refers to the address");
        refused(42206, () -> client.deleteSubject(addresses));
        ask("read", topic, Map.of("record", Map.of("home", Map.of("city", "Ulm"))));
        ask("write", topic, Map.of("schema", CUSTOMER, "references", references,
                "record", Map.of("home", Map.of("city", "Ulm"))));
        equal(ids(topic, 2).get(1), id, "the id that Python has written");
        equal(read(topic, 2).get(1), written, "what Python has written");
    }

    private void meetsPython() throws Exception {
        String topic = topic("python"), back = topic("java");
        JsonNode record = json.readTree(EVERYTHING_JSON);
        ask("write", topic, Map.of("schema", EVERYTHING.toString(), "record", record));
        sameJson(read(topic, 1).get(0));
        send(back, Map.of(), everything());
        ask("read", back, Map.of("record", record));
        // Both take one schema for the same.
        send(topic, Map.of(), everything());
        equal(client.getAllVersions(topic + "-value"), List.of(1), "the versions");
    }

    /** Confluent's client shows schemas of other languages, whatever parsers it has. */
    private void seesOthers() throws Exception {
        RestService rest = new RestService(urls);
        for (String kind : List.of("JSON", "PROTOBUF")) {
            String topic = topic(kind.toLowerCase()), subject = topic + "-value";
            ask("write-" + kind.toLowerCase(), topic, Map.of());
            int id = ids(topic, 1).get(0);
            SchemaString found = rest.getId(id, subject);
            equal(found.getSchemaType(), kind, "the language");
            equal(rest.getLatestVersion(subject).getId(), id, "the last version's id");
            List<SchemaReference> references =
                    Optional.ofNullable(found.getReferences()).orElse(List.of());
            String text = found.getSchemaString();
            equal(rest.registerSchema(text, kind, references, subject).getId(), id, "the id again");
            String unfit =
                    kind.equals("JSON")
                            ? text("{'type':'object','properties':{'id':{'type':'string'}}}")
                            : text("syntax = 'proto3'; package google.protobuf; message Else {}");
            refused(409, () -> rest.registerSchema(unfit, kind, references, subject));
            refused(42201, () -> rest.registerSchema("{", kind, references, subject));
        }
    }

    private void manages() throws Exception {
        String subject = "managed-" + UUID.randomUUID() + "-value";
        int id = client.register(subject, new AvroSchema(FIRST));
        refused(409, () -> client.register(subject, new AvroSchema(UNFIT)));
        refused(40408, () -> client.getCompatibility(subject));
        equal(client.updateCompatibility(subject, "NONE"), "NONE", "the level that is set");
        equal(client.getCompatibility(subject), "NONE", "the level");
        client.register(subject, new AvroSchema(UNFIT));
        client.deleteCompatibility(subject);
        refused(40408, () -> newClient(registry).getCompatibility(subject));
        equal(client.setMode("READONLY", subject), "READONLY", "the mode that is set");
        equal(client.getMode(subject), "READONLY", "the mode");
        refused(42205, () -> client.register(subject, new AvroSchema(SECOND)));
        client.deleteMode(subject);
        refused(40409, () -> client.getMode(subject));
        equal(client.getMode(), "READWRITE", "the mode of all");
        equal(client.getSchemas(subject, false, true).size(), 1, "the last versions");
        equal(client.getAllSubjectsById(id).contains(subject), true, "the schema's subjects");
        equal(client.deleteSchemaVersion(subject, "2"), 2, "the deleted version");
        equal(client.deleteSubject(subject), List.of(1), "the deleted versions");
        equal(client.getAllSubjectsByPrefix(subject), List.of(), "the subjects");
        equal(client.getAllSubjects(true).contains(subject), true, "those that are deleted");
        equal(client.deleteSubject(subject, true), List.of(1, 2), "what is gone for good");
        equal(client.getAllSubjects(true).contains(subject), false, "the subjects at the end");
    }

    /** Without its rules, a field that is to be encrypted would be written in the clear. */
    private void keepsNoRules() throws Exception {
        String subject = topic("ruled") + "-value";
        Rule rule = new Rule("hide", null, RuleKind.TRANSFORM, RuleMode.WRITEREAD, "ENCRYPT",
                Set.of("PII"), Map.of(), null, null, "ERROR", false);
        RuleSet rules = new RuleSet(List.of(), List.of(rule));
        Metadata metadata = new Metadata(Map.of(), Map.of("owner", "me"), Set.of());
        AvroSchema schema = new AvroSchema(FIRST);
        refused(42201, () -> client.register(subject, schema.copy(null, rules)));
        refused(42201, () -> client.register(subject, schema.copy(metadata, null)));
        refused(40401, () -> client.getAllVersions(subject));
    }

    private void isValidated() throws Exception {
        String topic = topic("valid", Map.of("schema.validation", "value"));
        send(topic, Map.of(), order(FIRST, 1));
        Map<String, Object> options = new HashMap<>(kafka);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            Throwable error =
                    refusal(() -> producer.send(new ProducerRecord<>(topic, "text")).get());
            equal(error instanceof ExecutionException, true, "that the broker refuses it");
            equal(error.getCause().getClass(), InvalidRecordException.class, "the error");
        }
        equal(read(topic, 1), List.of(order(FIRST, 1)), "what was read");
    }

    private void outlives() throws Exception {
        String topic = topic("outliving");
        send(topic, Map.of(), order(FIRST, 1));
        ask("kill", topic, Map.of("broker", 0));
        send(topic, Map.of("acks", "all"), order(FIRST, 2), order(SECOND, 3));
        List<Object> wanted = List.of(order(FIRST, 1), order(FIRST, 2), order(SECOND, 3));
        equal(read(topic, 3), wanted, "what was read");
    }

    private void isDenied(String subject, int code) {
        refused(code, () -> client.register(subject, new AvroSchema(FIRST)));
        refused(code, () -> client.getAllVersions(subject));
    }
}
