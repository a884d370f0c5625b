/*
 * The load that the benchmarks put on a cluster: one program, librdkafka underneath, so that the
 * cost of the client is small and the same for whatever is measured.
 *
 *   load MODE brokers=HOST:PORT topic=NAME [key=value ...]
 *
 *   produce   as many messages as it can, for `seconds` or until `bytes`; counts delivery reports
 *   consume   `messages` messages from all partitions, from their beginning
 *   parcels   `producers` producers, each of which sends `parcel` messages after the other as fast as
 *             it can, for `seconds`: each parcel a transaction (`kind` transactional), or waited for
 *             before the next (flushed), or neither (plain); the last two are idempotent
 *   requests  one message per request, `depth` requests in flight, for `seconds`
 *   latency   `rate` messages a second for `seconds`, produced and consumed here; each message
 *             carries the time at which it was due, so that a late producer hides nothing
 *   failover  `rate` messages a second from an idempotent producer; then reads all partitions and
 *             counts what was acknowledged and is missing, and what is there more than once
 *
 * Prints one line of JSON. Whatever else is given as key=value is handed to librdkafka.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "load.h"

#define SIZE_MAX_BYTES (64 * 1024 * 1024)
#define PARTITIONS_MAX 10000
#define BATCH_MAX 1000
#define BATCH_WAIT_MS 5 /* librdkafka waits that long for a batch to be full, also for the last */
#define TIMEOUT_MS 30000
#define FLUSH_TIMEOUT_MS 120000
#define SILENCE_MAX_NS (30ll * 1000000000ll)

typedef struct {
    const char *mode, *brokers, *topic, *kind;
    int64_t size, depth, rate, messages, bytes, warmup, producers, parcel;
    double seconds;
    int extra_count;
    const char *extra_names[64], *extra_values[64];
} options_t;

static options_t options = {.size = 1000, .depth = 1, .rate = 5000, .seconds = 5, .warmup = 0,
                            .kind = "plain", .producers = 1, .parcel = 100};

static void read_options(int count, char **words) {
    if (count < 2) die("usage: load MODE brokers=... topic=... [key=value ...]");
    options.mode = words[1];
    for (int i = 2; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value == NULL) die("not key=value: %s", words[i]);
        *value++ = 0;
        const char *name = words[i];
        if (!strcmp(name, "brokers")) options.brokers = value;
        else if (!strcmp(name, "topic")) options.topic = value;
        else if (!strcmp(name, "size")) options.size = atoll(value);
        else if (!strcmp(name, "kind")) options.kind = value;
        else if (!strcmp(name, "producers")) options.producers = atoll(value);
        else if (!strcmp(name, "parcel")) options.parcel = atoll(value);
        else if (!strcmp(name, "depth")) options.depth = atoll(value);
        else if (!strcmp(name, "rate")) options.rate = atoll(value);
        else if (!strcmp(name, "messages")) options.messages = atoll(value);
        else if (!strcmp(name, "bytes")) options.bytes = atoll(value);
        else if (!strcmp(name, "seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "warmup")) options.warmup = atoll(value);
        else if (options.extra_count < 64) {
            options.extra_names[options.extra_count] = name;
            options.extra_values[options.extra_count++] = value;
        } else die("too many options");
    }
    if (options.brokers == NULL || options.topic == NULL) die("brokers and topic must be given");
    if (options.size < 16 || options.size > SIZE_MAX_BYTES) die("size must be 16 to 64 Mi");
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        die("%s=%s: %s", name, value, error);
}

static rd_kafka_t *new_client(rd_kafka_type_t kind, rd_kafka_conf_t *conf) {
    char error[512];
    set(conf, "bootstrap.servers", options.brokers);
    set(conf, "log_level", "3");
    for (int i = 0; i < options.extra_count; i++) {
        const char *name = options.extra_names[i];
        bool of_producer = !strncmp(name, "producer.", 9), of_consumer = !strncmp(name, "consumer.", 9);
        if (of_producer && kind == RD_KAFKA_PRODUCER) set(conf, name + 9, options.extra_values[i]);
        else if (of_consumer && kind == RD_KAFKA_CONSUMER) set(conf, name + 9, options.extra_values[i]);
        else if (!of_producer && !of_consumer) set(conf, name, options.extra_values[i]);
    }
    rd_kafka_t *client = rd_kafka_new(kind, conf, error, sizeof error);
    if (client == NULL) die("no client: %s", error);
    return client;
}

/* ---- producing ---------------------------------------------------------------------------- */

static _Atomic int64_t delivered, failed, last_delivery_ns;
static _Atomic bool is_over;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        if (atomic_fetch_add(&failed, 1) == 0)
            fprintf(stderr, "not delivered: %s\n", rd_kafka_err2str(message->err));
    } else atomic_fetch_add_explicit(&delivered, 1, memory_order_relaxed);
}

static void *poll_until_over(void *client) {
    while (!is_over) rd_kafka_poll(client, 50);
    return NULL;
}

static char *make_payload(void) {
    char *payload = malloc(options.size);
    uint64_t state = 88172645463325252ull; /* xorshift: bytes that do not compress */
    for (int64_t i = 0; i < options.size; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        payload[i] = (char)state;
    }
    return payload;
}

static rd_kafka_t *new_producer(
    void (*callback)(rd_kafka_t *, const rd_kafka_message_t *, void *)) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, callback);
    return new_client(RD_KAFKA_PRODUCER, conf);
}

/* Connects and learns the topic, so that what is measured starts with the first message. */
static int32_t count_partitions(rd_kafka_t *client) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, TIMEOUT_MS);
    if (error) die("no metadata: %s", rd_kafka_err2str(error));
    int32_t count = metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(topic);
    if (count < 1 || count > PARTITIONS_MAX) die("no topic %s", options.topic);
    return count;
}

static void produce(void) {
    rd_kafka_t *client = new_producer(on_delivery);
    char *payload = make_payload();
    count_partitions(client);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    pthread_t poller;
    pthread_create(&poller, NULL, poll_until_over, client);
    int64_t sent = 0, start = now_ns(), end = start + (int64_t)(options.seconds * SECOND_NS);
    int64_t sent_max = options.bytes ? options.bytes / options.size : INT64_MAX;
    double cpu = cpu_seconds();
    while (sent < sent_max && (sent % 256 || now_ns() < end)) {
        /* The payload is ours and constant: nothing is copied before the client's own buffers. */
        if (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_BLOCK, payload,
                             options.size, NULL, 0, NULL))
            die("not produced: %s", rd_kafka_err2str(rd_kafka_last_error()));
        sent++;
    }
    while (delivered + failed < sent && now_ns() < end + FLUSH_TIMEOUT_MS * 1000000ll)
        sleep_until(now_ns() + 100000);
    double seconds = (now_ns() - start) / 1e9;
    cpu = cpu_seconds() - cpu;
    is_over = true;
    pthread_join(poller, NULL);
    printf("{\"messages\": %" PRId64 ", \"failed\": %" PRId64
           ", \"seconds\": %.6f, \"client_cpu_seconds\": %.3f}\n",
           (int64_t)delivered, (int64_t)(sent - delivered), seconds, cpu);
}

/* ---- in parcels, each of them a transaction or not ------------------------------------------- */

#define PRODUCERS_MAX 1000

typedef struct {
    pthread_t thread;
    rd_kafka_t *client;
    int64_t number, parcels, waited_ns;
} producer_t;

static _Atomic int64_t ready;
static _Atomic int64_t end_ns;

static void check(rd_kafka_error_t *error, const char *what) {
    if (error != NULL) die("%s: %s", what, rd_kafka_error_string(error));
}

static void send_parcel(producer_t *self, char *payload) {
    for (int64_t i = 0; i < options.parcel; i++) {
        rd_kafka_resp_err_t error;
        while ((error = rd_kafka_producev(self->client, RD_KAFKA_V_TOPIC(options.topic),
                                          RD_KAFKA_V_VALUE(payload, options.size),
                                          RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            rd_kafka_poll(self->client, 10);
        if (error) die("not produced: %s", rd_kafka_err2str(error));
    }
    rd_kafka_poll(self->client, 0);
}

static void *send_parcels(void *argument) {
    producer_t *self = argument;
    bool is_transactional = !strcmp(options.kind, "transactional");
    bool is_flushed = !strcmp(options.kind, "flushed");
    char *payload = make_payload(), id[64];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    set(conf, "enable.idempotence", "true");
    snprintf(id, sizeof id, "%s-%" PRId64, options.topic, self->number);
    if (is_transactional) set(conf, "transactional.id", id);
    self->client = new_client(RD_KAFKA_PRODUCER, conf);
    count_partitions(self->client);
    if (is_transactional) check(rd_kafka_init_transactions(self->client, TIMEOUT_MS), "init");
    ready++;
    while (!end_ns) sleep_until(now_ns() + 1000000);
    while (now_ns() < end_ns) {
        if (is_transactional) check(rd_kafka_begin_transaction(self->client), "begin");
        send_parcel(self, payload);
        int64_t start = now_ns();
        if (is_transactional) check(rd_kafka_commit_transaction(self->client, TIMEOUT_MS), "commit");
        if (is_flushed) rd_kafka_flush(self->client, FLUSH_TIMEOUT_MS);
        self->waited_ns += now_ns() - start;
        self->parcels++;
    }
    rd_kafka_flush(self->client, FLUSH_TIMEOUT_MS);
    return NULL;
}

static void parcels(void) {
    static producer_t producers[PRODUCERS_MAX];
    if (options.producers < 1 || options.producers > PRODUCERS_MAX) die("producers: 1 to 1000");
    for (int64_t i = 0; i < options.producers; i++) {
        producers[i].number = i;
        if (pthread_create(&producers[i].thread, NULL, send_parcels, &producers[i]))
            die("no thread");
    }
    while (ready < options.producers) sleep_until(now_ns() + 1000000);
    int64_t start = now_ns(), count = 0, waited_ns = 0;
    double cpu = cpu_seconds();
    end_ns = start + (int64_t)(options.seconds * SECOND_NS);
    for (int64_t i = 0; i < options.producers; i++) {
        pthread_join(producers[i].thread, NULL);
        count += producers[i].parcels, waited_ns += producers[i].waited_ns;
    }
    double seconds = (now_ns() - start) / 1e9;
    cpu = cpu_seconds() - cpu;
    if (count * options.parcel != delivered) die("%" PRId64 " not delivered", (int64_t)failed);
    printf("{\"messages\": %" PRId64 ", \"parcels\": %" PRId64 ", \"seconds\": %.6f, "
           "\"wait_ms\": %.3f, \"client_cpu_seconds\": %.3f}\n",
           (int64_t)delivered, count, seconds, waited_ns / 1e6 / (count ? count : 1), cpu);
}

/* ---- one message per request --------------------------------------------------------------- */

static void requests(void) {
    char depth[32];
    snprintf(depth, sizeof depth, "%" PRId64, options.depth);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "linger.ms", "0");
    set(conf, "batch.num.messages", "1");
    set(conf, "max.in.flight", depth);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf);
    char *payload = make_payload();
    count_partitions(client);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    int64_t sent = 0, begun = 0, start = 0, end = INT64_MAX;
    while (now_ns() < end) {
        while (sent - delivered - failed < options.depth) {
            if (rd_kafka_produce(topic, 0, 0, payload, options.size, NULL, 0, NULL)) break;
            sent++;
        }
        rd_kafka_poll(client, 100);
        if (start == 0 && delivered >= options.warmup + 1) {
            start = now_ns(), begun = delivered;
            end = start + (int64_t)(options.seconds * SECOND_NS);
        }
        if (failed) die("requests failed");
    }
    int64_t done = delivered - begun;
    double seconds = (now_ns() - start) / 1e9;
    rd_kafka_flush(client, FLUSH_TIMEOUT_MS);
    printf("{\"requests\": %" PRId64 ", \"seconds\": %.6f}\n", done, seconds);
}

/* ---- consuming ------------------------------------------------------------------------------ */

typedef struct {
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *topic;
    int32_t partitions;
} reader_t;

/* Whatever librdkafka waits for by itself would be measured, too: when it is told to begin with the
   first message before the thread of that broker has heard of the partition, it asks for the offset
   half a second later; and when it is as many messages ahead of who reads them as its limits allow,
   it fetches nothing for a second (up to 2.1). */
static reader_t new_reader(bool at_end) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "queued.min.messages", "10000000");
    set(conf, "queued.max.messages.kbytes", "1048576");
    reader_t reader = {.client = new_client(RD_KAFKA_CONSUMER, conf)};
    reader.partitions = count_partitions(reader.client);
    reader.queue = rd_kafka_queue_new(reader.client);
    reader.topic = rd_kafka_topic_new(reader.client, options.topic, NULL);
    static int64_t low[PARTITIONS_MAX], high[PARTITIONS_MAX];
    for (int32_t i = 0; i < reader.partitions; i++) {
        rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
            reader.client, options.topic, i, &low[i], &high[i], TIMEOUT_MS);
        if (error) die("cannot ask for offsets: %s", rd_kafka_err2str(error));
    }
    const int64_t *offsets = at_end ? high : low;
    for (int32_t i = 0; i < reader.partitions; i++)
        if (rd_kafka_consume_start_queue(reader.topic, i, offsets[i], reader.queue))
            die("cannot consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    return reader;
}

static void consume(void) {
    static rd_kafka_message_t *batch[BATCH_MAX];
    reader_t reader = new_reader(false);
    int64_t seen = 0, size = 0, first = 0, last = now_ns();
    double cpu = cpu_seconds();
    while (seen < options.messages) {
        ssize_t count = rd_kafka_consume_batch_queue(reader.queue, BATCH_WAIT_MS, batch, BATCH_MAX);
        for (ssize_t i = 0; i < count; i++) {
            if (batch[i]->err) die("cannot consume: %s", rd_kafka_message_errstr(batch[i]));
            seen++, size += batch[i]->len;
            rd_kafka_message_destroy(batch[i]);
        }
        if (count > 0) last = now_ns();
        if (count > 0 && first == 0) first = last, seen = 0, size = 0, options.messages -= count;
        if (now_ns() - last > SILENCE_MAX_NS) die("only %" PRId64 " messages came", seen);
    }
    printf("{\"messages\": %" PRId64 ", \"bytes\": %" PRId64
           ", \"seconds\": %.6f, \"client_cpu_seconds\": %.3f}\n",
           seen, size, (last - first) / 1e9, cpu_seconds() - cpu);
}

/* ---- latency at a fixed rate ------------------------------------------------------------------ */

typedef struct {
    int64_t due_ns, number;
} stamp_t;

typedef struct {
    rd_kafka_t *client;
    int64_t count;
} paced_t;

static void *produce_paced(void *argument) {
    paced_t *paced = argument;
    prctl(PR_SET_TIMERSLACK, 1000);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(paced->client, options.topic, NULL);
    char *payload = make_payload();
    int64_t start = now_ns() + 100000000ll;
    for (int64_t i = 0; i < paced->count; i++) {
        stamp_t stamp = {.due_ns = start + i * SECOND_NS / options.rate, .number = i};
        while (now_ns() < stamp.due_ns) {
            rd_kafka_poll(paced->client, 0);
            sleep_until(stamp.due_ns);
        }
        memcpy(payload, &stamp, sizeof stamp);
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, payload,
                                options.size, NULL, 0, (void *)(intptr_t)(i + 1))) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("not produced");
            rd_kafka_poll(paced->client, 1);
        }
        rd_kafka_poll(paced->client, 0);
    }
    rd_kafka_flush(paced->client, FLUSH_TIMEOUT_MS);
    return NULL;
}

static int compare(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void latency(void) {
    static rd_kafka_message_t *batch[BATCH_MAX];
    int64_t warmup = options.warmup, count = warmup + (int64_t)(options.rate * options.seconds);
    reader_t reader = new_reader(true);
    /* Let all partitions be waited for before the first message. */
    sleep_until(now_ns() + 1500000000ll);
    paced_t paced = {.client = new_producer(on_delivery), .count = count};
    count_partitions(paced.client);
    pthread_t producer;
    pthread_create(&producer, NULL, produce_paced, &paced);
    int64_t *delays = calloc(count, sizeof *delays), kept = 0, seen = 0, last = now_ns();
    while (seen < count) {
        ssize_t got = rd_kafka_consume_batch_queue(reader.queue, 1, batch, BATCH_MAX);
        int64_t now = now_ns();
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err) die("cannot consume: %s", rd_kafka_message_errstr(batch[i]));
            stamp_t stamp;
            memcpy(&stamp, batch[i]->payload, sizeof stamp);
            if (stamp.number >= warmup && kept < count) delays[kept++] = now - stamp.due_ns;
            seen++;
            rd_kafka_message_destroy(batch[i]);
        }
        if (got > 0) last = now;
        if (now - last > SILENCE_MAX_NS) die("only %" PRId64 " of %" PRId64 " came", seen, count);
    }
    pthread_join(producer, NULL);
    qsort(delays, kept, sizeof *delays, compare);
    printf("{\"messages\": %" PRId64 ", \"failed\": %" PRId64 ", \"p50_ms\": %.4f, "
           "\"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           kept, (int64_t)failed, delays[kept / 2] / 1e6, delays[kept * 99 / 100] / 1e6,
           delays[kept * 999 / 1000] / 1e6, delays[kept - 1] / 1e6);
}

/* ---- a leader is killed meanwhile --------------------------------------------------------------- */

static uint8_t *acknowledged;
static int64_t gap_max_ns;

static void on_paced_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    int64_t now = now_ns(), number = (int64_t)(intptr_t)message->_private - 1;
    if (message->err) {
        failed++;
        return;
    }
    if (delivered++ == 0) {
        puts("started");
        fflush(stdout);
    } else if (now - last_delivery_ns > gap_max_ns)
        gap_max_ns = now - last_delivery_ns;
    last_delivery_ns = now;
    acknowledged[number] = 1;
}

static void failover(void) {
    static rd_kafka_message_t *batch[BATCH_MAX];
    int64_t count = (int64_t)(options.rate * options.seconds);
    acknowledged = calloc(count, 1);
    uint8_t *found = calloc(count, 1);
    paced_t paced = {.client = new_producer(on_paced_delivery), .count = count};
    count_partitions(paced.client);
    produce_paced(&paced);
    reader_t reader = new_reader(false);
    int64_t expected = 0, seen = 0, duplicated = 0, lost = 0, last = now_ns();
    for (int32_t i = 0; i < reader.partitions; i++) {
        int64_t low = 0, high = 0;
        rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
            reader.client, options.topic, i, &low, &high, TIMEOUT_MS);
        if (error) die("no end offset: %s", rd_kafka_err2str(error));
        expected += high - low;
    }
    while (seen < expected) {
        ssize_t got = rd_kafka_consume_batch_queue(reader.queue, BATCH_WAIT_MS, batch, BATCH_MAX);
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err) die("cannot consume: %s", rd_kafka_message_errstr(batch[i]));
            stamp_t stamp;
            memcpy(&stamp, batch[i]->payload, sizeof stamp);
            if (found[stamp.number]) duplicated++;
            found[stamp.number] = 1, seen++;
            rd_kafka_message_destroy(batch[i]);
        }
        if (got > 0) last = now_ns();
        if (now_ns() - last > SILENCE_MAX_NS) die("only %" PRId64 " messages came back", seen);
    }
    for (int64_t i = 0; i < count; i++) lost += acknowledged[i] && !found[i];
    printf("{\"acknowledged\": %" PRId64 ", \"failed\": %" PRId64 ", \"read\": %" PRId64
           ", \"lost\": %" PRId64 ", \"duplicated\": %" PRId64 ", \"gap_ms\": %.3f}\n",
           (int64_t)delivered, (int64_t)failed, seen, lost, duplicated, gap_max_ns / 1e6);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"produce", produce},
                 {"consume", consume},
                 {"parcels", parcels},
                 {"requests", requests},
                 {"latency", latency},
                 {"failover", failover}};
    read_options(count, words);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(options.mode, modes[i].name)) {
            modes[i].run();
            fflush(stdout);
            /* librdkafka's threads may still wait for a broker that is gone: nothing to wait for. */
            _Exit(0);
        }
    die("no such mode: %s", options.mode);
}
