/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of NCCLX's communicators, one file for each process: the culprits are the same as of other dumps. */
#include "diagnosis/diagnosis.h"
#include "dumps/dumps.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALL(name, number, count)                                                                                      \
    "{\\\"opName\\\":\\\"" name "\\\",\\\"opCount\\\":" #number ",\\\"count\\\":" #count                               \
    ",\\\"dataType\\\":\\\"ncclFloat32\\\","                                                                           \
    "\\\"enqueueTs\\\":1700000000000000,\\\"startTs\\\":1700000000000100,\\\"latencyMs\\\":2.5}"
/* The file as the library hands it out: texts of JSON. */
#define COMM(rank, past, current)                                                                                      \
    "{\"0xfeed\": {\"commHash\": \"\\\"0xfeed\\\"\", \"commDesc\": \"\\\"tensor\\\"\", \"rank\": \"" #rank             \
    "\", \"nRanks\": \"3\", "                                                                                          \
    "\"CT_pastColls\": \"[" past "]\", \"CT_currentColls\": \"[" current                                               \
    "]\", \"CT_pendingColls\": \"[]\"}, \"GlobalInfo\": {\"x\": \"1\"}}"

static struct blackbox *boxes[16];
static size_t count;
static uint64_t written;

static void add(const char *text)
{
    struct blackbox **more;
    size_t got;
    if (dump_read(&(struct dump_file){"dump.json", text, strlen(text), written}, &more, &got) != TUTTI_SUCCESS)
        fail_msg("%s", error_last());
    for (size_t i = 0; i < got; i++)
        boxes[count++] = more[i];
    free(more);
}

static struct findings found(void)
{
    const struct snapshot snapshot = {.now = {boxes, NULL, count}, .stuck = 2000000000};
    return diagnosis_find(&snapshot);
}

static int forget(void **state)
{
    while (count)
        blackbox_free(boxes[--count]);
    return 0;
}

static void expect(enum finding_kind kind, int rank, const char *words)
{
    struct findings findings = found();
    assert_int_equal(findings.count, 1);
    if (findings.items->kind != kind || findings.items->culprit.rank != rank ||
        !strstr(findings.items->sentence, words))
        fail_msg("%s, rank %d: %s", finding_row(findings.items->kind)->name, findings.items->culprit.rank,
                 findings.items->sentence);
    findings_free(&findings);
}

static void test_behind(void **state)
{
    add(COMM(0, CALL("AllReduce", 7, 100), CALL("AllReduce", 8, 100)));
    add(COMM(1, CALL("AllReduce", 7, 100), ""));
    add(COMM(2, CALL("AllReduce", 7, 100), CALL("AllReduce", 8, 100)));
    expect(FINDING_BEHIND, 1,
           "rank 1 has not called allreduce #8 and is waited for by ranks 0 2 in allreduce #8 of communicator tensor");
    assert_int_equal(boxes[0]->comms->id, 0xfeed);
    assert_int_equal(boxes[0]->comms->ops[0].type, TUTTI_FLOAT32);
    assert_int_equal(boxes[0]->comms->ops[0].end - boxes[0]->comms->ops[0].start, 2500000);
}

static void test_mismatch(void **state)
{
    add(COMM(0, CALL("AllReduce", 7, 100), CALL("AllGather", 8, 100)));
    add(COMM(1, CALL("AllReduce", 7, 100), CALL("AllGather", 8, 99)));
    add(COMM(2, CALL("AllReduce", 7, 100), CALL("AllGather", 8, 100)));
    expect(FINDING_MISMATCH, 1, "rank 1 called allgather of 99 float");
}

static void test_healthy(void **state)
{
    add(COMM(0, CALL("AllReduce", 7, 100), ""));
    add(COMM(1, CALL("AllReduce", 7, 100), ""));
    struct findings findings = found();
    assert_int_equal(findings.count, 0);
    findings_free(&findings);
}

/* The file with what is in the texts, and a current call that is not in a list. */
static void test_plain(void **state)
{
    add("{\"a\": {\"commHash\": 257, \"rank\": 2, \"nRanks\": 4, \"CT_pastColls\": [], \"CT_currentColl\": "
        "{\"opName\": \"Send\", \"opCount\": 3}}}");
    assert_int_equal(boxes[0]->comms->id, 257);
    assert_int_equal(boxes[0]->comms->op_count, 1);
    assert_int_equal(boxes[0]->comms->ops->collective, WIRE_GROUP);
    assert_int_equal(boxes[0]->comms->ops->state, WIRE_OP_RUNNING);
}

static void test_senseless(void **state)
{
    static const char *const texts[] = {
        "{\"a\": {\"commHash\": null, \"rank\": -1, \"nRanks\": 99999999999, \"CT_pastColls\": 7}}",
        "{\"a\": {\"commHash\": \"[[[\", \"rank\": \"x\", \"nRanks\": \"2\", \"CT_pastColls\": \"[{]\", "
        "\"CT_pendingColls\": [1, \"x\", null, {}]}}",
        "{\"a\": {\"commHash\": [], \"rank\": 4, \"nRanks\": 4, \"CT_pastColls\": [{\"startTs\": 9223372036854775807, "
        "\"latencyMs\": 1e300}]}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add(texts[i]);
    struct findings findings = found();
    findings_free(&findings);
    assert_int_equal(boxes[0]->comm_count + boxes[2]->comm_count, 0);
    assert_int_equal(boxes[1]->comms->op_count, 1);
}

#define CASE(test) cmocka_unit_test_teardown(test, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_behind), CASE(test_mismatch), CASE(test_healthy), CASE(test_plain),
                                       CASE(test_senseless)};
    return cmocka_run_group_tests_name("dumps of NCCLX", tests, NULL, NULL);
}
