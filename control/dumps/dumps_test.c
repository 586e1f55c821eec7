/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of other libraries: what the readers find in them, and that they refuse hostile and truncated ones. */
#include "diagnosis/diagnosis.h"
#include "dumps/readers.h"

#include "base/clock.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STUCK 2000000000ull

/* The boxes of several dumps. */
struct pile {
    struct blackbox *boxes[64];
    size_t count;
};

static uint64_t written; /* when the files are said to be written */

static void add(struct pile *pile, const char *path, const void *bytes, size_t size)
{
    struct blackbox **boxes;
    size_t count;
    if (dump_read(&(struct dump_file){path, bytes, size, written}, &boxes, &count) != TUTTI_SUCCESS)
        fail_msg("%s", error_last());
    for (size_t i = 0; i < count; i++)
        pile->boxes[pile->count++] = boxes[i];
    free(boxes);
}

static struct findings find(const struct pile *pile)
{
    assert_true(dump_join(pile->boxes, pile->count));
    const struct snapshot snapshot = {.now = {pile->boxes, NULL, pile->count}, .stuck = STUCK};
    return diagnosis_find(&snapshot);
}

static void expect(struct pile *pile, enum finding_kind kind, int rank, const char *words)
{
    struct findings found = find(pile);
    assert_int_equal(found.count, 1);
    if (found.items->kind != kind || found.items->culprit.rank != rank || !strstr(found.items->sentence, words))
        fail_msg("%s, rank %d: %s", finding_row(found.items->kind)->name, found.items->culprit.rank,
                 found.items->sentence);
    findings_free(&found);
    for (size_t i = 0; i < pile->count; i++)
        blackbox_free(pile->boxes[i]);
    pile->count = 0;
}

static void refused(const void *bytes, size_t size, const char *words)
{
    struct blackbox **boxes;
    size_t count;
    assert_int_equal(dump_read(&(struct dump_file){"rank_0", bytes, size, 0}, &boxes, &count), TUTTI_INVALID_USAGE);
    if (!strstr(error_last(), words))
        fail_msg("%s", error_last());
}

/* ---- Flight Recorder ---- */

static void record(struct pile *pile, int rank, int calls, int elements, const char *state)
{
    char text[4096], path[64];
    int used = snprintf(text, sizeof text,
                        "{\"version\": \"2.10\", \"host_name\": \"node%d\", \"pg_config\": {\"0\": {\"name\": \"0\", "
                        "\"desc\": \"default_pg\", "
                        "\"ranks\": \"[0, 1, 2, 3]\"}}, \"pg_status\": {}, \"entries\": [",
                        rank);
    for (int i = 1; i <= calls; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"record_id\": %d, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": %d, "
                         "\"p2p_seq_id\": 0, "
                         "\"profiling_name\": \"nccl:all_reduce\", \"time_created_ns\": 1700000000000000000, "
                         "\"input_sizes\": [[%d, 10]], "
                         "\"input_dtypes\": [\"Float\"], \"output_sizes\": [[3]], \"output_dtypes\": [\"Float\"], "
                         "\"state\": \"%s\", "
                         "\"is_p2p\": false, \"retired\": false, \"timeout_ms\": 600000}",
                         i > 1 ? ", " : "", i, i, i == calls ? elements : 5, i < calls ? "completed" : state);
    snprintf(text + used, sizeof text - (size_t)used, "]}");
    snprintf(path, sizeof path, "/tmp/trace_rank_%d.json", rank);
    add(pile, path, text, strlen(text));
}

static void test_recorder_behind(void **state)
{
    struct pile pile = {0};
    for (int rank = 0; rank < 4; rank++)
        record(&pile, rank, rank == 2 ? 2 : 3, 5, rank == 2 ? "completed" : "started");
    expect(&pile, FINDING_BEHIND, 2,
           "rank 2 has not called allreduce #3 and is waited for by ranks 0 1 3 in allreduce #3 of communicator "
           "default_pg");
}

static void test_recorder_size(void **state)
{
    struct pile pile = {0};
    for (int rank = 0; rank < 4; rank++)
        record(&pile, rank, 3, rank == 1 ? 6 : 5, "started");
    expect(&pile, FINDING_MISMATCH, 1, "rank 1 called allreduce of 60 float, ranks 0 2 3 called allreduce of 50 float");
}

#define CREATED 1700000000000000000ull

/* The program has waited since the call was made, until its file was written: nothing in the dump is as late. */
static void test_recorder_waits(void **state)
{
    static const struct {
        uint64_t written;
        const char *words;
    } cases[] = {{CREATED + 10 * NS_PER_S, "in allreduce #3 of communicator default_pg, for 10.0 s;"},
                 {CREATED + 590 * NS_PER_S, "in allreduce #3 of communicator default_pg, for 590.0 s;"},
                 {0, "in allreduce #3 of communicator default_pg;"},
                 {CREATED - NS_PER_S, "in allreduce #3 of communicator default_pg;"},
                 {CREATED + 900 * NS_PER_S, "in allreduce #3 of communicator default_pg;"}}; /* a copy: it was patient
                                                                                              for 600 s */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pile pile = {0};
        written = cases[i].written;
        for (int rank = 0; rank < 4; rank++)
            record(&pile, rank, rank == 2 ? 2 : 3, 5, rank == 2 ? "completed" : "started");
        expect(&pile, FINDING_BEHIND, 2, cases[i].words);
    }
    written = 0;
}

/* PyTorch 2.15 of Gloo: one group, which is none, in pg_config; calls that stay scheduled, and are retired when they
 * are over or have failed. pg_status counts later. */
static void record_gloo(struct pile *pile, int rank, const char *group, int calls, int retired)
{
    char text[4096], path[64];
    int used = snprintf(text, sizeof text,
                        "{\"version\": \"2.10\", \"comm_lib_version\": \"\", \"pg_config\": {\"\": {\"name\": \"\", "
                        "\"desc\": \"\", \"ranks\": \"[%d]\"}}, \"pg_status\": {\"1\": "
                        "{\"last_completed_collective\": \"%d\"}}, \"entries\": [",
                        rank, retired / 2);
    for (int i = 1; i <= calls; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"pg_id\": 1, \"process_group\": [\"1\", \"%s\"], \"collective_seq_id\": %d, "
                         "\"profiling_name\": \"gloo:all_reduce\", \"time_created_ns\": 1700000000000000000, "
                         "\"input_sizes\": [[10]], \"input_dtypes\": [\"Float\"], \"state\": \"scheduled\", "
                         "\"retired\": %s, \"timeout_ms\": 600000}",
                         i > 1 ? ", " : "", group, i, i <= retired ? "true" : "false");
    snprintf(text + used, sizeof text - (size_t)used, "]}");
    snprintf(path, sizeof path, "/tmp/trace_rank_%d", rank);
    add(pile, path, text, strlen(text));
}

static void test_recorder_gloo(void **state)
{
    struct pile pile = {0};
    for (int rank = 0; rank < 3; rank++)
        record_gloo(&pile, rank, "default_pg", rank == 1 ? 2 : 3, 2);
    expect(&pile, FINDING_BEHIND, 1,
           "rank 1 has not called allreduce #3 and is waited for by ranks 0 2 in allreduce #3");
    record_gloo(&pile, 0, "default_pg", 3, 2);
    record_gloo(&pile, 2, "default_pg", 3, 2);
    expect(&pile, FINDING_ABSENT, 1, "rank 1");
    record_gloo(&pile, 5, "tensor", 3, 2); /* a group of ranks 2 and 5: there they are 0 and 1 */
    record_gloo(&pile, 2, "tensor", 2, 2);
    expect(&pile, FINDING_BEHIND, 0, "rank 0 has not called allreduce #3 and is waited for by rank 1");
}

/* As a job of PyTorch 2.11 left them whose call had a timeout: Gloo had retired it on the ranks that waited. */
static void test_recorder_gloo_failed(void **state)
{
    struct pile pile = {0};
    static const uint64_t times[] = {0, CREATED + 5 * NS_PER_S};
    for (size_t i = 0; i < 2; i++) {
        written = times[i];
        for (int rank = 0; rank < 4; rank++)
            record_gloo(&pile, rank, "default_pg", rank == 1 ? 2 : 3, 3);
        expect(&pile, FINDING_BEHIND, 1, "rank 1 has not called allreduce #3 and is waited for by ranks 0 2 3");
    }
    /* a job that runs: rank 1's dump was the first, and the others wait for a moment */
    for (int retired = 2; retired < 4; retired++) {
        written = CREATED + NS_PER_S;
        for (int rank = 0; rank < 4; rank++)
            record_gloo(&pile, rank, "default_pg", rank == 1 ? 2 : 3, retired);
        struct findings found = find(&pile);
        assert_int_equal(found.count, 0);
        for (; pile.count; pile.count--)
            blackbox_free(pile.boxes[pile.count - 1]);
    }
    written = 0;
}

static void test_recorder_without_rank(void **state)
{
    static const char text[] = "{\"version\": \"2.10\", \"entries\": []}";
    struct blackbox **boxes;
    size_t count;
    assert_int_equal(dump_read(&(struct dump_file){"/tmp/trace.json", text, sizeof text - 1, 0}, &boxes, &count),
                     TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "its name must end with the rank"));
}

/* ---- RAS ---- */

#define RANK(rank, calls)                                                                                              \
    "{\"rank\": " #rank ", \"host\": \"n\", \"pid\": 10" #rank                                                         \
    ", \"status\": {}, \"collective_counts\": {\"AllReduce\": " #calls ", \"Broadcast\": 7}}"
#define OTHER(rank)                                                                                                    \
    "{\"rank\": " #rank ", \"host\": \"n\", \"pid\": 10" #rank                                                         \
    ", \"status\": {}, \"collective_counts\": {\"AllReduce\": 8, \"Broadcast\": 8}}"
#define RAS(ranks, missing)                                                                                            \
    "{\"nccl_version\": \"2.28.3\", \"communicators\": [{\"hash\": \"0xab\", \"size\": 3, \"ranks\": [" ranks          \
    "], \"missing_ranks\": [" missing "]}]}"

static void test_ras_counts(void **state)
{
    static const char text[] = RAS(RANK(0, 9) ", " RANK(1, 8) ", " RANK(2, 9), "");
    struct pile pile = {0};
    add(&pile, "ras.json", text, sizeof text - 1);
    expect(&pile, FINDING_BEHIND, 1,
           "rank 1 (process 101) has not called allreduce #16 and is waited for by ranks 0 2");
}

/* The same number of calls, but other calls: RAS tells no sizes, so none are named. */
static void test_ras_mismatch(void **state)
{
    static const char text[] = RAS(RANK(0, 9) ", " RANK(1, 9) ", " OTHER(2), "");
    struct pile pile = {0};
    add(&pile, "ras.json", text, sizeof text - 1);
    expect(&pile, FINDING_MISMATCH, 2, "rank 2 (process 102) called broadcast, ranks 0 1 called allreduce");
    static const char first[] = RAS(OTHER(0) ", " RANK(1, 9) ", " RANK(2, 9), "");
    add(&pile, "ras.json", first, sizeof first - 1);
    expect(&pile, FINDING_MISMATCH, 0, "rank 0 (process 100) called broadcast, ranks 1 2 called allreduce");
}

static void test_ras_dead(void **state)
{
    static const char text[] =
        RAS(RANK(0, 9) ", " RANK(2, 9),
            "{\"rank\": 1, \"host\": \"n\", \"pid\": 101, \"status\": {\"considered_dead\": true}}");
    struct pile pile = {0};
    add(&pile, "ras.json", text, sizeof text - 1);
    expect(&pile, FINDING_DEAD, 1, "rank 1 (process 101, dead) is waited for by ranks 0 2");
}

static void test_ras_healthy(void **state)
{
    static const char text[] = RAS(RANK(0, 9) ", " RANK(1, 9) ", " RANK(2, 9), "");
    struct pile pile = {0};
    add(&pile, "ras.json", text, sizeof text - 1);
    struct findings found = find(&pile);
    assert_int_equal(found.count, 0);
    for (size_t i = 0; i < pile.count; i++)
        blackbox_free(pile.boxes[i]);
}

/* ---- Pickles ---- */

#define PICKLE(text) "\x80\x02" text, sizeof "\x80\x02" text - 1

static void test_pickle(void **state)
{
    static const char bytes[] =
        "\x80\x02}q\x00(X\x01\x00\x00\x00"
        "aq\x01K\x05X\x01\x00\x00\x00"
        "b]q\x02(J\xff\xff\xff\xff\x8a\x02\xff\x00G?\xf0\x00\x00\x00\x00\x00\x00\x88Nh\x01\x85q\x03"
        "eX\x01\x00\x00\x00"
        "ch\x02u.";
    json_t *value = pickle_read(bytes, sizeof bytes - 1, "here");
    if (!value)
        fail_msg("%s", error_last());
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"a\":5,\"b\":[-1,255,1.0,true,null,[\"a\"]],\"c\":[-1,255,1.0,true,null,[\"a\"]]}");
    free(text);
    json_decref(value);
    for (size_t size = 0; size + 1 < sizeof bytes; size++) /* every truncation */
        assert_null(pickle_read(bytes, size, "here"));
}

static void test_hostile_pickles(void **state)
{
    char deep[4096] = "\x80\x02";
    refused(PICKLE("cos\nsystem\n(X\x04\x00\x00\x00trueq\x00tR."), "makes objects or calls code");
    refused(PICKLE("]q\x00(h\x00"
                   "e."),
            "a list holds itself");
    refused(PICKLE("]q\x00]q\x01(h\x00"
                   "ea."),
            "a list holds itself");
    refused(PICKLE("X\xff\xff\xff\xff"
                   "ab."),
            "cut short");
    refused(PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                   "ab."),
            "cut short");
    refused(PICKLE("e."), "a mark is missing");
    refused(PICKLE("(e."), "the stack is empty");
    refused(PICKLE("((e."), "a mark is in the way");
    refused(PICKLE("K\x01K\x02"
                   "a."),
            "no list");
    refused(PICKLE("h\x05."), "not there");
    refused(PICKLE("r\xff\xff\xff\x7f."), "not in order");
    refused(PICKLE("}(]K\x01u."), "neither text nor a number");
    refused(PICKLE("."), "in the middle");
    memset(deep + 2, ']', 2000);
    memset(deep + 2002, 'a', 1999);
    deep[4001] = '.';
    refused(deep, 4002, "nested too deeply");
}

/* Each list holds the one before twice: small in the file, and small in memory. */
static void test_shared_lists(void **state)
{
    char bytes[4096] = "\x80\x02](";
    size_t at = 4;
    for (int i = 0; i < 50; i++) {
        bytes[at++] = ']';
        bytes[at++] = 'q';
        bytes[at++] = (char)i;
        for (int j = 0; i && j < 2; j++) {
            bytes[at++] = 'h';
            bytes[at++] = (char)(i - 1);
            bytes[at++] = 'a';
        }
        bytes[at++] = 'e'; /* into the outermost list, which is whole */
        bytes[at++] = '(';
    }
    memcpy(bytes + at, "e.", 2);
    json_t *value = pickle_read(bytes, at + 2, "here");
    if (!value)
        fail_msg("%s", error_last());
    json_decref(value);
}

/* ---- Anything ---- */

static void test_noise(void **state)
{
    static const char seedling[] = RAS(RANK(0, 9) ", " RANK(1, 8), "");
    static const char pickle[] = "\x80\x02}q\x00(X\x07\x00\x00\x00versionX\x03\x00\x00\x00"
                                 "2.1X\x07\x00\x00\x00"
                                 "entries](}X\x05\x00\x00\x00stateNs}eu.";
    unsigned seed = 7;
    for (int round = 0; round < 20000; round++) {
        char bytes[sizeof seedling];
        size_t size = round % 2 ? sizeof seedling - 1 : sizeof pickle - 1;
        memcpy(bytes, round % 2 ? seedling : pickle, size);
        for (int change = 0; change < 3; change++)
            bytes[(size_t)rand_r(&seed) % size] = (char)rand_r(&seed);
        struct blackbox **boxes;
        size_t count;
        if (dump_read(&(struct dump_file){"rank_0", bytes, size, 0}, &boxes, &count) != TUTTI_SUCCESS)
            continue;
        struct findings found = find(&(struct pile){.boxes = {count ? boxes[0] : NULL}, .count = count > 0});
        findings_free(&found);
        for (size_t i = 0; i < count; i++)
            blackbox_free(boxes[i]);
        free(boxes);
    }
    refused("", 0, "neither a black box nor a dump");
    refused("[1]", 3, "neither a black box, nor a dump of the Flight Recorder, of NCCL's RAS or of NCCLX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorder_behind),
        cmocka_unit_test(test_recorder_size),
        cmocka_unit_test(test_recorder_waits),
        cmocka_unit_test(test_recorder_gloo),
        cmocka_unit_test(test_recorder_gloo_failed),
        cmocka_unit_test(test_recorder_without_rank),
        cmocka_unit_test(test_ras_counts),
        cmocka_unit_test(test_ras_mismatch),
        cmocka_unit_test(test_ras_dead),
        cmocka_unit_test(test_ras_healthy),
        cmocka_unit_test(test_pickle),
        cmocka_unit_test(test_hostile_pickles),
        cmocka_unit_test(test_shared_lists),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests_name("dumps", tests, NULL, NULL);
}
