/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order, on which streams and in how many operations a group's calls
 * come to executors: scripted ones, which write down what they are asked for.
 */
#include "api/group.h"

#include "base/error.h"
#include "base/param.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A communicator of some GPU, whose executor writes to the log that all share. */
struct scripted {
    struct tutti_comm comm;
    struct team team; /* which fails with the call that fails */
    struct executor executor;
    char name;
    int fail_at; /* the call that fails, from 1; 0: none */
    int calls;
};

static char text[8192];

static void say(const struct scripted *who, const char *what, long value, tutti_stream_t stream)
{
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%c.%s%ld@%ld ", who->name, what, value, (long)(intptr_t)stream);
}

static struct scripted *scripted_of(struct executor *executor)
{
    return (struct scripted *)((char *)executor - offsetof(struct scripted, executor));
}

static tutti_result_t outcome(struct scripted *who)
{
    if (++who->calls != who->fail_at)
        return TUTTI_SUCCESS;
    atomic_store(&who->team.failed, TUTTI_DEVICE_ERROR);
    return error_set(TUTTI_DEVICE_ERROR, "%c failed", who->name);
}

static tutti_result_t await_all(struct executor *executor)
{
    say(scripted_of(executor), "w", 0, NULL);
    return error_set(TUTTI_REMOTE_ERROR, "%c has failed", scripted_of(executor)->name);
}

static tutti_result_t issue(struct executor *executor, const struct call *call, void *owned, tutti_stream_t stream,
                            const struct executor_note *note)
{
    (void)note;
    free(owned);
    say(scripted_of(executor), "c", (long)call->count, stream);
    return outcome(scripted_of(executor));
}

/* Of one that takes several at once: how many, and what the first one is. */
static tutti_result_t issue_many(struct executor *executor, const struct executor_call *calls, int count,
                                 tutti_stream_t stream)
{
    say(scripted_of(executor), "n", count, stream);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count; i++)
        if (result == TUTTI_SUCCESS)
            result = issue(executor, calls[i].call, calls[i].owned, stream, calls[i].note);
        else
            free(calls[i].owned);
    return result;
}

static tutti_result_t messages(struct executor *executor, const struct p2p_item *items, int count,
                               tutti_stream_t stream)
{
    (void)items;
    say(scripted_of(executor), "m", count, stream);
    return outcome(scripted_of(executor));
}

static tutti_result_t follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    say(scripted_of(executor), "f", (long)(intptr_t)before, stream);
    return TUTTI_SUCCESS;
}

static void script(struct scripted *who, char name, int device, uint64_t id)
{
    static const struct executor_ops ops = {
        .name = "scripted", .issue = issue, .messages = messages, .follow = follow, .wait = await_all};
    *who = (struct scripted){.name = name};
    executor_init(&who->executor, &ops, device);
    who->executor.on_streams = device != TUTTI_HOST;
    who->executor.uses_team = true;
    who->comm.executor = &who->executor;
    who->comm.team = &who->team;
    who->comm.id = id;
    *text = 0;
}

static void script_many(struct scripted *who, char name, int device, uint64_t id)
{
    static const struct executor_ops ops = {
        .name = "scripted", .issue = issue, .issue_many = issue_many, .messages = messages, .follow = follow};
    script(who, name, device, id);
    executor_init(&who->executor, &ops, device);
    who->executor.on_streams = device != TUTTI_HOST;
}

static struct entry collective(struct scripted *who, size_t count, long stream)
{
    return (struct entry){.kind = ENTRY_COLLECTIVE,
                          .comm = &who->comm,
                          .stream = (tutti_stream_t)(intptr_t)stream,
                          .call = {.coll = COLL_ALLREDUCE, .count = count}};
}

static struct entry send(struct scripted *who, int peer, long stream)
{
    return (struct entry){.kind = ENTRY_P2P,
                          .comm = &who->comm,
                          .stream = (tutti_stream_t)(intptr_t)stream,
                          .item = {.sends = true, .peer = peer}};
}

static void one_operation_for_the_messages_of_a_group(void **state)
{
    struct scripted a;
    (void)state;
    script(&a, 'a', 0, 2);
    struct entry entries[] = {send(&a, 1, 5), collective(&a, 9, 5), send(&a, 2, 5)};
    assert_int_equal(batch_issue_all(entries, 3), TUTTI_SUCCESS);
    assert_string_equal(text, "a.c9@5 a.m2@5 "); /* collectives first */
}

static void no_more_than_a_portion_of_one_pair(void **state)
{
    struct scripted a;
    struct entry entries[70];
    (void)state;
    script(&a, 'a', 0, 2);
    for (int i = 0; i < 70; i++)
        entries[i] = send(&a, 1, 5);
    assert_int_equal(batch_issue_all(entries, 70), TUTTI_SUCCESS);
    assert_string_equal(text, "a.m32@5 a.m32@5 a.m6@5 ");
}

static void calls_on_several_streams_join_the_first(void **state)
{
    struct scripted a;
    (void)state;
    script(&a, 'a', 0, 2);
    struct entry entries[] = {collective(&a, 1, 5), collective(&a, 2, 6)};
    assert_int_equal(batch_issue_all(entries, 2), TUTTI_SUCCESS);
    assert_string_equal(text, "a.f6@5 a.c1@5 a.c2@5 a.f5@6 ");
}

static void host_streams_are_never_joined(void **state)
{
    struct scripted a;
    (void)state;
    script(&a, 'a', TUTTI_HOST, 2);
    struct entry entries[] = {collective(&a, 1, 5), collective(&a, 2, 6)};
    assert_int_equal(batch_issue_all(entries, 2), TUTTI_SUCCESS);
    assert_string_equal(text, "a.c1@5 a.c2@6 ");
}

/* Each rank's calls come GPU after GPU: none gets more than two ahead of its peer's. */
static void ranks_of_one_thread_take_turns(void **state)
{
    struct scripted a, b;
    struct entry entries[8];
    (void)state;
    script(&a, 'a', 0, 2);
    script(&b, 'b', 1, 2);
    for (int i = 0; i < 8; i++) {
        entries[i] = collective(i < 4 ? &a : &b, (size_t)i % 4, 5);
        entries[i].number = (size_t)i % 4;
    }
    assert_int_equal(batch_issue_all(entries, 8), TUTTI_SUCCESS);
    assert_string_equal(text, "a.c0@5 a.c1@5 b.c0@5 b.c1@5 b.c2@5 b.c3@5 a.c2@5 a.c3@5 ");
}

static void the_first_failure_ends_a_group(void **state)
{
    struct scripted a;
    (void)state;
    script(&a, 'a', 0, 2);
    a.fail_at = 2;
    struct entry entries[] = {collective(&a, 1, 5), collective(&a, 2, 5), collective(&a, 3, 5)};
    assert_int_equal(batch_issue_all(entries, 3), TUTTI_DEVICE_ERROR);
    assert_string_equal(error_last(), "a failed");
    assert_string_equal(text, "a.c1@5 a.c2@5 ");
}

static void runs_are_handed_over_at_once(void **state)
{
    struct scripted a, b;
    (void)state;
    script_many(&a, 'a', 0, 2);
    struct entry joined[] = {collective(&a, 1, 5), collective(&a, 2, 6), collective(&a, 3, 5), send(&a, 1, 5)};
    assert_int_equal(batch_issue_all(joined, 4), TUTTI_SUCCESS);
    assert_string_equal(text, "a.f6@5 a.n3@5 a.c1@5 a.c2@5 a.c3@5 a.m1@5 a.f5@6 ");
    script_many(&a, 'a', TUTTI_HOST, 2);
    script_many(&b, 'b', TUTTI_HOST, 4);
    struct entry apart[] = {collective(&a, 1, 5), collective(&a, 2, 6), collective(&b, 3, 6), collective(&b, 4, 6),
                            collective(&a, 5, 6)};
    assert_int_equal(batch_issue_all(apart, 5), TUTTI_SUCCESS);
    assert_string_equal(text, "a.n1@5 a.c1@5 a.n1@6 a.c2@6 b.n2@6 b.c3@6 b.c4@6 a.n1@6 a.c5@6 ");
}

/* Nothing behind a call that fails is issued, and what the others own is given back. */
static void a_run_ends_with_its_first_failure(void **state)
{
    struct scripted a;
    (void)state;
    for (int many = 0; many < 2; many++) {
        (many ? script_many : script)(&a, 'a', 0, 2);
        a.fail_at = 2;
        struct entry entries[] = {collective(&a, 1, 5), collective(&a, 2, 5), collective(&a, 3, 5)};
        for (int i = 0; i < 3; i++)
            entries[i].counts = malloc(1); /* a leak, if it is not */
        assert_int_equal(batch_issue_all(entries, 3), TUTTI_DEVICE_ERROR);
        assert_string_equal(text, many ? "a.n3@5 a.c1@5 a.c2@5 " : "a.c1@5 a.c2@5 ");
    }
}

/* What was issued before has ended then; of a healthy communicator it may wait for peers. */
static void a_failed_group_leaves_nothing_on_host_memory(void **state)
{
    struct scripted a, b;
    (void)state;
    script(&b, 'b', TUTTI_HOST, 3);
    script(&a, 'a', TUTTI_HOST, 2);
    a.fail_at = 2;
    struct entry entries[] = {collective(&b, 1, 0), collective(&a, 1, 0), collective(&a, 2, 0), collective(&a, 3, 0)};
    assert_int_equal(batch_issue_all(entries, 4), TUTTI_DEVICE_ERROR);
    assert_string_equal(error_last(), "a failed");
    assert_string_equal(text, "b.c1@0 a.c1@0 a.c2@0 a.w0@0 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_operation_for_the_messages_of_a_group),
        cmocka_unit_test(no_more_than_a_portion_of_one_pair),
        cmocka_unit_test(calls_on_several_streams_join_the_first),
        cmocka_unit_test(host_streams_are_never_joined),
        cmocka_unit_test(ranks_of_one_thread_take_turns),
        cmocka_unit_test(the_first_failure_ends_a_group),
        cmocka_unit_test(runs_are_handed_over_at_once),
        cmocka_unit_test(a_run_ends_with_its_first_failure),
        cmocka_unit_test(a_failed_group_leaves_nothing_on_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
