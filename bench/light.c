/*
 * The load that bench.light puts on brokers of MQTT, NATS and STOMP: one thread, sockets and epoll,
 * so that the cost of the client is small and the same for whatever is measured.
 *
 *   light PROTOCOL MODE port=N [key=value ...]
 *
 *   mqtt fan        one publisher, `subscribers` subscribers of MQTT 3.1.1, at `qos` 0 or 1; their
 *                   sessions outlive their connections if `kept`, and are removed at the end
 *   mqtt idle       `clients` clients connect and stay until standard input ends
 *   nats fan        one publisher, `subscribers` subscribers
 *   nats request    one requester, one responder, `window` requests in flight
 *   nats stream     one publisher to a stream, `window` messages without an answer
 *   stomp fan       one publisher, `subscribers` subscribers of `to`, with `ack`; receipts if `receipts`
 *
 * A publisher has at most `window` messages that are not acknowledged, where there are answers, and
 * at most `ahead` that have not come everywhere, so that what is counted is neither lost nor kept.
 * Where nothing moves for a while, the rest is taken for lost, and counted as that.
 *
 * Counts for `seconds`, after `warmup`; prints one line of JSON.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

#include "load.h"

#define IN_BYTES (1 << 18)
#define LATENCIES_MAX (1 << 22)
#define CONNECTIONS_MAX 1024
#define LOST_NS (2 * SECOND_NS)
#define START_NS (60 * SECOND_NS)

typedef enum { SUBSCRIBER, PUBLISHER } role_t;

typedef struct {
    int fd, number;
    role_t role;
    bool is_ready, wants_out;
    int step;
    uint8_t *in, *out;
    size_t in_len, out_at, out_len, out_cap;
} conn_t;

typedef struct {
    const char *protocol, *mode, *to, *ack;
    int port;
    int64_t qos, size, subscribers, window, ahead, clients, receipts, is_kept;
    double seconds, warmup;
} options_t;

static options_t options = {.size = 256, .subscribers = 10, .window = 20, .ahead = 1000,
                            .clients = 1000, .seconds = 5, .warmup = 1, .to = "bench",
                            .ack = "auto"};
static conn_t *conns[CONNECTIONS_MAX];
static int conn_count, epoll_fd;
static int64_t published, acked, received, lost, acks_lost;
static bool has_acks;
static char *body;
static int64_t sent_at[1 << 16], *latencies, latency_count;
static bool is_counting;

static void read_options(int count, char **words) {
    if (count < 3) die("usage: light PROTOCOL MODE port=... [key=value ...]");
    options.protocol = words[1];
    options.mode = words[2];
    for (int i = 3; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value == NULL) die("not key=value: %s", words[i]);
        *value++ = 0;
        const char *name = words[i];
        if (!strcmp(name, "port")) options.port = atoi(value);
        else if (!strcmp(name, "qos")) options.qos = atoll(value);
        else if (!strcmp(name, "size")) options.size = atoll(value);
        else if (!strcmp(name, "subscribers")) options.subscribers = atoll(value);
        else if (!strcmp(name, "window")) options.window = atoll(value);
        else if (!strcmp(name, "ahead")) options.ahead = atoll(value);
        else if (!strcmp(name, "clients")) options.clients = atoll(value);
        else if (!strcmp(name, "receipts")) options.receipts = atoll(value);
        else if (!strcmp(name, "seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "warmup")) options.warmup = atof(value);
        else if (!strcmp(name, "kept")) options.is_kept = atoll(value);
        else if (!strcmp(name, "to")) options.to = value;
        else if (!strcmp(name, "ack")) options.ack = value;
        else die("no such option: %s", name);
    }
    if (options.subscribers + 2 > CONNECTIONS_MAX) die("too many subscribers");
    if (options.size < 1 || options.size > 60000) die("size must be 1 to 60000");
    if (strlen(options.to) > 100) die("the name is too long");
}

/* ---- connections -------------------------------------------------------------------------- */

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0) die("no socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("no connection: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void *allocate(void *old, size_t size) {
    void *made = realloc(old, size);
    if (made == NULL) die("out of memory");
    return made;
}

static conn_t *add_connection(role_t role) {
    conn_t *conn = calloc(1, sizeof *conn);
    if (conn == NULL) die("out of memory");
    conn->fd = dial();
    conn->role = role;
    conn->number = conn_count;
    conn->in = allocate(NULL, IN_BYTES);
    conn->out = allocate(NULL, conn->out_cap = 1 << 16);
    conns[conn_count++] = conn;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) < 0) die("epoll: %s", strerror(errno));
    return conn;
}

static void put(conn_t *conn, const void *data, size_t size) {
    if (conn->out_len + size > conn->out_cap) {
        while (conn->out_len + size > conn->out_cap) conn->out_cap *= 2;
        conn->out = allocate(conn->out, conn->out_cap);
    }
    memcpy(conn->out + conn->out_len, data, size);
    conn->out_len += size;
}

static void put_text(conn_t *conn, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(conn, text, size);
}

static void flush(conn_t *conn) {
    while (conn->out_at < conn->out_len) {
        ssize_t size = send(conn->fd, conn->out + conn->out_at, conn->out_len - conn->out_at,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) break;
        if (size < 0) die("connection %d: %s", conn->number, strerror(errno));
        conn->out_at += size;
    }
    if (conn->out_at == conn->out_len) conn->out_at = conn->out_len = 0;
    bool wants_out = conn->out_len > 0;
    if (wants_out != conn->wants_out) {
        struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0),
                                    .data.ptr = conn};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
        conn->wants_out = wants_out;
    }
}

/* ---- what happens ------------------------------------------------------------------------- */

static void on_latency(int64_t number) {
    if (is_counting && latency_count < LATENCIES_MAX)
        latencies[latency_count++] = now_ns() - sent_at[number & 0xffff];
}

static void on_ack(void) { acked++; }

/* ---- MQTT 3.1.1 --------------------------------------------------------------------------- */

static void mqtt_put_length(conn_t *conn, size_t length) {
    do {
        uint8_t byte = length % 128;
        length /= 128;
        if (length) byte |= 128;
        put(conn, &byte, 1);
    } while (length);
}

static void mqtt_put_name(conn_t *conn, const char *name) {
    uint16_t length = htons(strlen(name));
    put(conn, &length, 2);
    put(conn, name, strlen(name));
}

static void mqtt_hello(conn_t *conn) {
    char name[32];
    bool is_kept = options.is_kept && conn->role == SUBSCRIBER;
    snprintf(name, sizeof name, "bench%d", conn->number);
    put(conn, "\x10", 1);
    mqtt_put_length(conn, 10 + 2 + strlen(name));
    /* A keep-alive that no run is as long as. */
    put(conn, is_kept ? "\0\4MQTT\4\0\xff\xff" : "\0\4MQTT\4\2\xff\xff", 10);
    mqtt_put_name(conn, name);
}

static void mqtt_subscribe(conn_t *conn) {
    uint8_t qos = options.qos;
    put(conn, "\x82", 1);
    mqtt_put_length(conn, 2 + 2 + strlen(options.to) + 1);
    put(conn, "\0\1", 2);
    mqtt_put_name(conn, options.to);
    put(conn, &qos, 1);
}

static void mqtt_publish(conn_t *conn) {
    uint8_t head = 0x30 | options.qos << 1;
    put(conn, &head, 1);
    mqtt_put_length(conn, 2 + strlen(options.to) + (options.qos ? 2 : 0) + options.size);
    mqtt_put_name(conn, options.to);
    if (options.qos) {
        uint16_t id = htons(published % 60000 + 1);
        put(conn, &id, 2);
    }
    put(conn, body, options.size);
}

static void mqtt_take(conn_t *conn, const uint8_t *packet, size_t length) {
    switch (packet[-1] >> 4) {
    case 2: /* CONNACK */
        if (packet[1]) die("CONNACK %d", packet[1]);
        if (conn->role == SUBSCRIBER) mqtt_subscribe(conn);
        else conn->is_ready = true;
        break;
    case 9: /* SUBACK */
        if (packet[2] != options.qos) die("SUBACK %d", packet[2]);
        conn->is_ready = true;
        break;
    case 4: on_ack(); break;
    default: die("MQTT packet %d of %zu bytes", packet[-1] >> 4, length);
    }
}

static size_t mqtt_parse(conn_t *conn, const uint8_t *data, size_t size) {
    size_t at = 0;
    while (size - at >= 2) {
        size_t head = at + 1, length = 0;
        int shift = 0;
        while (head < size && data[head] & 128) length |= (size_t)(data[head++] & 127) << shift, shift += 7;
        if (head >= size) break;
        length |= (size_t)data[head++] << shift;
        if (size - head < length) break;
        if (data[at] >> 4 == 3) {
            received++;
            if (data[at] & 6) {
                size_t name = data[head] << 8 | data[head + 1];
                uint8_t answer[4] = {0x40, 2, data[head + 2 + name], data[head + 3 + name]};
                put(conn, answer, 4);
            }
        } else {
            uint8_t packet[64] = {data[at]};
            if (length >= sizeof packet) die("a long MQTT packet");
            memcpy(packet + 1, data + head, length);
            mqtt_take(conn, packet + 1, length);
        }
        at = head + length;
    }
    return at;
}

/* ---- NATS --------------------------------------------------------------------------------- */

static bool is_mode(const char *mode) { return !strcmp(options.mode, mode); }

static void nats_hello(conn_t *conn) {
    put_text(conn, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                   "\"no_responders\":true,\"lang\":\"c\",\"version\":\"1\",\"protocol\":1}\r\n");
    if (conn->role == SUBSCRIBER) put_text(conn, "SUB %s 1\r\n", options.to);
    else if (!is_mode("fan")) put_text(conn, "SUB _INBOX.bench.* 1\r\n");
    put_text(conn, "PING\r\n");
}

static void nats_publish(conn_t *conn) {
    if (is_mode("fan")) put_text(conn, "PUB %s %" PRId64 "\r\n", options.to, options.size);
    else
        put_text(conn, "PUB %s _INBOX.bench.%" PRId64 " %" PRId64 "\r\n", options.to, published,
                 options.size);
    sent_at[published & 0xffff] = now_ns();
    put(conn, body, options.size);
    put(conn, "\r\n", 2);
}

static void nats_on_message(conn_t *conn, char *line, const uint8_t *payload, size_t size) {
    char *words[6];
    int count = 0;
    for (char *word = strtok(line, " "); word && count < 6; word = strtok(NULL, " "))
        words[count++] = word;
    if (conn->role == PUBLISHER) {
        if (size > 8 && memmem(payload, size, "\"error\"", 7)) die("%.*s", (int)size, payload);
        if (line[0] == 'H') die("nobody answers");
        on_latency(atoll(strrchr(words[1], '.') + 1));
        on_ack();
        return;
    }
    received++;
    if (count == 5) { /* It wants an answer. */
        put_text(conn, "PUB %s %zu\r\n", words[3], size);
        put(conn, payload, size);
        put(conn, "\r\n", 2);
    }
}

static size_t nats_parse(conn_t *conn, const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        if (end == NULL) break;
        size_t next = end - data + 1, length = next - at;
        const char *text = (const char *)data + at;
        if (length > 4 && (!memcmp(text, "MSG ", 4) || !memcmp(text, "HMSG ", 5))) {
            char line[512];
            if (length > sizeof line) die("a long line");
            memcpy(line, text, length - 2);
            line[length - 2] = 0;
            size_t payload = atoll(strrchr(line, ' ') + 1);
            if (size - next < payload + 2) break;
            if (is_mode("fan")) received++;
            else nats_on_message(conn, line, data + next, payload);
            next += payload + 2;
        } else if (!memcmp(text, "PONG", 4)) conn->is_ready = true;
        else if (!memcmp(text, "PING", 4)) put_text(conn, "PONG\r\n");
        else if (text[0] == '-') die("%.*s", (int)length, text);
        at = next;
    }
    return at;
}

/* ---- STOMP 1.2 ---------------------------------------------------------------------------- */

static void stomp_hello(conn_t *conn) {
    put_text(conn, "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n");
    put(conn, "", 1);
    if (conn->role == SUBSCRIBER) {
        put_text(conn, "SUBSCRIBE\nid:0\ndestination:%s\nack:%s\nreceipt:s\n", options.to,
                 options.ack);
        if (strcmp(options.ack, "auto")) put_text(conn, "prefetch-count:100\n");
        put_text(conn, "\n");
        put(conn, "", 1);
    }
}

static void stomp_publish(conn_t *conn) {
    put_text(conn, "SEND\ndestination:%s\ncontent-length:%" PRId64 "\n", options.to, options.size);
    if (options.receipts) put_text(conn, "persistent:true\nreceipt:%" PRId64 "\n", published);
    put_text(conn, "\n");
    put(conn, body, options.size);
    put(conn, "", 1);
}

static void stomp_take(conn_t *conn, const char *head, size_t length) {
    if (!memcmp(head, "CONNECTED", 9)) conn->is_ready |= conn->role == PUBLISHER;
    else if (!memcmp(head, "RECEIPT", 7)) {
        if (conn->role == SUBSCRIBER) conn->is_ready = true;
        else on_ack();
    } else if (!memcmp(head, "MESSAGE", 7)) {
        received++;
        const char *ack = options.ack[0] == 'a' ? NULL : memmem(head, length, "\nack:", 5);
        if (ack == NULL) return;
        ack += 5;
        const char *end = memchr(ack, '\n', head + length - ack);
        put_text(conn, "ACK\nid:%.*s\n\n", (int)(end - ack), ack);
        put(conn, "", 1);
    } else die("%.*s", (int)length, head);
}

static size_t stomp_parse(conn_t *conn, const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        if (data[at] == '\n') {
            at++;
            continue;
        }
        const char *head = (const char *)data + at;
        const char *end = memmem(head, size - at, "\n\n", 2);
        if (end == NULL) break;
        size_t length = end + 2 - head, body_at = at + length;
        const char *field = memmem(head, length, "\ncontent-length:", 16);
        size_t frame_end;
        if (field) frame_end = body_at + atoll(field + 16);
        else {
            const uint8_t *nul = memchr(data + body_at, 0, size - body_at);
            if (nul == NULL) break;
            frame_end = nul - data;
        }
        if (frame_end >= size) break;
        stomp_take(conn, head, length);
        at = frame_end + 1;
    }
    return at;
}

/* ---- the loop ----------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    void (*hello)(conn_t *);
    void (*publish)(conn_t *);
    size_t (*parse)(conn_t *, const uint8_t *, size_t);
} protocol_t;

static const protocol_t protocols[] = {
    {"mqtt", mqtt_hello, mqtt_publish, mqtt_parse},
    {"nats", nats_hello, nats_publish, nats_parse},
    {"stomp", stomp_hello, stomp_publish, stomp_parse},
};
static const protocol_t *protocol;

static void take_in(conn_t *conn) {
    ssize_t size = recv(conn->fd, conn->in + conn->in_len, IN_BYTES - conn->in_len, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) die("connection %d has ended: %s", conn->number, size ? strerror(errno) : "");
    conn->in_len += size;
    size_t used = protocol->parse(conn, conn->in, conn->in_len);
    conn->in_len -= used;
    if (used) memmove(conn->in, conn->in + used, conn->in_len);
    if (conn->in_len == IN_BYTES) die("a message is too large");
    if (conn->out_len && !conn->wants_out) flush(conn);
}

static void turn(int wait_ms) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll_fd, events, 256, wait_ms);
    for (int i = 0; i < count; i++) {
        conn_t *conn = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) flush(conn);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take_in(conn);
    }
}

static conn_t *open_connection(role_t role) {
    conn_t *conn = add_connection(role);
    protocol->hello(conn);
    flush(conn);
    int64_t until = now_ns() + START_NS;
    while (!conn->is_ready) {
        turn(100);
        if (now_ns() > until) die("connection %d is not ready", conn->number);
    }
    return conn;
}

static bool may_publish(int64_t takers) {
    if (has_acks && published - acked - acks_lost >= options.window) return false;
    return !takers || published - (received + lost) / takers < options.ahead;
}

/* What does not come for so long is lost: without this a publisher would wait for ever. */
static void maybe_give_up(int64_t takers) {
    static int64_t seen, seen_ns;
    int64_t now = now_ns();
    if (received + acked != seen || !seen_ns) {
        seen = received + acked;
        seen_ns = now;
    } else if (now - seen_ns > LOST_NS * (has_acks ? 5 : 1)) {
        lost = published * takers - received;
        if (has_acks) acks_lost = published - acked;
        seen_ns = now;
    }
}

static void run_until(int64_t until, conn_t *publisher, int64_t takers) {
    while (now_ns() < until) {
        if (!publisher->out_len) {
            for (int i = 0; i < 64 && may_publish(takers); i++) {
                protocol->publish(publisher);
                published++;
            }
            flush(publisher);
        }
        turn(may_publish(takers) && !publisher->out_len ? 0 : 20);
        maybe_give_up(takers);
    }
}

static int by_size(const void *a, const void *b) {
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

static double percentile_us(double part) {
    if (!latency_count) return 0;
    return latencies[(int64_t)((latency_count - 1) * part)] / 1e3;
}

static void publish_and_count(void) {
    int64_t takers = is_mode("stream") ? 0 : is_mode("request") ? 1 : options.subscribers;
    has_acks = !is_mode("fan") || options.qos || options.receipts;
    latencies = allocate(NULL, LATENCIES_MAX * sizeof *latencies);
    for (int64_t i = 0; i < takers; i++) open_connection(SUBSCRIBER);
    conn_t *publisher = open_connection(PUBLISHER);
    run_until(now_ns() + (int64_t)(options.warmup * SECOND_NS), publisher, takers);
    printf("counting\n");
    fflush(stdout);
    int64_t begun = now_ns(), first = received, first_acked = acked, first_lost = lost;
    double cpu = cpu_seconds();
    is_counting = true;
    run_until(begun + (int64_t)(options.seconds * SECOND_NS), publisher, takers);
    double seconds = (now_ns() - begun) / 1e9;
    qsort(latencies, latency_count, sizeof *latencies, by_size);
    printf("{\"received\": %" PRId64 ", \"acked\": %" PRId64 ", \"lost\": %" PRId64
           ", \"seconds\": %.4f, \"client_cpu\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           received - first, acked - first_acked, lost - first_lost, seconds,
           (cpu_seconds() - cpu) / seconds, percentile_us(0.5), percentile_us(0.99));
}

/* A client that begins anew has no session any more. */
static void forget_sessions(void) {
    for (int i = 0; i < options.subscribers; i++) {
        close(conns[i]->fd);
        conn_t conn = {.fd = dial(), .number = i, .role = PUBLISHER};
        uint8_t answer[4];
        conn.out = allocate(NULL, conn.out_cap = 256);
        mqtt_hello(&conn);
        if (send(conn.fd, conn.out, conn.out_len, MSG_NOSIGNAL) < 0) die("%s", strerror(errno));
        if (recv(conn.fd, answer, 4, MSG_WAITALL) != 4 || answer[3]) die("session %d stays", i);
        send(conn.fd, "\xe0\0", 2, MSG_NOSIGNAL);
        close(conn.fd);
        free(conn.out);
    }
}

/* Connects clients that say nothing; they are gone when standard input ends. */
static void stay(void) {
    for (int64_t i = 0; i < options.clients; i++) {
        conn_t conn = {.fd = dial(), .number = i, .role = PUBLISHER};
        uint8_t answer[4];
        conn.out = allocate(NULL, conn.out_cap = 256);
        mqtt_hello(&conn);
        if (send(conn.fd, conn.out, conn.out_len, MSG_NOSIGNAL) < 0) die("%s", strerror(errno));
        if (recv(conn.fd, answer, 4, MSG_WAITALL) != 4 || answer[3]) die("client %d is refused", (int)i);
        free(conn.out);
    }
    printf("connected\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
}

int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    read_options(count, words);
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
        if (!strcmp(protocols[i].name, options.protocol)) protocol = &protocols[i];
    if (protocol == NULL) die("no such protocol: %s", options.protocol);
    body = allocate(NULL, options.size);
    memset(body, 'x', options.size);
    epoll_fd = epoll_create1(0);
    if (is_mode("idle")) stay();
    else publish_and_count();
    if (options.is_kept) forget_sessions();
    return 0;
}
