/*
 * The load that `bench/amqp.py` puts on a broker of AMQP 0-9-1: one program on librabbitmq, so that
 * the cost of the client is small and the same for whatever is measured.
 *
 *   amqp_load port=PORT [key=value ...]
 *
 * Declares `queues` durable quorum queues of `replicas` each, named by `name`. Each of `producers` has
 * a connection of its own and publishes persistent messages of `size` bytes, at most `window`
 * unconfirmed. Each of `consumers` has one, too, a prefetch of `prefetch`, and acknowledges each
 * message by itself. With more than one queue, all are bound to a fanout exchange, and consumers take
 * turns in the queues. With `rate`, each producer publishes so many messages a second, and a message
 * carries the time at which it was due. Measured are `seconds` after `warmup` seconds; then consumers
 * go on until they have all that was confirmed, for half a minute at most: messages are missing if
 * none comes for ten seconds. With `messages`, as many are published, and the measurement is of all.
 *
 * Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "load.h"

#define TIMEOUT_S 30
#define DRAIN_NS (30ll * SECOND_NS)
#define STALL_NS (10ll * SECOND_NS)
#define FRAME_MAX 131072
#define CHANNEL 1
#define CLIENTS_MAX 1000
#define WINDOW_MAX 65536
#define SIZE_MAX_BYTES (64 * 1024)
#define PARTS 10
/* Values below 2^SUB_BITS have a bucket each, then 2^(SUB_BITS-1) for each doubling: within 1.6%. */
#define SUB_BITS 7
#define BUCKETS (64 << SUB_BITS)

typedef struct {
    const char *name;
    int64_t port, producers, consumers, queues, replicas, size, window, prefetch, rate, messages;
    double seconds, warmup;
} options_t;

static options_t options = {.name = "load", .producers = 1, .consumers = 1, .queues = 1, .replicas = 1,
                            .size = 1000, .window = 100, .prefetch = 100, .seconds = 5, .warmup = 2};

typedef struct {
    int64_t counts[BUCKETS];
} histogram_t;

typedef struct {
    int number;
    pthread_t thread;
    amqp_connection_state_t connection;
    histogram_t *times;
    int64_t window_sent_ns[WINDOW_MAX];
    bool is_confirmed[WINDOW_MAX];
} client_t;

static _Atomic int64_t published, confirmed, refused, received, measured_confirmed, measured_received;
static _Atomic bool is_measured, is_over, is_drained;
static int64_t missing, begun_ns, part_ns[PARTS + 1];

static void read_options(int count, char **words) {
    struct {
        const char *name;
        int64_t *target;
        int64_t least, most;
    } numbers[] = {
        {"port", &options.port, 1, 65535},
        {"producers", &options.producers, 0, CLIENTS_MAX},
        {"consumers", &options.consumers, 0, CLIENTS_MAX},
        {"queues", &options.queues, 1, CLIENTS_MAX},
        {"replicas", &options.replicas, 1, 99},
        {"size", &options.size, 8, SIZE_MAX_BYTES},
        {"window", &options.window, 1, WINDOW_MAX},
        {"prefetch", &options.prefetch, 0, 65535},
        {"rate", &options.rate, 0, INT32_MAX},
        {"messages", &options.messages, 0, INT32_MAX},
    };
    for (int i = 1; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value == NULL) die("not key=value: %s", words[i]);
        *value++ = 0;
        bool is_known = true;
        if (!strcmp(words[i], "name")) options.name = value;
        else if (!strcmp(words[i], "seconds")) options.seconds = atof(value);
        else if (!strcmp(words[i], "warmup")) options.warmup = atof(value);
        else is_known = false;
        for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++) {
            if (strcmp(words[i], numbers[at].name)) continue;
            is_known = true;
            *numbers[at].target = atoll(value);
            if (*numbers[at].target < numbers[at].least || *numbers[at].target > numbers[at].most)
                die("%s must be %" PRId64 " to %" PRId64, words[i], numbers[at].least, numbers[at].most);
        }
        if (!is_known) die("unknown: %s", words[i]);
    }
    if (options.port == 0) die("usage: amqp_load port=PORT [key=value ...]");
}

/* ---- times -------------------------------------------------------------------------------- */

static int bucket_of(int64_t value) {
    if (value < (1 << SUB_BITS)) return value < 0 ? 0 : (int)value;
    int shift = 64 - __builtin_clzll((uint64_t)value) - SUB_BITS;
    return (shift << (SUB_BITS - 1)) + (int)(value >> shift);
}

static int64_t value_of(int bucket) {
    if (bucket < (1 << SUB_BITS)) return bucket;
    int shift = (bucket >> (SUB_BITS - 1)) - 1;
    return (int64_t)(bucket - (shift << (SUB_BITS - 1))) << shift;
}

static void note(histogram_t *times, int64_t from_ns) {
    times->counts[bucket_of((now_ns() - from_ns) / 1000)]++;
}

static double quantile_ms(const histogram_t *times, double part) {
    int64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) total += times->counts[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += times->counts[i];
        if (total && seen >= part * total) return value_of(i) / 1000.0;
    }
    return 0;
}

/* ---- connections -------------------------------------------------------------------------- */

static void check_reply(amqp_rpc_reply_t reply, const char *what) {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        die("%s: %s", what, amqp_error_string2(reply.library_error));
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        amqp_channel_close_t *closed = reply.reply.decoded;
        die("%s: %d %.*s", what, closed->reply_code, (int)closed->reply_text.len,
            (char *)closed->reply_text.bytes);
    }
    die("%s: the broker has refused", what);
}

static amqp_connection_state_t open_connection(void) {
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    if (socket == NULL || amqp_socket_open(socket, "127.0.0.1", (int)options.port))
        die("no connection with port %" PRId64, options.port);
    check_reply(amqp_login(connection, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"),
                "login");
    amqp_channel_open(connection, CHANNEL);
    check_reply(amqp_get_rpc_reply(connection), "channel.open");
    return connection;
}

static void queue_name(char *target, size_t size, int number) {
    snprintf(target, size, "%s-%d", options.name, number);
}

static void declare(void) {
    amqp_connection_state_t connection = open_connection();
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("x-queue-type"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("quorum")}},
        {.key = amqp_cstring_bytes("x-quorum-initial-group-size"),
         .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = options.replicas}},
    };
    amqp_table_t arguments = {.num_entries = 2, .entries = entries};
    amqp_bytes_t exchange = amqp_cstring_bytes(options.name);
    if (options.queues > 1) {
        amqp_exchange_declare(connection, CHANNEL, exchange, amqp_cstring_bytes("fanout"), 0, 1, 0, 0,
                              amqp_empty_table);
        check_reply(amqp_get_rpc_reply(connection), "exchange.declare");
    }
    for (int i = 0; i < options.queues; i++) {
        char name[256];
        queue_name(name, sizeof name, i);
        amqp_queue_declare(connection, CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0, arguments);
        check_reply(amqp_get_rpc_reply(connection), "queue.declare");
        if (options.queues == 1) continue;
        amqp_queue_bind(connection, CHANNEL, amqp_cstring_bytes(name), exchange, amqp_empty_bytes,
                        amqp_empty_table);
        check_reply(amqp_get_rpc_reply(connection), "queue.bind");
    }
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
}

/* ---- producing ---------------------------------------------------------------------------- */

static void on_confirmed(client_t *client, int64_t tag) {
    client->is_confirmed[tag % WINDOW_MAX] = true;
    atomic_fetch_add_explicit(&confirmed, 1, memory_order_relaxed);
    if (!is_measured) return;
    atomic_fetch_add_explicit(&measured_confirmed, 1, memory_order_relaxed);
    note(client->times, client->window_sent_ns[tag % WINDOW_MAX]);
}

/* Returns how many messages a frame confirms; `first` is the first that is not confirmed yet. */
static int64_t take_confirm(client_t *client, const amqp_frame_t *frame, int64_t *first, int64_t next) {
    if (frame->frame_type != AMQP_FRAME_METHOD) return 0;
    if (frame->payload.method.id == AMQP_BASIC_NACK_METHOD) {
        atomic_fetch_add(&refused, 1);
        die("a message was refused");
    }
    if (frame->payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("the broker says %s", amqp_method_name(frame->payload.method.id));
    amqp_basic_ack_t *ack = frame->payload.method.decoded;
    int64_t tag = (int64_t)ack->delivery_tag, count = 0;
    if (tag < *first || tag >= next) die("a confirm of what is not on its way");
    for (int64_t each = ack->multiple ? *first : tag; each <= tag; each++) {
        if (client->is_confirmed[each % WINDOW_MAX]) continue;
        on_confirmed(client, each);
        count++;
    }
    while (*first < next && client->is_confirmed[*first % WINDOW_MAX]) (*first)++;
    return count;
}

/* Takes what has come, and waits for it for so long; returns how many messages are confirmed. */
static int64_t take_confirms(client_t *client, int64_t *first, int64_t next, int64_t wait_ns) {
    int64_t count = 0;
    for (;;) {
        struct timeval wait = {.tv_sec = wait_ns / SECOND_NS, .tv_usec = wait_ns % SECOND_NS / 1000};
        amqp_frame_t frame;
        amqp_maybe_release_buffers(client->connection);
        int status = amqp_simple_wait_frame_noblock(client->connection, &frame, &wait);
        if (status == AMQP_STATUS_TIMEOUT) return count;
        if (status != AMQP_STATUS_OK) die("confirms: %s", amqp_error_string2(status));
        count += take_confirm(client, &frame, first, next);
        /* What has come is taken; more is not waited for. */
        if (!amqp_frames_enqueued(client->connection) && !amqp_data_in_buffer(client->connection))
            return count;
        wait_ns = 0;
    }
}

static void *produce(void *argument) {
    client_t *client = argument;
    int64_t first = 1, next = 1, under_way = 0, share = 0;
    char *body = calloc(1, (size_t)options.size);
    char key[256];
    queue_name(key, sizeof key, 0);
    amqp_bytes_t exchange = options.queues > 1 ? amqp_cstring_bytes(options.name) : amqp_empty_bytes;
    amqp_bytes_t routing_key = options.queues > 1 ? amqp_empty_bytes : amqp_cstring_bytes(key);
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    amqp_bytes_t bytes = {.len = (size_t)options.size, .bytes = body};
    if (options.messages)
        share = options.messages / options.producers + (client->number < options.messages % options.producers);
    while (!is_over && !(share && next > share)) {
        int64_t due_ns = now_ns();
        if (options.rate) {
            due_ns = begun_ns + (next - 1) * SECOND_NS / options.rate;
            int64_t left_ns = due_ns - now_ns();
            if (left_ns > 0) {
                if (under_way) under_way -= take_confirms(client, &first, next, left_ns);
                else sleep_until(due_ns);
                continue;
            }
        }
        if (next - first >= options.window) {
            int64_t done = take_confirms(client, &first, next, TIMEOUT_S * SECOND_NS);
            if (!done) die("no confirm within %d s", TIMEOUT_S);
            under_way -= done;
            continue;
        }
        client->window_sent_ns[next % WINDOW_MAX] = due_ns;
        client->is_confirmed[next % WINDOW_MAX] = false;
        memcpy(body, &due_ns, sizeof due_ns);
        int status = amqp_basic_publish(client->connection, CHANNEL, exchange, routing_key, 0, 0, &properties, bytes);
        if (status != AMQP_STATUS_OK) die("basic.publish: %s", amqp_error_string2(status));
        next++, under_way++;
        int64_t all = atomic_fetch_add(&published, 1) + 1;
        if (options.messages && all % (options.messages / PARTS) == 0 && all * PARTS / options.messages <= PARTS)
            part_ns[all * PARTS / options.messages] = now_ns();
    }
    while (under_way) {
        int64_t done = take_confirms(client, &first, next, TIMEOUT_S * SECOND_NS);
        if (!done) die("no confirm within %d s", TIMEOUT_S);
        under_way -= done;
    }
    free(body);
    return NULL;
}

/* ---- consuming ---------------------------------------------------------------------------- */

static void *consume(void *argument) {
    client_t *client = argument;
    while (!is_drained) {
        struct timeval wait = {.tv_sec = 0, .tv_usec = 100000};
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(client->connection);
        amqp_rpc_reply_t reply = amqp_consume_message(client->connection, &envelope, &wait, 0);
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT)
            continue;
        check_reply(reply, "a delivery");
        if (envelope.message.body.len != (size_t)options.size)
            die("a message of %zu bytes", envelope.message.body.len);
        int64_t sent_ns;
        memcpy(&sent_ns, envelope.message.body.bytes, sizeof sent_ns);
        if (is_measured) {
            note(client->times, sent_ns);
            atomic_fetch_add_explicit(&measured_received, 1, memory_order_relaxed);
        }
        int status = amqp_basic_ack(client->connection, CHANNEL, envelope.delivery_tag, 0);
        if (status != AMQP_STATUS_OK) die("basic.ack: %s", amqp_error_string2(status));
        amqp_destroy_envelope(&envelope);
        atomic_fetch_add_explicit(&received, 1, memory_order_relaxed);
    }
    return NULL;
}

static void begin_to_consume(client_t *client) {
    char name[256];
    queue_name(name, sizeof name, client->number % (int)options.queues);
    if (options.prefetch) {
        amqp_basic_qos(client->connection, CHANNEL, 0, (uint16_t)options.prefetch, 0);
        check_reply(amqp_get_rpc_reply(client->connection), "basic.qos");
    }
    amqp_basic_consume(client->connection, CHANNEL, amqp_cstring_bytes(name), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    check_reply(amqp_get_rpc_reply(client->connection), "basic.consume");
}

/* ---- all of it ---------------------------------------------------------------------------- */

static client_t *new_clients(int64_t count, bool is_consuming) {
    client_t *clients = calloc((size_t)count + 1, sizeof *clients);
    for (int i = 0; i < count; i++) {
        clients[i].number = i;
        clients[i].times = calloc(1, sizeof *clients[i].times);
        clients[i].connection = open_connection();
        if (is_consuming) {
            begin_to_consume(&clients[i]);
        } else {
            amqp_confirm_select(clients[i].connection, CHANNEL);
            check_reply(amqp_get_rpc_reply(clients[i].connection), "confirm.select");
        }
    }
    return clients;
}

static void start(client_t *clients, int64_t count, void *(*run)(void *)) {
    for (int i = 0; i < count; i++)
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i])) die("no thread");
}

static void join(client_t *clients, int64_t count) {
    for (int i = 0; i < count; i++) pthread_join(clients[i].thread, NULL);
}

static void print_times(const char *what, const client_t *clients, int64_t count) {
    histogram_t *all = calloc(1, sizeof *all);
    for (int i = 0; i < count; i++)
        for (int at = 0; at < BUCKETS; at++) all->counts[at] += clients[i].times->counts[at];
    printf("\"%s_p50_ms\": %.3f, \"%s_p99_ms\": %.3f, ", what, quantile_ms(all, 0.5), what,
           quantile_ms(all, 0.99));
    free(all);
}

static void drain(void) {
    int64_t until_ns = now_ns() + DRAIN_NS, last_ns = now_ns(), before = received;
    while (options.consumers && received < confirmed * options.queues && now_ns() < until_ns) {
        if (received > before) before = received, last_ns = now_ns();
        if (now_ns() - last_ns > STALL_NS) missing = confirmed * options.queues - received;
        if (missing) break;
        sleep_until(now_ns() + SECOND_NS / 100);
    }
    is_drained = true;
}

int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, 9);
    read_options(count, words);
    declare();
    client_t *consumers = new_clients(options.consumers, true);
    client_t *producers = new_clients(options.producers, false);
    begun_ns = part_ns[0] = now_ns();
    is_measured = options.messages > 0;
    start(consumers, options.consumers, consume);
    start(producers, options.producers, produce);
    double used_s = cpu_seconds();
    int64_t from_ns = begun_ns;
    if (!options.messages) {
        sleep_until(begun_ns + (int64_t)(options.warmup * SECOND_NS));
        from_ns = now_ns(), used_s = cpu_seconds();
        puts("measured"), fflush(stdout);
        is_measured = true;
        sleep_until(from_ns + (int64_t)(options.seconds * SECOND_NS));
        is_measured = false;
        is_over = true;
        puts("over"), fflush(stdout);
    }
    int64_t to_ns = now_ns();
    used_s = cpu_seconds() - used_s;
    join(producers, options.producers);
    if (options.messages) to_ns = now_ns();
    double seconds = (to_ns - from_ns) / (double)SECOND_NS;
    drain();
    join(consumers, options.consumers);
    printf("{\"confirmed_s\": %.1f, \"received_s\": %.1f, ", measured_confirmed / seconds,
           measured_received / seconds);
    print_times("confirm", producers, options.producers);
    print_times("delivery", consumers, options.consumers);
    if (options.messages)
        for (int i = 1; i <= PARTS; i++)
            printf("\"part_%d_s\": %.0f, ", i,
                   options.messages / PARTS / ((part_ns[i] - part_ns[i - 1]) / (double)SECOND_NS));
    printf("\"client_cpu_s\": %.2f, \"missing\": %" PRId64 ", \"seconds\": %.2f}\n", used_s, missing, seconds);
    return 0;
}
