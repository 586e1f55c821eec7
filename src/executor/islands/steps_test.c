/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of calls on GPUs of several hosts, carried out in the memory of this process by all ranks: on islands that
 * are alike and on others, of all collectives that go in steps. Results are right, nothing is read or written outside
 * of the ranks' memory, the parts of a call fit, and rails carry what they should. Of a call of which one step of one
 * rank is changed something of that is wrong.
 */
#include "executor/islands/steps.h"
#include "schedule/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS   15
#define ISLANDS 4
#define ROOM    (RANKS * 32) /* elements of a buffer, at most */
#define SCRATCH 4096
#define STEPS   400

/* ---- What ranks do ---- */

struct taken {
    enum islands_part part;
    struct call call;
    size_t longest, lengths[4][RANKS]; /* send and receive: counts, offsets */
};

struct rank {
    struct islands islands;
    struct team team;
    uint32_t in[ROOM], out[ROOM], scratch[SCRATCH];
    size_t in_room, out_room;
    struct taken step[STEPS];
    int steps, next;
};

static struct rank rank_of[RANKS];
static struct levels *levels;
static int nranks;
static const char *wrong; /* what is; NULL: nothing so far */
static size_t carried;    /* elements by rails */

static void find_wrong(bool is, const char *what)
{
    wrong = is && !wrong ? what : wrong;
}

static const struct level *hosts(void)
{
    return levels_hosts(levels);
}

static int island_size(int island)
{
    return hosts()->first[island + 1] - hosts()->first[island];
}

static struct rank *at_position(int position)
{
    return &rank_of[levels->order[position]];
}

static void keep(size_t *to, const size_t **from, int count)
{
    if (*from)
        memcpy(to, *from, (size_t)count * sizeof *to);
    *from = *from ? to : NULL;
}

static tutti_result_t note(void *context, enum islands_part part, const struct call *call, size_t longest)
{
    struct rank *rank = context;
    struct taken *step = &rank->step[rank->steps++];
    assert_true(rank->steps < STEPS);
    *step = (struct taken){.part = part, .call = *call, .longest = longest};
    int ranks = part == ISLANDS_ISLAND ? island_size(rank->islands.here) : rank->islands.count;
    const size_t **of[] = {&step->call.send_counts, &step->call.send_offsets, &step->call.recv_counts,
                           &step->call.recv_offsets};
    for (int i = 0; i < 4; i++)
        keep(step->lengths[i], of[i], ranks);
    return TUTTI_SUCCESS;
}

/* ---- Memory ---- */

static bool lies_in(const uint32_t *at, size_t count, const uint32_t *memory, size_t room)
{
    return at >= memory && at + count <= memory + room;
}

static bool may_write(const struct rank *rank, const uint32_t *at, size_t count)
{
    return lies_in(at, count, rank->out, rank->out_room) ||
           lies_in(at, count, rank->scratch, rank->islands.scratch_bytes / sizeof *at);
}

/* What a step stores, when all of its ranks have been read. */
static struct store {
    struct rank *rank;
    uint32_t *to, data[ROOM];
    size_t count;
} store[RANKS * RANKS];
static int stores;

static uint32_t *store_to(struct rank *rank, void *to, size_t count)
{
    assert_true(stores < RANKS * RANKS && count <= ROOM);
    if (count && !may_write(rank, to, count)) {
        find_wrong(true, "a store outside of the rank's memory");
        return NULL;
    }
    store[stores] = (struct store){.rank = rank, .to = to, .count = count};
    return store[stores++].data;
}

static void store_all(void)
{
    for (int i = 0; i < stores; i++)
        memcpy(store[i].to, store[i].data, store[i].count * sizeof *store[i].data);
    stores = 0;
}

/* ---- A step of some ranks ---- */

struct group {
    struct rank *member[RANKS];
    int size;
};

static struct taken *now_of(struct rank *rank)
{
    return rank->next < rank->steps ? &rank->step[rank->next] : NULL;
}

static const struct call *call_of(const struct group *group, int i)
{
    return &now_of(group->member[i])->call;
}

static const uint32_t *input(const struct group *group, int i, size_t from, size_t count)
{
    static const uint32_t none[ROOM];
    const uint32_t *at = (const uint32_t *)call_of(group, i)->in + from;
    const struct rank *rank = group->member[i];
    bool good = !count || lies_in(at, count, rank->in, rank->in_room) || may_write(rank, at, count);
    find_wrong(!good, "a read outside of the rank's memory");
    return good ? at : none;
}

static void copy_to(const struct group *group, int to, size_t at, int from, size_t in, size_t count)
{
    const uint32_t *data = input(group, from, in, count);
    uint32_t *room = store_to(group->member[to], (uint32_t *)call_of(group, to)->out + at, count);
    if (room)
        memcpy(room, data, count * sizeof *room);
}

static void reduce_to(const struct group *group, int to, size_t from, size_t count)
{
    const struct call *call = call_of(group, to);
    uint32_t *room = store_to(group->member[to], call->out, count);
    for (int i = 0; room && i < group->size; i++) {
        const uint32_t *data = input(group, i, from, count);
        for (size_t e = 0; e < count; e++)
            room[e] += data[e];
    }
    for (size_t e = 0; room && call->op == TUTTI_AVG && e < count; e++)
        room[e] /= (uint32_t)(call->divisor ? call->divisor : group->size);
}

static void exchange(const struct group *group)
{
    for (int from = 0; from < group->size; from++)
        for (int to = 0; to < group->size; to++) {
            const struct call *sender = call_of(group, from), *receiver = call_of(group, to);
            find_wrong(sender->send_counts[to] != receiver->recv_counts[from], "lengths of a message");
            copy_to(group, to, receiver->recv_offsets[from], from, sender->send_offsets[to], sender->send_counts[to]);
        }
}

static void scatter_sums(const struct group *group, const size_t *lengths)
{
    size_t from = 0;
    for (int i = 0; i < group->size; i++) {
        size_t length = lengths ? lengths[i] : call_of(group, i)->count;
        reduce_to(group, i, from, length);
        find_wrong(lengths && memcmp(lengths, call_of(group, i)->recv_counts, (size_t)group->size * sizeof *lengths),
                   "lengths of blocks");
        from += length;
    }
}

static void carry_out(const struct group *group)
{
    const struct call *call = call_of(group, 0);
    bool rooted = schedule_has_root(call->coll);
    for (int i = 0; i < group->size && call->coll != COLL_ALLTOALLV; i++)
        if (call->coll == COLL_REDUCE_SCATTER)
            continue;
        else if (call->coll == COLL_ALLREDUCE || (call->coll == COLL_REDUCE && i == call->root))
            reduce_to(group, i, 0, call->count);
        else if (call->coll == COLL_BROADCAST)
            copy_to(group, i, 0, call->root, 0, call->count);
        else if (call->coll == COLL_SCATTER)
            copy_to(group, i, 0, call->root, (size_t)i * call->count, call->count);
        else if (call->coll == COLL_ALLGATHER || call->coll == COLL_GATHER)
            for (int to = 0; to < group->size; to++)
                if (!rooted || to == call->root)
                    copy_to(group, to, (size_t)i * call->count, i, 0, call->count);
    if (call->coll == COLL_ALLTOALLV)
        exchange(group);
    if (call->coll == COLL_REDUCE_SCATTER)
        scatter_sums(group, call->recv_counts);
    store_all();
}

static void require_same(const struct group *group)
{
    const struct call *first = call_of(group, 0);
    for (int i = 1; i < group->size; i++) {
        const struct call *other = call_of(group, i);
        bool same = other->coll == first->coll && other->count == first->count && other->op == first->op &&
                    other->root == first->root && other->step == first->step && other->divisor == first->divisor;
        find_wrong(!same, "steps that do not fit");
    }
}

/* What a rail carries between islands. */
static size_t carries(const struct group *group)
{
    const struct call *call = call_of(group, 0);
    size_t n = (size_t)group->size, sum = 0;
    for (int i = 0; i < group->size; i++)
        for (int to = 0; to < group->size && call->coll == COLL_ALLTOALLV; to++)
            sum += call_of(group, i)->send_counts[to];
    for (int i = 0; i < group->size && call->coll == COLL_REDUCE_SCATTER; i++)
        sum += (n - 1) * (call->recv_counts ? call->recv_counts[i] : call->count);
    if (call->coll == COLL_ALLTOALLV || call->coll == COLL_REDUCE_SCATTER)
        return sum;
    return (n - 1) * call->count * (call->coll == COLL_ALLREDUCE ? 2 : call->coll == COLL_ALLGATHER ? n : 1);
}

/* ---- All steps ---- */

static bool all_at(const struct group *group, enum islands_part part)
{
    for (int i = 0; i < group->size; i++)
        if (!now_of(group->member[i]) || now_of(group->member[i])->part != part)
            return false;
    return group->size > 0;
}

static bool go_on(const struct group *group, enum islands_part part)
{
    if (!all_at(group, part))
        return false;
    require_same(group);
    if (part == ISLANDS_RAIL)
        carried += carries(group);
    if (!wrong && (part == ISLANDS_ISLAND || call_of(group, 0)->count))
        carry_out(group);
    for (int i = 0; i < group->size; i++)
        group->member[i]->next++;
    return true;
}

static bool copy_now(struct rank *rank)
{
    const struct taken *step = now_of(rank);
    const struct group alone = {{rank}, 1};
    if (!step || step->part != ISLANDS_COPY)
        return false;
    copy_to(&alone, 0, 0, 0, 0, step->call.count);
    store_all();
    rank->next++;
    return true;
}

/* A rank that is on no rail takes no part. */
static bool pass_by(struct rank *rank)
{
    const struct taken *step = now_of(rank);
    bool passes = step && step->part == ISLANDS_RAIL && rank->islands.rail < 0;
    find_wrong(passes && step->call.count, "elements on no rail");
    rank->next += passes;
    return passes;
}

static bool any_goes_on(void)
{
    bool any = false;
    for (int i = 0; i < nranks; i++)
        any |= copy_now(&rank_of[i]) || pass_by(&rank_of[i]);
    for (int k = 0; k < hosts()->groups; k++) {
        struct group island = {.size = island_size(k)};
        for (int i = 0; i < island.size; i++)
            island.member[i] = at_position(hosts()->first[k] + i);
        any |= go_on(&island, ISLANDS_ISLAND);
    }
    for (int rail = 0; rail < hosts()->least; rail++) {
        struct group heads = {.size = hosts()->groups};
        for (int k = 0; k < heads.size; k++)
            heads.member[k] = at_position(hosts()->first[k] + islands_head(&rank_of[0].islands, k, rail));
        any |= go_on(&heads, ISLANDS_RAIL);
    }
    return any;
}

/* All ranks are told the same longest block of each step on rails. */
static void require_longest(void)
{
    size_t told[STEPS];
    for (int i = 0; i < nranks; i++)
        for (int step = 0, rails = 0; step < rank_of[i].steps; step++) {
            const struct taken *taken = &rank_of[i].step[step];
            if (taken->part != ISLANDS_RAIL)
                continue;
            told[rails] = i ? told[rails] : taken->longest;
            find_wrong(told[rails] != taken->longest || taken->call.count > taken->longest, "the longest block");
            rails++;
        }
}

/* ---- Calls ---- */

static uint32_t value(int rank, size_t i)
{
    return (uint32_t)((uint64_t)(i + 1) * 2654435761u + (uint64_t)(rank + 3) * 40503u * (i % 7 + 1)) >> 12;
}

static uint32_t sum(size_t i, tutti_op_t op)
{
    uint32_t all = 0;
    for (int rank = 0; rank < nranks; rank++)
        all += value(rank, i);
    return op == TUTTI_AVG ? all / (uint32_t)nranks : all;
}

static void require_results(const struct call *call)
{
    size_t n = (size_t)nranks, count = call->count;
    for (int rank = 0; rank < nranks; rank++) {
        size_t words = call->coll == COLL_ALLGATHER ? n * count : count;
        if (call->coll == COLL_REDUCE && rank != call->root)
            continue;
        for (size_t i = 0; i < words; i++) {
            uint32_t wanted = call->coll == COLL_BROADCAST        ? value(call->root, i)
                              : call->coll == COLL_ALLGATHER      ? value((int)(i / count), i % count)
                              : call->coll == COLL_REDUCE_SCATTER ? sum((size_t)rank * count + i, (tutti_op_t)call->op)
                                                                  : sum(i, (tutti_op_t)call->op);
            find_wrong(rank_of[rank].out[i] != wanted, "a result");
        }
    }
}

static void fill(struct rank *rank, int number, const struct call *call)
{
    size_t blocks = (size_t)nranks * call->count;
    rank->in_room = call->coll == COLL_REDUCE_SCATTER ? blocks : call->count;
    rank->out_room = call->coll == COLL_ALLGATHER ? blocks : call->count;
    assert_true(rank->in_room <= ROOM && rank->out_room <= ROOM);
    for (size_t i = 0; i < ROOM; i++) {
        rank->in[i] = value(number, i);
        rank->out[i] = 0xdead0000u + (uint32_t)i;
    }
    for (size_t i = 0; i < SCRATCH; i++)
        rank->scratch[i] = 0xbeef0000u + (uint32_t)i;
    rank->next = 0;
}

/* All ranks' steps of the call, as they are. */
static void take(const struct call *what)
{
    for (int i = 0; i < nranks; i++) {
        struct call call = *what;
        call.in = rank_of[i].in;
        call.out = rank_of[i].out;
        call_fill(&call);
        rank_of[i].steps = 0;
        assert_int_equal(islands_steps(&rank_of[i].islands, &call, note, &rank_of[i]), TUTTI_SUCCESS);
    }
}

static void run(const struct call *call)
{
    wrong = NULL;
    carried = 0;
    for (int i = 0; i < nranks; i++)
        fill(&rank_of[i], i, call);
    require_longest();
    while (!wrong && any_goes_on())
        continue;
    for (int i = 0; i < nranks; i++)
        find_wrong(rank_of[i].next < rank_of[i].steps, "a rank that waits for ever");
    require_results(call);
}

/* ---- Shapes ---- */

struct setting {
    size_t cut_from, direct_from, scratch_bytes;
};

static int rail_of(const struct islands *islands)
{
    for (int rail = 0; rail < islands->size; rail++)
        if (islands_head(islands, islands->here, rail) == islands->index)
            return rail;
    return -1;
}

/* Ranks one island behind the other, or dealt to them in turn. */
static void lay(const int *sizes, int islands, bool dealt, const struct setting *setting)
{
    uint64_t host[RANKS] = {0};
    int left[ISLANDS], n = 0;
    memcpy(left, sizes, (size_t)islands * sizeof *sizes);
    for (int i = 0; i < islands; i++)
        n += sizes[i];
    nranks = n;
    for (int i = 0, rank = 0; rank < n; i = dealt || !left[i] ? (i + 1) % islands : i)
        if (left[i]) {
            left[i]--;
            host[rank++] = (uint64_t)i;
        }
    assert_int_equal(levels_of_hosts(host, n, &levels), TUTTI_SUCCESS);
    for (int i = 0; i < n; i++) {
        struct rank *rank = &rank_of[i];
        rank->team.rank = i;
        rank->team.nranks = n;
        rank->team.levels = levels;
        rank->islands = (struct islands){.team = &rank->team,
                                         .count = islands,
                                         .size = hosts()->least,
                                         .alike = hosts()->least == hosts()->most,
                                         .here = hosts()->group[i],
                                         .index = levels->position[i] - hosts()->first[hosts()->group[i]],
                                         .in_order = levels->in_order,
                                         .cut_from = setting->cut_from,
                                         .direct_from = setting->direct_from,
                                         .scratch = (char *)rank->scratch,
                                         .scratch_bytes = setting->scratch_bytes};
        rank->islands.rail = rail_of(&rank->islands);
    }
}

typedef void (*call_fn)(const struct call *call);

/* Each collective that goes in steps, with all roots. */
static void each_call(size_t count, call_fn what)
{
    static const enum coll colls[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_BROADCAST, COLL_ALLGATHER, COLL_REDUCE_SCATTER};
    static const int16_t ops[] = {TUTTI_SUM, TUTTI_AVG};
    for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
        for (int root = 0; root < (schedule_has_root(colls[c]) ? nranks : 1); root++)
            for (int op = 0; op < (schedule_reduces(colls[c]) ? 2 : 1); op++) {
                struct call call = {.coll = colls[c], .type = TUTTI_UINT32, .count = count, .root = root};
                call.op = schedule_reduces(colls[c]) ? ops[op] : -1;
                call_fill(&call);
                if (islands_composes(&rank_of[0].islands, &call))
                    what(&call);
                else
                    assert_true(!levels->in_order && (colls[c] == COLL_ALLGATHER || colls[c] == COLL_REDUCE_SCATTER));
            }
}

static void say(const struct call *call, const char *why)
{
    fail_msg("%s of %zu, op %d, root %d, %d ranks on %d islands of %d to %d: %s", schedule_coll_name(call->coll),
             call->count, call->op, call->root, nranks, hosts()->groups, hosts()->least, hosts()->most, why);
}

/* What all rails together carry. Where vectors go whole each rail carries all of them; so what does not divide. */
static void prove(const struct call *call)
{
    struct shape shape = {call->coll, nranks, call->root, levels};
    const struct islands *islands = &rank_of[0].islands;
    bool blocks = call->coll == COLL_ALLGATHER || call->coll == COLL_REDUCE_SCATTER;
    double vector = (double)(blocks ? (size_t)nranks * call->count : call->count);
    bool exact = !islands->alike || blocks || (!islands->cut_from && call->count % (size_t)islands->size == 0);
    take(call);
    run(call);
    if (wrong)
        say(call, wrong);
    if (exact && (double)carried != steps_rail_vectors(&shape) * vector)
        say(call, "rails carry other elements than they should");
}

static const int alike[][ISLANDS + 1] = {{2, 2}, {3, 3, 3}, {4, 4}, {1, 1, 1, 1}, {2, 2, 2, 2}};
static const int unlike[][ISLANDS + 1] = {{3, 1}, {1, 3}, {4, 2}, {2, 3}, {5, 3, 3, 1}, {8, 7}, {2, 1, 1}, {6, 4, 5}};
static const struct setting settings[] = {
    {0, SIZE_MAX, 4 * SCRATCH}, {1 << 20, SIZE_MAX, 4 * SCRATCH}, {0, SIZE_MAX, 4 * 120}, {0, 0, 4 * SCRATCH}};

static void on_shapes(const int (*shapes)[ISLANDS + 1], size_t count, const struct setting *setting, size_t elements,
                      call_fn what)
{
    for (size_t i = 0; i < count; i++)
        for (int dealt = 0; dealt < 2; dealt++) {
            int islands = 0;
            while (shapes[i][islands])
                islands++;
            lay(shapes[i], islands, dealt, setting);
            each_call(elements, what);
            free(levels);
        }
}

static void steps_are_right(void **state)
{
    static const size_t counts[] = {1, 5, 24, 31};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            on_shapes(alike, sizeof alike / sizeof *alike, &settings[s], counts[c], prove);
            on_shapes(unlike, sizeof unlike / sizeof *unlike, &settings[s], counts[c], prove);
        }
}

/* ---- Mutants ---- */

enum mutation { SHIFT_IN, SHIFT_OUT, FEWER, MUTATIONS };

/* The first that is not 0. */
static size_t *first_of(const size_t *lengths, int count)
{
    for (int i = 0; i < count; i++)
        if (lengths[i])
            return (size_t *)(uintptr_t)&lengths[i];
    return NULL;
}

/* False: nothing depends on what would be changed. What an island's last step of a reduce gives to others than the root
 * is for nobody. */
static bool mutate(const struct rank *rank, struct taken *step, enum mutation how, const struct call *what)
{
    struct call *call = &step->call;
    bool rail = step->part == ISLANDS_RAIL, messages = call->coll == COLL_ALLTOALLV, reads = true, stores_any = true;
    int ranks = rail ? rank->islands.count : island_size(rank->islands.here);
    if (messages) {
        reads = first_of(call->send_counts, ranks);
        stores_any = first_of(call->recv_counts, ranks);
    } else if (step->part != ISLANDS_COPY && call->root != (rail ? rank->islands.here : rank->islands.index)) {
        reads = call->coll != COLL_BROADCAST && call->coll != COLL_SCATTER;
        stores_any = call->coll != COLL_REDUCE && call->coll != COLL_GATHER;
    }
    stores_any &= what->coll != COLL_REDUCE || call->coll != COLL_BROADCAST || rank->team.rank == what->root;
    if ((rail && !call->count) || (how == SHIFT_IN && !reads) || (how != SHIFT_IN && messages && !stores_any) ||
        (how == SHIFT_OUT && !stores_any))
        return false;
    if (how == SHIFT_IN)
        call->in = (const uint32_t *)call->in + 1;
    else if (how == SHIFT_OUT)
        call->out = (uint32_t *)call->out + 1;
    else if (call->recv_counts)
        --*first_of(call->recv_counts, ranks);
    else
        call->count--;
    return how != FEWER || ranks > 1 || call->in != call->out; /* else a rank stores what it has where that is */
}

/* Where vectors go whole, all rails carry a reduce, of which the root needs one. */
static void refuse_mutants(const struct call *call)
{
    if (call->coll == COLL_REDUCE && rank_of[0].islands.alike && rank_of[0].islands.cut_from)
        return;
    take(call);
    for (int i = 0; i < nranks; i++)
        for (int step = 0; step < rank_of[i].steps; step++)
            for (enum mutation how = 0; how < MUTATIONS; how++) {
                static struct taken kept;
                char why[80];
                kept = rank_of[i].step[step];
                bool changed = mutate(&rank_of[i], &rank_of[i].step[step], how, call);
                if (changed)
                    run(call);
                rank_of[i].step[step] = kept;
                snprintf(why, sizeof why, "mutant %d of step %d of rank %d is not refused", (int)how, step, i);
                if (changed && !wrong)
                    say(call, why);
            }
}

static void mutants_are_refused(void **state)
{
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        on_shapes(alike, 2, &settings[s], 24, refuse_mutants);
        on_shapes(unlike, 5, &settings[s], 7, refuse_mutants);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_are_right), cmocka_unit_test(mutants_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
