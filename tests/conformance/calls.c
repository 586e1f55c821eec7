/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of libibverbs that the transport makes fails, once, at its n-th use, on the software RDMA device: in a life
 * without other trouble, and in one whose address moves and whose device is taken out and put back.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/known.h"
#include "base/param.h"
#include "base/thread.h"
#include "soft.h"
#include "suite.h"
#include "transport/verbs/verbs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH 100000
#define PAGES  (25 * 4096) /* in bytes, for LENGTH */
#define CROWD  12          /* lanes: more than the first completion queue has room for */

static const struct row {
    const char *call, *fault;
    int fds, regions; /* that may be left */
} rows[] = {
#define ROW(call, fault, fds, regions) {#call, fault, fds, regions},
#include "verbs_calls.tbl"
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)

static unsigned long calls_that_failed(void)
{
    soft_command("stats");
    const char *line = strstr(soft_answer, "fault_call ");
    assert_non_null(line);
    return strtoul(line + strlen("fault_call "), NULL, 10);
}

/* ---- A life ---- */

struct life {
    struct pair pair;
    bool has_a, has_b;
    uint16_t index; /* of the latest lane */
    int flushes;
    uint8_t source[LENGTH], area[LENGTH], written[LENGTH];
    struct transport_memory *from, *to;
    struct device_memory {
        struct place place;
        struct transport_memory *memory;
    } on_device[2]; /* of a, whose bytes are those of `source`, and of b */
};

static bool is_over(const struct life *life)
{
    const struct end *at = life->pair.at, *bt = life->pair.bt;
    return !at || at->counts[NOTE_DOWN] || (bt && bt->counts[NOTE_DOWN]);
}

/* Until the condition is met, or a lane has ended. True: it is met. */
#define life_until(life, condition)                                                                                    \
    ({                                                                                                                 \
        soft_until(&(life)->pair, (condition) || is_over(life));                                                       \
        !is_over(life);                                                                                                \
    })

static int on_source(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                     uint16_t index)
{
    (void)context, (void)ops, (void)device;
    return (uint16_t)(0xc000 + index);
}

static bool open_both(struct life *life)
{
    const uint8_t a[WIRE_UUID_BYTES] = {1}, b[WIRE_UUID_BYTES] = {2};
    memset(life, 0, sizeof *life);
    fill_pattern(life->source, LENGTH, 3);
    life->has_a = party_try_open(&life->pair.a, a);
    life->has_b = life->has_a && party_try_open(&life->pair.b, b);
    if (life->has_b) {
        life->pair.a.transport->owner.source = on_source;
        life->pair.b.transport->owner.source = on_source;
    }
    return life->has_b;
}

static void drop_lanes(struct life *life)
{
    while (life->pair.a.count)
        end_drop(life->pair.a.ends[0]);
    while (life->pair.b.count)
        end_drop(life->pair.b.ends[0]);
    life->pair.at = life->pair.bt = NULL;
}

static bool connect_both(struct life *life)
{
    uint16_t index = ++life->index;
    struct end *at = life->pair.at = end_new(&life->pair.a);
    life->pair.bt = NULL;
    if (under_test->lane_open(life->pair.a.transport, &life->pair.b.self, index, 1, 0, 0, at, &at->lane) !=
        TUTTI_SUCCESS) {
        at->lane = NULL;
        life->pair.at = NULL;
        return false;
    }
    return life_until(life, (life->pair.bt = end_accepted(&life->pair.b, index)) && at->counts[NOTE_UP]);
}

/* A memory file stands for a device's memory, as it does for the driver that stands in. */
static void know_device(struct device_memory *device, struct party *party, const uint8_t *bytes)
{
    int fd = memfd_create("device", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, PAGES) == 0);
    char *at = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    if (bytes)
        memcpy(at, bytes, LENGTH);
    const struct known known = {.base = at, .size = PAGES, .device = 1};
    device->place = (struct place){at, 1, known_add_device(&known, fd)};
    device->memory = NULL;
    under_test->register_memory(party->transport, device->place, PAGES, &device->memory);
}

static void forget_device(struct device_memory *device, struct party *party)
{
    if (device->memory)
        under_test->deregister_memory(party->transport, device->memory);
    known_remove(device->place.life);
    munmap(device->place.address, PAGES);
    device->memory = NULL;
}

static struct wire_remote remote_of(const struct transport_memory *memory)
{
    struct wire_remote remote = {
        .address = (uintptr_t)memory->address, .devices = (uint32_t)memory->devices, .opened = memory->opened};
    memcpy(remote.key, memory->key, sizeof remote.key);
    return remote;
}

/* From device to device; then b's device sees it. False: the lanes have ended. */
static bool exchange_devices(struct life *life)
{
    struct end *at = life->pair.at, *bt = life->pair.bt;
    struct device_memory *from = &life->on_device[0], *to = &life->on_device[1];
    size_t arrived = bt->counts[NOTE_ARRIVED] + 1, sent = at->counts[NOTE_SENT] + 1;
    const struct wire_remote remote = to->memory ? remote_of(to->memory) : (struct wire_remote){0};
    const struct put put = {.source = from->place,
                            .length = LENGTH,
                            .token = 99,
                            .remote = to->memory ? &remote : NULL,
                            .memory = from->memory};
    tutti_result_t result = TUTTI_IN_PROGRESS;
    life_until(life, (result = under_test->put(at->lane, &put)) != TUTTI_IN_PROGRESS);
    if (is_over(life) || result == TUTTI_INVALID_ARGUMENT) /* a device has not registered it: nothing was taken */
        return !is_over(life) && !(from->memory && to->memory && from->memory->key[at->lane->device]);
    if (!life_until(life, bt->counts[NOTE_ARRIVED] >= arrived && at->counts[NOTE_SENT] >= sent))
        return false;
    struct party *b = &life->pair.b;
    int flushed = ++life->flushes;
    under_test->flush(b->transport, bt->lane->device, to->memory, to->place, (uint64_t)flushed);
    if (!life_until(life, b->flushed >= flushed))
        return false;
    assert_memory_equal(to->place.address, life->source, LENGTH);
    return true;
}

static void know_memory(struct life *life)
{
    if (under_test->register_memory(life->pair.a.transport, place_host(life->source), LENGTH, &life->from) !=
        TUTTI_SUCCESS)
        life->from = NULL;
    if (under_test->register_memory(life->pair.b.transport, place_host(life->written), LENGTH, &life->to) !=
        TUTTI_SUCCESS)
        life->to = NULL;
    know_device(&life->on_device[0], &life->pair.a, life->source);
    know_device(&life->on_device[1], &life->pair.b, NULL);
}

static void forget_memory(struct life *life)
{
    if (life->from)
        under_test->deregister_memory(life->pair.a.transport, life->from);
    if (life->to)
        under_test->deregister_memory(life->pair.b.transport, life->to);
    life->from = life->to = NULL;
    forget_device(&life->on_device[0], &life->pair.a);
    forget_device(&life->on_device[1], &life->pair.b);
}

/* Messages both ways, puts with a key and without. Without registered memory all go without. */
static bool exchange(struct life *life)
{
    struct end *at = life->pair.at, *bt = life->pair.bt;
    size_t sent = 0;
    know_memory(life);
    bool direct = life->from && life->to;
    const struct wire_remote remote = direct ? remote_of(life->to) : (struct wire_remote){0};
    memset(life->area, 0, LENGTH);
    memset(life->written, 0, LENGTH);
    bt->area = life->area;
    bt->area_size = LENGTH;
    for (uint64_t i = 0; i < 6 && !is_over(life); i++, sent++) {
        struct put put = {.source = place_host(life->source), .length = LENGTH, .token = i};
        put.remote = direct && i % 2 ? &remote : NULL;
        put.memory = life->from;
        life_until(life, send_pattern(at, i, 3000, 2) != TUTTI_IN_PROGRESS);
        life_until(life, send_pattern(bt, i, 3000, 2) != TUTTI_IN_PROGRESS);
        life_until(life, under_test->put(at->lane, &put) != TUTTI_IN_PROGRESS);
    }
    bool whole = life_until(life, bt->counts[NOTE_ARRIVED] >= sent && bt->counts[NOTE_MESSAGE] >= sent &&
                                      at->counts[NOTE_MESSAGE] >= sent && at->counts[NOTE_SENT] >= sent);
    whole = whole && exchange_devices(life);
    if (whole) { /* else the lanes have ended, and nothing is written any more */
        assert_memory_equal(life->area, life->source, LENGTH);
        assert_true(!direct || memcmp(life->written, life->source, LENGTH) == 0);
    } else {
        drop_lanes(life);
    }
    forget_memory(life);
    return whole;
}

static void end_life(struct life *life)
{
    if (life->has_a)
        drop_lanes(life);
    if (life->has_b)
        party_close(&life->pair.b);
    if (life->has_a)
        party_close(&life->pair.a);
}

/* With every kind of call but those of devices that are lost. True: all came; else there is a sentence. */
static bool live_once(struct life *life)
{
    bool whole = open_both(life) && connect_both(life) && exchange(life);
    assert_true(whole || strlen(error_last()) > 10);
    end_life(life);
    return whole;
}

/* ---- A life with a device that is lost ---- */

/* New lanes, as a link makes them, until all has come over one. */
static void go_on(struct life *life)
{
    uint64_t end = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    while (!connect_both(life) || !exchange(life)) {
        drop_lanes(life);
        soft_until(&life->pair, true);
        party_sleep(&life->pair.a, 5);
        party_sleep(&life->pair.b, 5);
        assert_false(clock_passed(end));
    }
}

static void meet_the_crowd(struct life *life)
{
    for (int up = 0; up < CROWD; up++)
        go_on(life);
}

/* True: all came in the end. Else not both could be opened. */
static bool live_on(struct life *life)
{
    char device[32], text[48];
    bool whole = open_both(life);
    if (whole) {
        snprintf(device, sizeof device, "%.*s", 31, ((struct verbs_transport *)life->pair.a.transport)->device[0].name);
        device[strcspn(device, ":")] = 0;
        go_on(life);
        soft_command("gid-shift 5");
        soft_until(&life->pair, is_over(life));
        drop_lanes(life);
        go_on(life);
        snprintf(text, sizeof text, "unplug %s", device);
        soft_command(text);
        snprintf(text, sizeof text, "plug %s", device);
        soft_command(text);
        soft_command("gid-shift 0");
        soft_until(&life->pair, is_over(life));
        drop_lanes(life);
        meet_the_crowd(life);
    }
    assert_true(whole || strlen(error_last()) > 10);
    end_life(life);
    return whole;
}

/* ---- Each call ---- */

/* What others of the process let go a moment later is not left. */
static void check_left(const struct row *row, int n, const struct soft_holdings *before)
{
    struct soft_holdings now;
    bool right = false;
    for (int times = 0; !right && times < 200; times++) {
        if (times)
            usleep(10000);
        now = soft_holdings();
        right = now.fds - before->fds <= row->fds && now.threads == before->threads && now.pairs == before->pairs &&
                now.regions - before->regions <= row->regions;
    }
    if (!right)
        fail_msg("after %s failed at its use %d there are left: %d descriptors, %d threads, %d queue pairs, %d regions",
                 row->call, n, now.fds - before->fds, now.threads - before->threads, now.pairs - before->pairs,
                 now.regions - before->regions);
}

/* Did the n-th use, from now on, fail? False: there were fewer uses. */
static bool fails(const struct row *row, int n, bool (*live)(struct life *life))
{
    static struct life life;
    struct soft_holdings before = soft_holdings();
    unsigned long failed = calls_that_failed();
    char fault[64];
    snprintf(fault, sizeof fault, "fault fail-%s=%d", row->fault, n);
    soft_command(fault);
    bool whole = live(&life);
    soft_command("clear");
    bool fired = calls_that_failed() > failed;
    assert_true(whole || fired);
    check_left(row, n, &before);
    return fired;
}

/* Lanes that share receives make the call not at all, or where there are more lanes than here. */
static bool is_without_shared(const struct row *row)
{
    return strcmp(row->call, "ibv_post_recv") == 0 || strcmp(row->call, "ibv_resize_cq") == 0;
}

static bool must_be_first(const struct row *row)
{
    return strcmp(row->fault, "fork") == 0;
}

/* One key lets both ways to register memory fail. */
static bool fails_with_another(const struct row *row)
{
    return strcmp(row->call, "ibv_reg_dmabuf_mr") == 0;
}

static void *mlx5(void)
{
    char path[512];
    const char *verbs = param_string(PARAM_IBVERBS_LIBRARY), *folder = strrchr(verbs, '/');
    snprintf(path, sizeof path, "%.*s/libmlx5.so.1", folder ? (int)(folder - verbs) : 1, folder ? verbs : ".");
    return dlopen(path, RTLD_NOW);
}

static int fail_often(const struct row *row)
{
    bool quick = getenv("TUTTI_TEST_QUICK");
    int times = 0;
    for (int n = 1; n < 500 && fails(row, n, live_once); n += 1 + n / 8)
        times++;
    for (int n = 1; n < 200 && fails(row, n, live_on); n += quick ? 2 * n : 1 + n / 4)
        times++;
    return times;
}

static void each_call_fails_once(void **state)
{
    static struct life life;
    struct party keeper; /* so that the device is open at all times: what it holds for itself is not counted */
    (void)state;
    if (!soft_here())
        skip();
    void *adapter = mlx5();
    assert_non_null(adapter);
    soft_set("TUTTI_IB_TIMEOUT", "14");
    party_open(&keeper);
    assert_true(live_once(&life) && live_on(&life));
    for (size_t i = 0; i < ROWS; i++) {
        if (!*rows[i].fault || must_be_first(&rows[i]) || fails_with_another(&rows[i]))
            continue;
        soft_set("TUTTI_IB_SHARED", is_without_shared(&rows[i]) ? "0" : NULL);
        int times = fail_often(&rows[i]);
        printf("%s: %d uses\n", rows[i].call, times);
        assert_true(times > 0);
    }
    party_close(&keeper);
    soft_set("TUTTI_IB_SHARED", NULL);
    soft_set("TUTTI_IB_TIMEOUT", NULL);
    dlclose(adapter);
}

/* The library is told to protect memory from forks when it is loaded: where it cannot, lanes work all the same. */
static void forks_cannot_be_guarded_against(void **state)
{
    enum ibv_fork_status (*status)(void);
    const char *faults = getenv("SOFTVERBS_FAULT");
    struct pair pair;
    (void)state;
    if (!soft_here() || !faults || !strstr(faults, "fail-fork=1"))
        skip();
    void *symbol = dlsym(dlopen(param_string(PARAM_IBVERBS_LIBRARY), RTLD_NOW), "ibv_is_fork_initialized");
    memcpy(&status, &symbol, sizeof status);
    pair_open(&pair);
    assert_int_equal(status(), IBV_FORK_DISABLED);
    struct both lane = {pair.at, pair.bt};
    soft_carries(&pair, &lane);
    pair_close(&pair);
}

/* ---- Reads that flush ---- */

/* Of a read that had ended when the last lane went, and was not told, nothing is heard; but of the next one. */
static void reads_end_with_the_lanes(void **state)
{
    static struct life life;
    (void)state;
    if (!soft_here())
        skip();
    assert_true(open_both(&life) && connect_both(&life));
    struct party *b = &life.pair.b;
    know_memory(&life);
    for (int round = 0; round < 2; round++) {
        struct device_memory *to = &life.on_device[1];
        under_test->flush(b->transport, life.pair.bt->lane->device, to->memory, to->place, (uint64_t)++life.flushes);
        for (int i = 0; i < 1000 && under_test->arm(b->transport); i++)
            usleep(100);
        under_test->disarm(b->transport);
        drop_lanes(&life);
        for (int i = 0; i < 100; i++)
            pair_step(&life.pair);
        assert_true(connect_both(&life));
    }
    assert_true(exchange_devices(&life));
    forget_memory(&life);
    end_life(&life);
}

/* ---- A queue pair that stays ---- */

static bool pair_is_in_error(uint32_t number)
{
    char start[24];
    soft_command("info");
    snprintf(start, sizeof start, "qp 0x%06x", number);
    const char *line = strstr(soft_answer, start);
    assert_non_null(line);
    const char *state = strstr(line, " ERR "), *end = strchr(line, '\n');
    return state && state < end;
}

/* A lane is closed while the adapter has yet to read the source of a put. The source belongs to its owner from then on,
 * and what the owner puts there must not go out. The other end is not polled, for it would end its own queue pair. */
static void what_cannot_be_ended_sends_nothing_more(void **state)
{
    static struct life life;
    char device[32], text[48];
    (void)state;
    if (!soft_here())
        skip();
    soft_ports(device);
    soft_set("TUTTI_IB_TIMEOUT", "10"); /* 4 ms */
    assert_true(open_both(&life) && connect_both(&life));
    know_memory(&life);
    struct wire_remote remote = {.address = (uintptr_t)life.written, .devices = (uint32_t)life.to->devices};
    memcpy(remote.key, life.to->key, sizeof remote.key);
    uint32_t number = ((struct verbs_lane *)life.pair.at->lane)->qp->qp_num;
    snprintf(text, sizeof text, "freeze %s", device);
    soft_command(text);
    struct put put = {.source = place_host(life.source), .length = LENGTH, .remote = &remote, .memory = life.from};
    assert_int_equal(under_test->put(life.pair.at->lane, &put), TUTTI_SUCCESS);
    soft_command("fault fail-destroy-qp=1");
    end_close(life.pair.at);
    soft_command("clear");
    memset(life.source, 0xee, LENGTH);
    snprintf(text, sizeof text, "thaw %s", device);
    soft_command(text);
    for (uint64_t end = clock_deadline_ms(100); !clock_passed(end);) /* 25 times as long as until it is sent again */
        assert_true(life.written[0] == 0);
    assert_true(pair_is_in_error(number));
    forget_memory(&life);
    end_life(&life);
    soft_set("TUTTI_IB_TIMEOUT", NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forks_cannot_be_guarded_against),
    cmocka_unit_test(what_cannot_be_ended_sends_nothing_more),
    cmocka_unit_test(reads_end_with_the_lanes),
    cmocka_unit_test(each_call_fails_once),
};
const struct group calls_group = {"calls", tests, sizeof tests / sizeof *tests};
