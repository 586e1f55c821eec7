/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what outsiders reach: the checks of frames and ids, and the root's state machine over real sockets. The first
 * byte chooses. For the root the rest is a script: connections that send raw bytes, or well-proven hellos with chosen
 * numbers, hang up or stay silent, in any order.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/param.h"
#include "base/random.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/env_kind.h"
#include "bootstrap/env_slurm.h"
#include "wire/bootstrap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 8

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static uint8_t byte(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

static size_t bytes(struct input *in, void *out, size_t size)
{
    size_t got = size < in->left ? size : in->left;
    memset(out, 0, size);
    if (got)
        memcpy(out, in->at, got);
    in->at += got;
    in->left -= got;
    return got;
}

static void fuzz_frame(struct input *in)
{
    struct boot_header header;
    _Alignas(8) unsigned char body[BOOT_BODY_MAX];
    static const uint8_t zero[16];
    bytes(in, &header, sizeof header);
    if (boot_check_header(&header) != BOOT_FINE || header.type == BOOT_DATA)
        return;
    if (header.size > sizeof body)
        abort();
    bytes(in, body, sizeof body);
    if (boot_check_body(&header, body) && header.type == BOOT_PEERS) {
        const struct boot_peers *peers = (const void *)body;
        struct net_address address;
        for (uint32_t i = 0; i < peers->count; i++)
            if (!boot_address_get(&peers->peer[i], &address))
                abort();
    }
    boot_proven(zero, (enum boot_type)header.type, zero, zero, body, header.size);
}

static void fuzz_id(struct input *in)
{
    tutti_unique_id_t id;
    struct net_address address;
    uint8_t nonce[BOOT_NONCE];
    char text[NET_TEXT];
    bytes(in, &id, sizeof id);
    if (boot_id_get(&id, &address, nonce) == TUTTI_SUCCESS && !strchr(net_format(&address, text), ':'))
        abort();
}

static void fuzz_text(struct input *in)
{
    char text[400], out[64];
    struct net_address address;
    tutti_unique_id_t id;
    int tasks, node = byte(in);
    size_t got = bytes(in, text, sizeof text - 1);
    text[got] = 0;
    slurm_first_host(text, out, sizeof out);
    slurm_tasks_of_node(text, node, &tasks);
    env_id_from_text(text, &id);
    net_name_wanted(text, "eth0");
    if (net_is_numeric(text))
        net_parse("fuzz", text, &address);
}

struct client {
    int fd;
    bool challenged;
    uint8_t challenge[16];
};

struct world {
    struct poller *poller;
    struct bootstrap_root *root;
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    struct client clients[CLIENTS];
};

static void turn(struct world *w)
{
    for (int i = 0; i < 4 && poller_wait(w->poller, 0) > 0; i++)
        ;
}

static void hang_up(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static void call(struct world *w, struct client *client)
{
    /* Reset on close: thousands of connections a second must not wait for their end. */
    struct linger hard = {1, 0};
    hang_up(client);
    client->challenged = false;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (client->fd < 0)
        return;
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    if (connect(client->fd, &w->at.any, net_size(&w->at)) < 0 && errno != EINPROGRESS)
        hang_up(client);
    turn(w);
}

static void hear(struct client *client)
{
    struct {
        struct boot_header header;
        struct boot_challenge challenge;
    } frame;
    if (client->challenged || recv(client->fd, &frame, sizeof frame, MSG_DONTWAIT) != sizeof frame)
        return;
    if (boot_check_header(&frame.header) != BOOT_FINE || frame.header.type != BOOT_CHALLENGE)
        abort();
    memcpy(client->challenge, frame.challenge.random, 16);
    client->challenged = true;
}

static void say(struct client *client, enum boot_type type, const void *body, size_t size, size_t most)
{
    unsigned char frame[sizeof(struct boot_header) + BOOT_BODY_MAX];
    struct boot_header header = boot_header_of(type, size);
    memcpy(frame, &header, sizeof header);
    memcpy(frame + sizeof header, body, size);
    size += sizeof header;
    ssize_t ignored = send(client->fd, frame, size < most ? size : most, MSG_NOSIGNAL);
    (void)ignored;
}

static void hello(struct world *w, struct client *client, struct input *in)
{
    struct boot_hello hello = {.rank = byte(in) % 10, .nranks = byte(in) % 10, .token = byte(in) % 3};
    uint8_t bits = byte(in);
    hello.to = bits & 1 ? 0 : BOOT_TO_ROOT;
    hello.timeout_ms = bits & 2 ? 0 : 60000;
    hello.attempt = bits >> 4;
    boot_address_put(&hello.listener, &w->at);
    if (bits & 4)
        bytes(in, &hello.listener, sizeof hello.listener);
    hear(client);
    boot_seal(w->nonce, BOOT_HELLO, client->challenge, hello.random, &hello, sizeof hello);
    say(client, BOOT_HELLO, &hello, sizeof hello, bits & 8 ? byte(in) : SIZE_MAX);
}

static void last_words(struct client *client, struct input *in)
{
    struct boot_failed failed = {.reason = byte(in) % 16, .rank = byte(in)};
    if (byte(in) & 1)
        say(client, BOOT_READY, NULL, 0, SIZE_MAX);
    else
        say(client, BOOT_FAILED, &failed, sizeof failed, SIZE_MAX);
}

static void raw(struct client *client, struct input *in)
{
    unsigned char text[256];
    size_t got = bytes(in, text, byte(in));
    ssize_t ignored = send(client->fd, text, got, MSG_NOSIGNAL);
    (void)ignored;
}

static void act(struct world *w, struct input *in)
{
    uint8_t what = byte(in);
    struct client *client = &w->clients[what >> 5];
    if (client->fd < 0 || what % 32 == 0)
        call(w, client);
    if (client->fd < 0)
        return;
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        hello(w, client, in);
        break;
    case 3:
        raw(client, in);
        break;
    case 4:
        hang_up(client);
        break;
    case 5:
        last_words(client, in);
        break;
    default:
        break;
    }
    if (what & 16)
        turn(w);
}

/* Root with room for all connections, or for 3 only, by TUTTI_BOOTSTRAP_CONNECTIONS of the run. */
static void fuzz_root(struct input *in)
{
    struct world w = {0};
    tutti_unique_id_t id;
    for (int i = 0; i < CLIENTS; i++)
        w.clients[i].fd = -1;
    if (poller_open(&w.poller) != TUTTI_SUCCESS)
        abort();
    if (bootstrap_root_open(w.poller, NULL, &id, &w.root) != TUTTI_SUCCESS ||
        boot_id_get(&id, &w.at, w.nonce) != TUTTI_SUCCESS)
        abort();
    for (int i = 0; i < 64 && in->left; i++)
        act(&w, in);
    turn(&w);
    for (int i = 0; i < CLIENTS; i++)
        hang_up(&w.clients[i]);
    turn(&w);
    bootstrap_root_close(w.root);
    poller_close(w.poller);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
    setenv("TUTTI_SOCKET_FAMILY", "AF_INET", 1);
    setenv("TUTTI_DEBUG", "none", 1);
    param_reload();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    switch (byte(&in) % 8) {
    case 0:
        fuzz_frame(&in);
        break;
    case 1:
        fuzz_id(&in);
        break;
    case 2:
        fuzz_text(&in);
        break;
    default:
        fuzz_root(&in);
    }
    return 0;
}
