/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that go straight to where their receivers invite them: to addresses, to mapped offers, to what was one. Each
 * rank's kernels begin when they like, and those of one end may invite where the other has nothing mapped.
 */
#include "cuda/kernels/draw.h"
#include "cuda/kernels/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pthread.h>
#include <cmocka.h>

#define LAUNCHES 6
#define GUARD    64
#define BASE     256 /* to which offers are aligned */
#define PLAIN    1000
#define STRIPE   256 /* bytes of the shortest that may go straight */

static struct thread_team team;
static struct team_job jobs[LAUNCHES];
static struct kernel_mappings mappings[KERNEL_RANKS];
static uint32_t offers; /* made so far: no two of a trial have the same place */

/* What its receiver says of a message, and what comes of it. */
enum answer { NOTHING, ADDRESS, MAPPED, UNMAPPED, OTHER_NUMBER, OTHER_MEMORY, ANSWERS };

struct message {
    size_t bytes;
    unsigned char *sent, *received, *decoy; /* decoy: what was mapped in the buffer's place */
    unsigned char *to;
    enum answer answer;
};
static struct message messages[LAUNCHES][KERNEL_RANKS][KERNEL_RANKS];
static uint64_t straight; /* stripes that are to go so */

static unsigned char *filled(size_t bytes, int byte)
{
    unsigned char *at = aligned_alloc(BASE, (bytes + 3 * GUARD + BASE) / BASE * BASE);
    assert_non_null(at);
    memset(at, byte, bytes + GUARD + 16);
    return at;
}

static size_t draw_bytes(void)
{
    switch (below(4)) {
    case 0:
        return below(2) ? 0 : below(40);
    case 1:
        return below(quick() ? 100000 : 1000000);
    case 2:
        return KERNEL_EXCHANGE_MOST * kernel_plain_slot(team.n) / (1 + below(8)) + below(80);
    default:
        return below(50000);
    }
}

static uint64_t invitation_of(const struct message *m, int from, int to)
{
    const uint64_t offset = (uint64_t)(m->to - m->received);
    const uint32_t offer = offers++ % KERNEL_OFFERS, number = 5 + offers;
    uint64_t *at = &mappings[from].at[to][offer];
    switch (m->answer) {
    case NOTHING:
        return 0;
    case ADDRESS:
        return KERNEL_INVITE_ADDRESS | (uintptr_t)m->to;
    case MAPPED:
        *at = kernel_mapping((uintptr_t)m->received, number);
        break;
    case UNMAPPED:
        *at = 0;
        break;
    case OTHER_NUMBER:
        *at = kernel_mapping((uintptr_t)m->decoy, number + 1);
        break;
    default:
        *at = kernel_mapping((uintptr_t)m->decoy, number);
    }
    return kernel_invite(offer, number, offset);
}

/* Stripes of STRIPE bytes or more of one that asks. */
static uint64_t stripes_of(const struct kernel_exchange *what, uint64_t bytes)
{
    const uint32_t stripes = kernel_exchange_stripes(what, bytes);
    const uint64_t each = ((bytes + stripes - 1) / stripes + 15) & ~(uint64_t)15;
    uint64_t count = 0;
    for (uint64_t at = 0; at < bytes; at += each)
        count += (each < bytes - at ? each : bytes - at) >= STRIPE;
    return count;
}

static void make_message(struct message *m, struct team_job *job, int from, int to)
{
    struct kernel_exchange *out = &job->params[from].exchange, *in = &job->params[to].exchange;
    *m = (struct message){.bytes = draw_bytes(), .answer = (enum answer)below(ANSWERS)};
    m->sent = filled(m->bytes, 0);
    m->received = filled(m->bytes, 0xa5);
    m->decoy = filled(m->bytes, 0xa5);
    m->to = m->received + random_shift();
    unsigned char *begin = m->sent + random_shift();
    for (size_t i = 0; i < m->bytes; i++)
        begin[i] = (unsigned char)random_next();
    out->send[to] = begin;
    in->recv[from] = m->to;
    out->send_bytes[to] = in->recv_bytes[from] = m->bytes;
    in->invite[from] = from == to ? 0 : invitation_of(m, from, to);
    if (from != to && m->bytes && kernel_exchange_invites(out, m->bytes) &&
        (m->answer == ADDRESS || m->answer == MAPPED))
        straight += stripes_of(out, m->bytes);
}

static void make_launch(int index)
{
    const uint64_t from = below(3) ? 1 + below(3) * below(100000) : 0;
    struct team_job *job = &jobs[index];
    *job = (struct team_job){.kernel = cuda_kernel_find("tutti_exchange"), .each_block_its_thread = true};
    for (int p = 0; p < team.n; p++)
        job->params[p].exchange = (struct kernel_exchange){
            .team = team_of(&team, p), .plain_from = PLAIN, .invite_from = from, .mappings = &mappings[p]};
    for (int p = 0; p < team.n; p++)
        for (int q = 0; q < team.n; q++)
            make_message(&messages[index][p][q], job, p, q);
    for (int p = 0; p < team.n; p++) {
        struct kernel_launch launch;
        kernel_choose_exchange(&job->params[p].exchange, kernel_room(2 + below(64), 0, 0), false, &launch);
        job->grid[p] = (struct cuda_index){launch.blocks, 1, 1};
    }
}

static void check_message(struct message *m, const unsigned char *sent)
{
    assert_memory_equal(m->to, sent, m->bytes);
    for (size_t i = 0; i < GUARD / 2; i++)
        assert_int_equal(m->to[m->bytes + i], 0xa5);
    /* of what nobody has any more all may be overwritten but for what is around it */
    const size_t begin = m->answer == OTHER_MEMORY ? (size_t)(m->to - m->received) : m->bytes + GUARD;
    for (size_t i = 0; i < m->bytes + GUARD; i++)
        if (i < begin || i >= begin + m->bytes)
            assert_int_equal(m->decoy[i], 0xa5);
    free(m->sent);
    free(m->received);
    free(m->decoy);
}

static void check_launch(int index)
{
    for (int p = 0; p < team.n; p++)
        for (int q = 0; q < team.n; q++)
            check_message(&messages[index][p][q], jobs[index].params[p].exchange.send[q]);
}

static uint64_t counted(void)
{
    uint64_t sum = 0;
    for (int p = 0; p < team.n; p++)
        for (int i = 0; i < KERNEL_EXCHANGE_MOST * KERNEL_RANKS; i++)
            sum += mappings[p].straight[i / KERNEL_RANKS][i % KERNEL_RANKS];
    return sum;
}

static void test_answers(void **state)
{
    for (int n = 2; n <= 4; n++) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-10); /* numbers wrap */
        memset(mappings, 0, sizeof mappings);
        straight = 0;
        for (int i = 0; i < how_many(8); i++) {
            for (int j = 0; j < LAUNCHES; j++)
                make_launch(j);
            team_run(jobs, LAUNCHES, 0, n);
            for (int j = 0; j < LAUNCHES; j++)
                check_launch(j);
        }
        assert_true(straight > 0);
        assert_int_equal(counted(), straight);
        team_free(&team);
    }
}

/* ---- Nobody invites, nobody answers ---- */

static void *run_rank(void *rank)
{
    team_run(jobs, 1, *(int *)rank, *(int *)rank + 1);
    return NULL;
}

/* Rank 0 sends to rank 1: a stripe fits into a slot. */
static unsigned char *begin_one_message(size_t bytes)
{
    unsigned char *memory = filled(2 * bytes, 1);
    assert_true(team_init(&team, 2));
    jobs[0] = (struct team_job){.kernel = cuda_kernel_find("tutti_exchange"), .each_block_its_thread = true};
    for (int p = 0; p < 2; p++) {
        struct kernel_launch launch;
        struct kernel_exchange *what = &jobs[0].params[p].exchange;
        *what = (struct kernel_exchange){.team = team_of(&team, p), .plain_from = PLAIN, .invite_from = 1};
        what->send[1] = memory + bytes;
        what->recv[0] = memory;
        *(p ? &what->recv_bytes[0] : &what->send_bytes[1]) = bytes;
        what->invite[0] = KERNEL_INVITE_ADDRESS | (uintptr_t)memory;
        kernel_choose_exchange(what, kernel_room(64, 0, 0), false, &launch);
        jobs[0].grid[p] = (struct cuda_index){launch.blocks, 1, 1};
    }
    memset(memory + bytes, 2, bytes);
    return memory;
}

/* The rank waits for the other one until it is told to give up. */
static void give_up_alone(int rank)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_rank, &rank), 0);
    usleep(1000); /* any time does */
    __atomic_store_n(&team.abort, KERNEL_GIVE_UP, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

static void test_give_up(void **state)
{
    const size_t bytes = 100000;
    unsigned char *memory = begin_one_message(bytes), *before = malloc(bytes);
    assert_non_null(before);
    give_up_alone(0);
    team_free(&team);
    free(memory);
    memory = begin_one_message(bytes);
    give_up_alone(1);
    memcpy(before, memory, bytes);
    __atomic_store_n(&team.abort, 0, __ATOMIC_RELAXED);
    team_run(jobs, 1, 0, 1); /* a sender that comes later finds no invitation to what may be another's memory by now */
    assert_memory_equal(before, memory, bytes);
    team_free(&team);
    free(memory);
    free(before);
}

/* ---- Words ---- */

static void test_words(void **state)
{
    const uint64_t mapping = kernel_mapping(0x7f1234567800, 16383), offset = KERNEL_INVITE_BYTES - 1;
    assert_true(kernel_invite_address(kernel_invite(511, 16383, offset), mapping) == 0x7f1234567800 + offset);
    assert_int_equal(kernel_invite_place(kernel_invite(511, 16383, offset)), 511);
    assert_true(kernel_invite_address(kernel_invite(0, 16382, 0), mapping) == 0);
    assert_true(kernel_invite_address(kernel_invite(0, 0, 0), 0) == 0);
    assert_true(kernel_invite_address(kernel_invite(0, 7, 0), kernel_mapping(256, 7 + 16384)) == 256);
    assert_true(kernel_invite(KERNEL_OFFERS, 1, 0) == 0 && kernel_invite(0, 1, KERNEL_INVITE_BYTES) == 0);
    assert_true(kernel_mapping(128, 1) == 0);
    assert_true((kernel_invite(511, UINT32_MAX, offset) & KERNEL_INVITE_ADDRESS) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_answers),
                                       cmocka_unit_test(test_give_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
