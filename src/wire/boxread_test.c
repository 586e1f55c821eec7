/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of black boxes against boxes that are half written, cut short, damaged or forged. */
#include "base/error.h"
#include "wire/boxfile.h"
#include "wire/boxread.h"
#include "wire/boxwatch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COMMS   2
#define LANES   2
#define LANE_AT (WIRE_BOX_COMM_AT + COMMS * WIRE_BOX_COMM_BYTES)
#define BYTES   (LANE_AT + LANES * WIRE_BOX_LANE_BYTES)
#define RUN     (WIRE_OP_RUNNING | WIRE_OP_HAS_START | WIRE_OP_HAS_WAIT | WIRE_OP_HAS_NAME)

static uint8_t *bytes;

static struct wire_box_header *header(void)
{
    return (struct wire_box_header *)(void *)bytes;
}

static struct wire_box_comm *comm(int index)
{
    return (struct wire_box_comm *)(void *)(bytes + WIRE_BOX_COMM_AT + (size_t)index * WIRE_BOX_COMM_BYTES);
}

static struct wire_box_op *op(int index, int number)
{
    return (struct wire_box_op *)(void *)((uint8_t *)comm(index) + WIRE_BOX_PAGE) + number;
}

static struct wire_box_lane *lane(int index)
{
    return (struct wire_box_lane *)(void *)(bytes + LANE_AT + (size_t)index * WIRE_BOX_LANE_BYTES);
}

static struct wire_box_segment *segment(int index, int number)
{
    return (struct wire_box_segment *)(void *)((uint8_t *)lane(index) + WIRE_BOX_SEGMENT_AT) + number;
}

static struct wire_box_event *event(int number)
{
    return (struct wire_box_event *)(void *)(bytes + WIRE_BOX_EVENT_AT) + number;
}

/* A box of two communicators with three operations each, and two events; times are nanoseconds. */
static int build(void **state)
{
    bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    *header() =
        (struct wire_box_header){.magic = WIRE_BOX_MAGIC,
                                 .version = WIRE_BOX_VERSION,
                                 .header_bytes = sizeof(struct wire_box_header),
                                 .file_bytes = BYTES,
                                 .pid = 42,
                                 .state = WIRE_BOX_OPEN,
                                 .opened = {100, 100, 5100},
                                 .events = {WIRE_BOX_EVENT_AT, sizeof(struct wire_box_event), WIRE_BOX_EVENTS},
                                 .comms = {WIRE_BOX_COMM_AT, WIRE_BOX_COMM_BYTES, COMMS},
                                 .ops = {WIRE_BOX_PAGE, sizeof(struct wire_box_op), WIRE_BOX_OPS},
                                 .counters = {WIRE_BOX_COUNTER_AT, 8, WIRE_COUNTER_COUNT},
                                 .lanes = {LANE_AT, WIRE_BOX_LANE_BYTES, LANES},
                                 .segments = {WIRE_BOX_SEGMENT_AT, sizeof(struct wire_box_segment), WIRE_BOX_SEGMENTS}};
    *lane(1) = (struct wire_box_lane){
        .stamp = 2, .peer_pid = 7, .index = 1, .device = 3, .state = WIRE_LANE_UP, .opened = 250};
    memcpy(lane(1)->transport.text, "a\ncarrier of wide", 16);
    for (uint64_t i = 0; i < 3; i++)
        *segment(1, (int)i) =
            (struct wire_box_segment){.stamp = (i + 129) << 8 | (i < 2 ? WIRE_SEGMENT_LANDED : WIRE_SEGMENT_POSTED),
                                      .seq = (uint32_t)i,
                                      .length = 4096,
                                      .posted = 100 + i,
                                      .completed = 200 + i};
    *segment(1, 127) = (struct wire_box_segment){.stamp = 128 << 8 | WIRE_SEGMENT_LOST, .seq = 99, .completed = 99};
    for (int i = 0; i < COMMS; i++) {
        *comm(i) =
            (struct wire_box_comm){.stamp = 2, .id = (uint64_t)i, .nranks = 2, .state = WIRE_COMM_OPEN, .culprit = -1};
        for (int j = 0; j < 3; j++)
            *op(i, j) =
                (struct wire_box_op){.stamp = (uint64_t)j << WIRE_OP_POSITION | RUN, .seq = (uint64_t)j, .start = 200};
    }
    for (int i = 0; i < 2; i++)
        *event(i) = (struct wire_box_event){.stamp = (uint64_t)i + 1, .time = 300, .kind = WIRE_EVENT_LANE_UP};
    return 0;
}

static int destroy(void **state)
{
    free(bytes);
    return 0;
}

static struct blackbox *must_parse(void)
{
    struct blackbox *box = NULL;
    assert_int_equal(blackbox_parse(bytes, BYTES, &box), TUTTI_SUCCESS);
    return box;
}

static void assert_refused(const char *why)
{
    struct blackbox *box = NULL;
    assert_int_equal(blackbox_parse(bytes, BYTES, &box), TUTTI_INVALID_USAGE);
    assert_null(box);
    assert_non_null(strstr(error_last(), why));
}

static void test_reads_it(void **state)
{
    struct blackbox *box = must_parse();
    assert_true(!box->alive && box->comm_count == COMMS && box->event_count == 2 && box->torn == 0);
    assert_true(box->comms[1].op_count == 3 && box->comms[1].ops[2].seq == 2 && box->comms[1].ops[2].start == 200);
    assert_true(box->realtime_offset == 5000 && box->now == 300);
    blackbox_free(box);
}

static void test_reads_lanes(void **state)
{
    struct blackbox *box = must_parse();
    assert_int_equal(box->lane_count, 1); /* the other place was never used */
    const struct blackbox_lane *only = &box->lanes[0];
    assert_true(only->place == 1 && only->index == 1 && only->peer_pid == 7 && only->device == 3 &&
                only->state == WIRE_LANE_UP);
    assert_string_equal(only->transport, "a?carrier of wid");
    assert_int_equal(only->segment_count, 4);
    assert_true(only->segments[0].seq == 99 && only->segments[0].position == 127 &&
                only->segments[0].status == WIRE_SEGMENT_LOST);
    assert_true(only->segments[1].seq == 0 && only->segments[1].posted == 100 && only->segments[1].completed == 200);
    assert_true(only->segments[3].status == WIRE_SEGMENT_POSTED && only->segments[3].completed == 0);
    blackbox_free(box);
}

static void test_watches(void **state)
{
    struct wire_box_watch *watch = (struct wire_box_watch *)(void *)((char *)lane(1) + WIRE_BOX_WATCH_AT);
    *watch = (struct wire_box_watch){.stamp = 2, .windows = 3, .slows = UINT64_MAX};
    watch->least[0][0] = (struct wire_box_mark){.slot = 1, .end = 5, .cause = 99};
    watch->pause[0][0] = (struct wire_box_mark){.slot = 1, .end = UINT64_MAX};
    watch->slow[WIRE_WATCH_SLOWS - 2] = (struct wire_box_slow){.windows = 1, .cause = UINT32_MAX};
    struct blackbox *box = must_parse();
    assert_true(box->lanes[0].watch && box->lanes[0].watch->windows == 3 && box->torn == 0);
    assert_int_equal(watch_mark(box->lanes[0].watch, WATCH_LEAST, WIRE_LAST_HOUR, 1)->cause, WINDOW_NETWORK);
    assert_int_equal(watch_slow(box->lanes[0].watch, 0)->cause, WINDOW_NETWORK);
    assert_null(watch_mark(box->lanes[0].watch, WATCH_PAUSE, WIRE_LAST_HOUR, UINT64_MAX)); /* a time that cannot be */
    assert_null(watch_slow(box->lanes[0].watch, SIZE_MAX));
    blackbox_free(box);
    watch->stamp = 3;
    box = must_parse();
    assert_true(!box->lanes[0].watch && box->torn == 1 && box->lanes[0].segment_count == 4);
    blackbox_free(box);
}

/* An earlier writer's record is shorter, and its segments begin where a later one has more of the lane. */
static void test_lanes_of_earlier_writers(void **state)
{
    enum { EARLIER = 128 };
    memmove((char *)lane(1) + EARLIER, segment(1, 0), WIRE_BOX_SEGMENTS * sizeof(struct wire_box_segment));
    header()->segments.offset = EARLIER;
    struct blackbox *box = must_parse();
    assert_true(box->lane_count == 1 && box->lanes[0].segment_count == 4 && !box->lanes[0].watch);
    assert_true(box->lanes[0].peer_pid == 7 && !box->lanes[0].peer_address[15]);
    blackbox_free(box);
    header()->segments.offset = WIRE_BOX_LANE_LEAST;
    box = must_parse();
    blackbox_free(box);
}

static void test_odd_lanes(void **state)
{
    segment(1, 0)->stamp = 0;
    segment(1, 1)->stamp += 1 << 8; /* of the segment that overwrote this one */
    segment(1, 2)->stamp |= 0x10;   /* of no status */
    struct blackbox *box = must_parse();
    assert_true(box->lanes[0].segment_count == 1 && box->torn == 2);
    blackbox_free(box);
    lane(1)->stamp = 3;
    box = must_parse();
    assert_true(box->lane_count == 0 && box->torn == 1);
    blackbox_free(box);
    lane(1)->stamp = 4;
    lane(1)->state = 9;
    box = must_parse();
    assert_true(box->lane_count == 0 && box->torn == 1);
    blackbox_free(box);
}

static void test_lanes_that_do_not_fit(void **state)
{
    header()->lanes.count = LANES + 1;
    assert_refused("its lanes do not fit");
    header()->lanes.count = LANES;
    header()->segments.count = 100;
    assert_refused("its segments do not fit");
    header()->segments.count = 256;
    assert_refused("its segments do not fit");
    header()->segments.count = 128;
    header()->segments.offset = 8;
    assert_refused("its segments do not fit");
    header()->segments.offset = UINT64_MAX - 63;
    assert_refused("its segments do not fit");
    header()->segments.offset = WIRE_BOX_SEGMENT_AT;
    header()->lanes.offset = 1ull << 60;
    assert_refused("its lanes do not fit");
}

/* ---- Records that are being written ---- */

static void test_record_in_the_making(void **state)
{
    op(0, 1)->stamp = 0;
    event(0)->stamp = 0;
    struct blackbox *box = must_parse();
    assert_true(box->comms[0].op_count == 2 && box->comms[0].ops[1].seq == 2);
    assert_int_equal(box->event_count, 1);
    blackbox_free(box);
}

static void test_communicator_in_the_making(void **state)
{
    comm(0)->stamp = 3;
    struct blackbox *box = must_parse();
    assert_true(box->comm_count == 1 && box->comms[0].id == 1 && box->torn == 1);
    blackbox_free(box);
}

/* The record's position says that it belongs elsewhere: memory that was overwritten. */
static void test_record_in_the_wrong_place(void **state)
{
    op(0, 1)->stamp = 7ull << WIRE_OP_POSITION | RUN;
    event(1)->stamp = 9;
    struct blackbox *box = must_parse();
    assert_true(box->comms[0].op_count == 2 && box->event_count == 1 && box->torn == 2);
    blackbox_free(box);
}

static void test_senseless_communicators(void **state)
{
    comm(0)->rank = 2;
    comm(1)->state = 99;
    struct blackbox *box = must_parse();
    assert_true(box->comm_count == 0 && box->torn == 2);
    blackbox_free(box);
}

static void test_wait_slots(void **state)
{
    op(0, 0)->wait[0] = (struct wire_box_wait){4 | 5ull << 24 | 6ull << 40, 900};
    op(0, 0)->wait[1] = (struct wire_box_wait){0, 901};
    struct blackbox *box = must_parse();
    const struct blackbox_op *seen = &box->comms[0].ops[0];
    assert_true(seen->wait_peer == 3 && seen->wait_slice == 5 && seen->wait_round == 6 && seen->wait_since == 900);
    blackbox_free(box);
    op(0, 0)->stamp |= 1ull << WIRE_OP_UPDATES;
    box = must_parse();
    assert_true(box->comms[0].ops[0].wait_peer == -1 && box->comms[0].ops[0].wait_since == 901);
    blackbox_free(box);
}

/* Marks and fields that only GPUs' operations have; earlier writers left something else there. */
static void test_operations_of_gpus(void **state)
{
    op(0, 0)->peers = op(0, 1)->peers = UINT64_MAX;
    op(0, 1)->stamp |= WIRE_OP_DEVICE;
    op(0, 2)->stamp = 2ull << WIRE_OP_POSITION | WIRE_OP_DONE | WIRE_OP_CAPTURED;
    op(0, 1)->begin = UINT64_MAX;
    comm(0)->captured = 8;
    comm(0)->memory[WIRE_MEMORY_BULK] = UINT64_MAX;
    comm(0)->memory[WIRE_BOX_MEMORY - 1] = 5; /* of a later writer */
    struct blackbox *box = must_parse();
    const struct blackbox_op *ops = box->comms[0].ops;
    assert_true(!ops[0].device && !ops[0].sends_to && !ops[0].recvs_from && !ops[0].head_since);
    assert_true(ops[1].device && ops[1].sends_to == UINT32_MAX && ops[1].recvs_from == UINT32_MAX &&
                ops[1].head_since == ops[1].begin);
    assert_true(ops[2].captured && !ops[2].device && box->comms[0].captured == 8);
    assert_true(blackbox_memory(&box->comms[0], "device") == UINT64_MAX && blackbox_memory(&box->comms[0], "?") == 5);
    blackbox_free(box);
}

static void test_unterminated_texts(void **state)
{
    memset(comm(0)->name, 'n', sizeof comm(0)->name);
    memset(comm(0)->sentence, '\t', sizeof comm(0)->sentence);
    memset(op(0, 0)->algorithm.text, 'a', 16);
    memset(header()->host, 'h', sizeof header()->host);
    struct blackbox *box = must_parse();
    assert_int_equal(strlen(box->comms[0].name), WIRE_BOX_NAME - 1);
    assert_int_equal(box->comms[0].sentence[0], '?');
    assert_int_equal(strlen(box->comms[0].ops[0].algorithm), 16);
    assert_int_equal(strlen(box->header.host), WIRE_BOX_NAME - 1);
    blackbox_free(box);
}

/* ---- Headers that lie ---- */

static void test_not_a_box(void **state)
{
    struct blackbox *box;
    assert_int_equal(blackbox_parse(bytes, 100, &box), TUTTI_INVALID_USAGE);
    header()->magic = 0;
    assert_refused("it is none, or not ready");
    header()->magic = __builtin_bswap64(WIRE_BOX_MAGIC);
    assert_refused("the other byte order");
}

static void test_other_version(void **state)
{
    char sentence[32];
    snprintf(sentence, sizeof sentence, "version %d, want %d", WIRE_BOX_VERSION + 1, WIRE_BOX_VERSION);
    header()->version = WIRE_BOX_VERSION + 1;
    assert_refused(sentence);
}

static void test_lies_about_sizes(void **state)
{
    struct wire_box_header good = *header();
    header()->file_bytes = BYTES + 1;
    assert_refused("the size in its header");
    *header() = good;
    header()->header_bytes = 8;
    assert_refused("its header is too short");
    *header() = good;
    header()->events.offset = UINT64_MAX - 7;
    assert_refused("its events do not fit");
    *header() = good;
    header()->events.count = 3;
    assert_refused("its events do not fit");
    *header() = good;
    header()->counters.offset = BYTES;
    assert_refused("its counters do not fit");
    *header() = good;
    header()->comms.count = COMMS + 1;
    assert_refused("its communicators do not fit");
    *header() = good;
    header()->comms.bytes = 8;
    assert_refused("its communicators do not fit");
    *header() = good;
    header()->ops.count = 2 * WIRE_BOX_OPS;
    assert_refused("its operations do not fit");
    *header() = good;
    header()->ops.offset = 8;
    assert_refused("its operations do not fit");
    *header() = good;
    header()->ops.bytes = UINT32_MAX - 7;
    assert_refused("its operations do not fit");
}

/* Longer records of a newer writer: what is known of them is read. */
static void test_longer_events(void **state)
{
    header()->events = (struct wire_box_section){WIRE_BOX_EVENT_AT, 128, WIRE_BOX_EVENTS / 2};
    *event(2) = *event(1);
    memset(event(1), 0x77, 64);
    struct blackbox *box = must_parse();
    assert_int_equal(box->event_count, 2);
    blackbox_free(box);
}

/* ---- The clock ---- */

static void test_ticks_of_another_host(void **state)
{
    header()->clock_kind = 77;
    header()->opened = (struct wire_box_clock){1000, 50000, 0};
    header()->latest = (struct wire_box_clock){2000, 54000, 0}; /* 4 ns a tick */
    op(0, 0)->start = 1500;
    struct blackbox *box = must_parse();
    assert_int_equal(box->comms[0].ops[0].start, 52000);
    blackbox_free(box);
    header()->latest = header()->opened; /* the rate cannot be known */
    box = must_parse();
    assert_int_equal(box->comms[0].ops[0].start, 0);
    blackbox_free(box);
}

static void test_hostile_clocks(void **state)
{
    static const uint64_t values[] = {0, 1, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - 1, UINT64_MAX};
    enum { N = sizeof values / sizeof *values };
    header()->clock_kind = 77;
    for (int i = 0; i < N * N * N * N; i++) {
        header()->opened = (struct wire_box_clock){values[i % N], values[i / N % N], 0};
        header()->latest = (struct wire_box_clock){values[i / N / N % N], values[i / N / N / N % N], 0};
        op(0, 0)->start = values[(i + 1) % N];
        blackbox_free(must_parse());
    }
}

/* ---- Damage at random ---- */

static const char *stored(const char *path, size_t length)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, length), length);
    close(fd);
    return path;
}

static void test_random_damage(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/tutti-boxread-damage-%d", (int)getpid());
    uint8_t *good = malloc(BYTES);
    memcpy(good, bytes, BYTES);
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < 6; i++) {
            random = random * 1664525u + 1013904223u;
            size_t where = (random >> 8) % (round % 2 ? sizeof(struct wire_box_header) : BYTES);
            bytes[where] = (uint8_t)(random >> 3);
        }
        struct blackbox *box = NULL;
        size_t length = round % 5 ? BYTES : random % BYTES;
        if (blackbox_parse(bytes, length, &box) == TUTTI_SUCCESS)
            blackbox_free(box);
        if (round % 10 < 2 && blackbox_outline(stored(path, length), &box) == TUTTI_SUCCESS)
            blackbox_free(box);
        memcpy(bytes, good, BYTES);
    }
    unlink(path);
    free(good);
}

/* ---- Files ---- */

static void test_file_cut_short_while_read(void **state)
{
    char path[] = "/tmp/tutti-boxread-XXXXXX";
    int fd = mkstemp(path);
    struct blackbox *box;
    assert_int_equal(write(fd, bytes, BYTES), BYTES);
    assert_int_equal(blackbox_read(path, &box), TUTTI_SUCCESS);
    blackbox_free(box);
    assert_int_equal(ftruncate(fd, WIRE_BOX_COMM_AT + 100), 0);
    assert_int_equal(blackbox_read(path, &box), TUTTI_INVALID_USAGE);
    close(fd);
    unlink(path);
    assert_int_equal(blackbox_read(path, &box), TUTTI_SYSTEM_ERROR);
    assert_int_equal(blackbox_read("/tmp", &box), TUTTI_INVALID_USAGE);
}

static void test_outline(void **state)
{
    char path[64];
    struct blackbox *outline, *whole;
    snprintf(path, sizeof path, "/tmp/tutti-boxread-outline-%d", (int)getpid());
    assert_int_equal(blackbox_read(stored(path, BYTES), &whole), TUTTI_SUCCESS);
    assert_int_equal(blackbox_outline(path, &outline), TUTTI_SUCCESS);
    assert_true(outline->outline && !whole->outline && whole->comm_count);
    assert_int_equal(outline->comm_count, whole->comm_count);
    for (size_t i = 0; i < whole->comm_count; i++) {
        assert_int_equal(outline->comms[i].id, whole->comms[i].id);
        assert_string_equal(outline->comms[i].name, whole->comms[i].name);
        assert_int_equal(outline->comms[i].op_count, 0);
    }
    assert_int_equal(outline->event_count + outline->lane_count, 0);
    assert_memory_equal(outline->counters, whole->counters, sizeof whole->counters);
    blackbox_free(outline);
    comm(0)->nranks = -1; /* nobody writes that */
    assert_int_equal(blackbox_outline(stored(path, BYTES), &outline), TUTTI_SUCCESS);
    assert_int_equal(outline->comm_count, whole->comm_count - 1);
    assert_int_equal(outline->torn, 1);
    blackbox_free(outline);
    blackbox_free(whole);
    unlink(path);
}

static void test_fifo_does_not_hang(void **state)
{
    char path[64];
    struct blackbox *box;
    snprintf(path, sizeof path, "/tmp/tutti-boxread-fifo-%d", (int)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(blackbox_read(path, &box), TUTTI_INVALID_USAGE);
    unlink(path);
}

static void test_names(void **state)
{
    static const char *const wrong[] = {
        "",
        "tutti-1-2-3",
        "tutti-1-2.box",
        "tutti-1-2-3.boxx",
        "tutti-01-2-3.box",
        "tutti-1-2-3.0.box",
        "tutti-1--2-3.box",
        "tutti-1-2-99999999999999999999.box",
        "xtutti-1-2-3.box",
        "tutti-1-2-3.1.box.1",
    };
    struct boxfile file;
    char name[96];
    assert_true(boxfile_parse("tutti-1000-812-77.box", &file));
    assert_true(file.uid == 1000 && file.pid == 812 && file.start_time == 77 && file.number == 0);
    assert_true(boxfile_parse("tutti-1000-812-77.3.box", &file));
    assert_int_equal(file.number, 3);
    boxfile_name(&file, name, sizeof name);
    assert_string_equal(name, "tutti-1000-812-77.3.box");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(boxfile_parse(wrong[i], &file));
}

static void test_process_facts(void **state)
{
    uint8_t boot[16], none[16] = {0};
    assert_true(boxfile_start_time((uint32_t)getpid()) > 0);
    assert_int_equal(boxfile_start_time(0x7ffffffe), 0);
    uint64_t mine = boxfile_start_time((uint32_t)getpid());
    pid_t child = fork(); /* others must see the same */
    if (child == 0)
        _exit(boxfile_start_time((uint32_t)getppid()) != mine);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(boxfile_pid_namespace() > 0);
    boxfile_boot_id(boot);
    assert_memory_not_equal(boot, none, 16);
}

static void test_names_of_numbers(void **state)
{
    assert_string_equal(blackbox_collective_name(WIRE_GROUP), "group");
    assert_string_equal(blackbox_collective_name(WIRE_COLLECTIVE_COUNT), "?");
    assert_string_equal(blackbox_collective_name(-1), "?");
    for (int i = 0; i < WIRE_COLLECTIVE_COUNT; i++)
        assert_non_null(blackbox_collective_name(i));
    for (int i = 0; i < TUTTI_TYPE_COUNT; i++)
        assert_non_null(blackbox_type_name(i));
    for (int i = 0; i < TUTTI_OP_COUNT; i++)
        assert_non_null(blackbox_op_name(i));
    assert_string_equal(blackbox_op_name(WIRE_OP_NONE), "");
    assert_string_equal(blackbox_counter_row(WIRE_COUNTER_COUNT)->metric, "unknown");
    for (size_t i = 0; i + 1 < WIRE_COUNTER_COUNT; i++) /* rows of one metric stand together */
        for (size_t j = i + 2; j < WIRE_COUNTER_COUNT; j++)
            if (strcmp(blackbox_counter_row(i)->metric, blackbox_counter_row(j)->metric) == 0)
                assert_string_equal(blackbox_counter_row(i)->metric, blackbox_counter_row(i + 1)->metric);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, build, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_reads_it),
        CASE(test_reads_lanes),
        CASE(test_watches),
        CASE(test_lanes_of_earlier_writers),
        CASE(test_odd_lanes),
        CASE(test_lanes_that_do_not_fit),
        CASE(test_record_in_the_making),
        CASE(test_communicator_in_the_making),
        CASE(test_record_in_the_wrong_place),
        CASE(test_senseless_communicators),
        CASE(test_wait_slots),
        CASE(test_unterminated_texts),
        CASE(test_operations_of_gpus),
        CASE(test_not_a_box),
        CASE(test_other_version),
        CASE(test_lies_about_sizes),
        CASE(test_longer_events),
        CASE(test_ticks_of_another_host),
        CASE(test_hostile_clocks),
        CASE(test_random_damage),
        CASE(test_file_cut_short_while_read),
        CASE(test_outline),
        CASE(test_fifo_does_not_hang),
        CASE(test_names),
        CASE(test_process_facts),
        CASE(test_names_of_numbers),
    };
    return cmocka_run_group_tests_name("boxread", tests, NULL, NULL);
}
