/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a measurement: what each thread does for each size, out of place and in place. */
#include "cli/cli.h"
#include "cli/perf.h"
#include "cli/perf_collectives.h"
#include "cli/perf_data.h"
#include "cli/perf_options.h"
#include "cli/perf_report.h"

#include "base/clock.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LATE_NS = 1000000 }; /* after the others, who come at about the same time */

int perf_first_rank(const struct worker *worker)
{
    const struct perf *perf = worker->perf;
    return perf->process * perf->local + worker->index * perf->options.ranks;
}

static void synchronize(struct worker *worker)
{
    for (int i = 0; i < worker->perf->options.ranks; i++)
        worker->perf->place->synchronize(&worker->seats[i], worker->comms[i]);
}

/* Sets the pointers of one rank's call. In place the two buffers overlap, on the ranks where the collective says so. */
static void aim(struct worker *worker, struct perf_call *call, int i, bool in_place)
{
    const struct perf_shape *shape = call->shape;
    const struct collective *collective = shape->collective;
    char *base = worker->recvs[i];
    size_t offset = collective->offset(shape, call->rank) * type_rows[shape->type].size;
    call->send = worker->sends[i];
    call->recv = base;
    if (!in_place || (collective->rooted && call->rank != shape->root))
        return;
    call->send = collective->recv_is_larger ? base + offset : base;
    call->recv = collective->recv_is_larger ? base : base + offset;
}

static void prepare(struct worker *worker, const struct perf_shape *shape, bool in_place)
{
    for (int i = 0; i < worker->perf->options.ranks; i++) {
        struct perf_call *call = &worker->calls[i];
        *call = (struct perf_call){.shape = shape,
                                   .rank = perf_first_rank(worker) + i,
                                   .comm = worker->comms[i],
                                   .stream = worker->seats[i].stream};
        call->op = (int)shape->op == OP_MULSUM ? worker->ops[i] : shape->op;
        aim(worker, call, i, in_place);
        if (shape->collective->vectors) {
            size_t *vectors = worker->vectors + 4 * (size_t)shape->size * (size_t)i;
            collective_vectors(shape, call->rank, vectors);
            call->vectors = vectors;
        }
    }
    worker->rotation = 0;
}

static void issue_one(struct worker *worker, const struct perf_call *call)
{
    struct perf_call moved = *call;
    moved.send = (const char *)call->send + worker->rotation;
    moved.recv = (char *)call->recv + worker->rotation;
    perf_must(call->shape->collective->issue(&moved), "the collective", call->comm);
}

/* One iteration. The usual case, one rank and one operation, is one call of the library and nothing else. */
static void issue(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    int many = options->ranks * options->aggregate;
    if (many == 1 && worker->rotation == 0) {
        perf_must(worker->calls->shape->collective->issue(worker->calls), "the collective", worker->calls->comm);
        return;
    }
    perf_must(tutti_group_start(), "group start", NULL);
    for (int m = 0; m < options->aggregate; m++)
        for (int i = 0; i < options->ranks; i++)
            issue_one(worker, &worker->calls[i]);
    perf_must(tutti_group_end(), "the group of collectives", worker->comms[0]);
}

static void rotate(struct worker *worker)
{
    const struct perf_shape *shape = worker->calls->shape;
    size_t bytes = shape->count * type_rows[shape->type].size;
    worker->rotation += bytes;
    if (worker->rotation + bytes > (size_t)worker->perf->options.max)
        worker->rotation = 0;
}

/* Captures the operations between begin and end, which run at each replay. */
static void capture(struct worker *worker)
{
    for (int i = 0; i < worker->perf->options.ranks; i++)
        worker->perf->place->capture(&worker->seats[i]);
}

static void captured(struct worker *worker)
{
    for (int i = 0; i < worker->perf->options.ranks; i++)
        worker->perf->place->captured(&worker->seats[i]);
}

static void replay(struct worker *worker)
{
    for (int i = 0; i < worker->perf->options.ranks; i++)
        worker->perf->place->replay(&worker->seats[i]);
}

static void forget(struct worker *worker)
{
    for (int i = 0; i < worker->perf->options.ranks; i++)
        worker->perf->place->forget(&worker->seats[i]);
}

static void iterate(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    for (int i = 0; i < options->iterations; i++) {
        issue(worker);
        if (options->blocking)
            synchronize(worker);
        if (options->rotate)
            rotate(worker);
    }
}

/* Seconds of `replays` graphs of all iterations. */
static double time_replays(struct worker *worker)
{
    capture(worker);
    iterate(worker);
    captured(worker);
    perf_barrier(worker);
    uint64_t start = clock_ns();
    for (int i = 0; i < worker->perf->options.replays; i++)
        replay(worker);
    synchronize(worker);
    double seconds = (double)(clock_ns() - start) / 1e9;
    forget(worker);
    return seconds / worker->perf->options.replays;
}

static double time_iterations(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    double seconds;
    for (int i = 0; i < options->warmup; i++)
        issue(worker);
    synchronize(worker);
    perf_barrier(worker);
    if (options->replays) {
        seconds = time_replays(worker);
    } else {
        uint64_t start = clock_ns();
        iterate(worker);
        uint64_t called = clock_ns();
        synchronize(worker);
        seconds = (double)((options->calls_only ? called : clock_ns()) - start) / 1e9;
    }
    worker->rotation = 0;
    return seconds / options->iterations / options->aggregate;
}

/* ---- verification ---- */

static size_t chunk_of(size_t count, size_t done, size_t element)
{
    size_t most = PLACE_CHUNK / element;
    return count - done < most ? count - done : most;
}

static void fill(struct worker *worker, const struct perf_call *call, int i, size_t start)
{
    const struct perf_place *place = worker->perf->place;
    const struct perf_shape *shape = call->shape;
    struct seat *seat = &worker->seats[i];
    size_t element = type_rows[shape->type].size, count = shape->collective->sends(shape, call->rank), run;
    place->set(seat, worker->recvs[i], POISON, shape->count * element + CANARY_BYTES);
    data_table(worker->table, shape, call->rank, start, count);
    for (size_t done = 0; done < count; done += run) {
        char *at = (char *)call->send + done * element;
        run = chunk_of(count, done, element);
        data_fill(place->write(seat, at), worker->table, element, start + done, run);
        place->written(seat, at, run * element);
    }
}

static void say_wrong(const struct perf_call *call, const struct piece *piece, size_t wrong, size_t first)
{
    fprintf(stderr, "# rank %d: %s of %zu elements: %zu wrong, the first at element %zu of the receive buffer\n",
            call->rank, call->shape->collective->name, call->shape->count, wrong, piece->at + first);
}

static size_t check_piece(struct worker *worker, const struct perf_call *call, int i, const struct piece *piece,
                          size_t start)
{
    size_t element = type_rows[call->shape->type].size, first = 0, wrong = 0, run;
    data_table(worker->table, call->shape, piece->from, start + piece->from_at, piece->count);
    for (size_t done = 0; done < piece->count; done += run) {
        size_t here, where = 0;
        run = chunk_of(piece->count, done, element);
        const char *at = (const char *)call->recv + (piece->at + done) * element;
        const char *data = worker->perf->place->read(&worker->seats[i], at, run * element);
        here = data_wrong(data, worker->table, element, start + piece->from_at + done, run, &where);
        if (here && !wrong)
            first = done + where;
        wrong += here;
    }
    if (wrong)
        say_wrong(call, piece, wrong, first);
    return wrong;
}

/* Counts bytes behind the received elements that have changed. */
static size_t check_canary(struct worker *worker, const struct perf_call *call, int i, const char *behind)
{
    const char *data = worker->perf->place->read(&worker->seats[i], behind, CANARY_BYTES);
    size_t wrong = 0;
    for (int k = 0; k < CANARY_BYTES; k++)
        wrong += data[k] != POISON;
    if (wrong)
        fprintf(stderr, "# rank %d: %s of %zu elements wrote behind its receive buffer\n", call->rank,
                call->shape->collective->name, call->shape->count);
    return wrong;
}

static size_t check_rank(struct worker *worker, const struct perf_call *call, int i, size_t start, bool in_place)
{
    size_t element = type_rows[call->shape->type].size, end = 0, wrong = 0;
    struct piece piece;
    for (int k = 0; call->shape->collective->piece(call->shape, call->rank, k, &piece); k++) {
        wrong += check_piece(worker, call, i, &piece, start);
        end = piece.at + piece.count;
    }
    if (in_place)
        return wrong + check_canary(worker, call, i, worker->recvs[i] + call->shape->count * element);
    return wrong + check_canary(worker, call, i, (const char *)call->recv + end * element);
}

/* Issues one operation of each rank, as the timed ones go. */
static void issue_checked(struct worker *worker)
{
    bool captures = worker->perf->options.replays > 0;
    if (captures)
        capture(worker);
    perf_must(tutti_group_start(), "group start", NULL);
    for (int i = 0; i < worker->perf->options.ranks; i++)
        issue_one(worker, &worker->calls[i]);
    perf_must(tutti_group_end(), "the collective", worker->comms[0]);
    if (captures) {
        captured(worker);
        replay(worker);
    }
    synchronize(worker);
    if (captures)
        forget(worker);
}

/* Checks data that differ from check to check, so that an earlier result is not taken for a new one. */
static int64_t check_data(struct worker *worker, bool in_place)
{
    const struct perf_options *options = &worker->perf->options;
    size_t start = (size_t)++worker->seed * 7919, wrong = 0;
    for (int i = 0; i < options->ranks; i++)
        fill(worker, &worker->calls[i], i, start);
    perf_barrier(worker);
    issue_checked(worker);
    for (int i = 0; i < options->ranks; i++)
        wrong += check_rank(worker, &worker->calls[i], i, start, in_place);
    perf_barrier(worker);
    return (int64_t)wrong;
}

/* ---- rows ---- */

static double merge(double a, double b, tutti_op_t op)
{
    if (op == TUTTI_SUM)
        return a + b;
    return (op == TUTTI_MIN) == (a < b) ? a : b;
}

/* Over the threads here, then over the processes. */
static double over_all(struct perf *perf, int time, tutti_op_t op)
{
    double result = 0;
    for (int t = 0; t < perf->options.threads; t++)
        result = t == 0 ? perf->workers[t].times[time] : merge(result, perf->workers[t].times[time], op);
    if (perf->world) {
        perf_must(tutti_allreduce(&result, &result, 1, TUTTI_FLOAT64, op, perf->world, NULL), "summing up",
                  perf->world);
        perf_must(tutti_comm_synchronize(perf->world), "summing up", perf->world);
    }
    return op == TUTTI_SUM ? result / perf->options.threads / perf->processes : result;
}

/* Sums up by the library itself: errors that were found here count even if that sum is wrong. */
static int64_t wrong_over_all(struct worker *worker)
{
    struct perf *perf = worker->perf;
    int64_t here = 0;
    for (int t = 0; t < perf->options.threads; t++)
        here += perf->workers[t].wrong;
    int64_t wrong = here;
    if (perf->world) {
        perf_must(tutti_allreduce(&wrong, &wrong, 1, TUTTI_INT64, TUTTI_SUM, perf->world, NULL), "summing up",
                  perf->world);
        perf_must(tutti_comm_synchronize(perf->world), "summing up", perf->world);
    }
    return wrong > here ? wrong : here;
}

static double row_seconds(struct worker *worker)
{
    switch (worker->perf->options.average) {
    case 0:
        return worker->times[TIME_CALL];
    case 2:
        return over_all(worker->perf, TIME_CALL, TUTTI_MIN);
    case 3:
        return over_all(worker->perf, TIME_CALL, TUTTI_MAX);
    default:
        return over_all(worker->perf, TIME_CALL, TUTTI_SUM);
    }
}

static void doze(void)
{
    struct timespec a_while = {.tv_nsec = LATE_NS};
    nanosleep(&a_while, NULL);
}

/* Lets one thread of all come late, and counts the others that went on before, by the clock that all share. 0 on all
 * threads but the one that counts. */
static int64_t meet_late(struct worker *worker, int late)
{
    struct perf *perf = worker->perf;
    int64_t wrong = 0;
    perf_barrier(worker);
    if (perf->process * perf->options.threads + worker->index == late)
        doze();
    worker->times[TIME_CAME] = (double)clock_ns();
    issue_checked(worker);
    worker->times[TIME_WENT] = (double)clock_ns();
    perf_barrier(worker);
    if (worker->index == 0) {
        double last = over_all(perf, TIME_CAME, TUTTI_MAX), first = over_all(perf, TIME_WENT, TUTTI_MIN);
        wrong = perf->process == 0 && first < last;
    }
    perf_barrier(worker);
    if (wrong)
        fprintf(stderr, "# %s: a rank went on before the last one had come\n", perf->options.collective->name);
    return wrong;
}

static int64_t check_meeting(struct worker *worker)
{
    const struct perf *perf = worker->perf;
    int64_t wrong = 0;
    for (int late = 0; late < perf->processes * perf->options.threads; late++)
        wrong += meet_late(worker, late);
    return wrong;
}

/* The first of two hosts cannot be known. */
static bool verifies(const struct perf *perf)
{
    return perf->options.checks && (!perf->options.collective->meets || perf->one_host);
}

static int64_t check(struct worker *worker, bool in_place)
{
    return worker->perf->options.collective->meets ? check_meeting(worker) : check_data(worker, in_place);
}

static struct measure measure(struct worker *worker, const struct perf_shape *shape, bool in_place)
{
    const struct perf *perf = worker->perf;
    bool verified = verifies(perf);
    struct measure result = {.done = true, .wrong = verified ? 0 : -1};
    prepare(worker, shape, in_place);
    worker->times[TIME_CALL] = time_iterations(worker);
    worker->wrong = 0;
    for (int i = 0; verified && i < perf->options.checks; i++)
        worker->wrong += check(worker, in_place);
    perf_barrier(worker);
    if (worker->index == 0) {
        double seconds = row_seconds(worker), bytes = (double)(shape->count * type_rows[shape->type].size);
        result.us = seconds * 1e6;
        result.algorithm_gbs = seconds > 0 ? bytes / seconds / 1e9 : 0;
        result.bus_gbs = result.algorithm_gbs * shape->collective->bus_factor(shape->size);
        if (verified)
            result.wrong = wrong_over_all(worker);
    }
    perf_barrier(worker);
    return result;
}

static char timeout_sentence[160];

static void on_timeout(int number)
{
    ssize_t ignored = write(STDERR_FILENO, timeout_sentence, strlen(timeout_sentence));
    (void)ignored;
    _exit(EXIT_FAILED);
}

/* One clock for all threads of the process, which the first one winds. */
static void wind_clock(const struct worker *worker, const struct perf_shape *shape)
{
    const struct perf_options *options = &worker->perf->options;
    if (!options->timeout || worker->index != 0)
        return;
    snprintf(timeout_sentence, sizeof timeout_sentence, "tutti perf: not done after %d s: %s of %zu bytes\n",
             options->timeout, shape->collective->name, shape->count * type_rows[shape->type].size);
    signal(SIGALRM, on_timeout);
    alarm((unsigned)options->timeout);
}

static void row(struct worker *worker, struct perf_shape *shape, int64_t bytes)
{
    const struct perf *perf = worker->perf;
    struct measure results[2] = {0};
    size_t count = (size_t)bytes / type_rows[shape->type].size;
    shape->part = collective_part(shape->collective, count, perf->size);
    shape->count = shape->collective->splits ? shape->part * (size_t)perf->size : count;
    wind_clock(worker, shape);
    results[0] = measure(worker, shape, false);
    if (shape->collective->in_place)
        results[1] = measure(worker, shape, true);
    if (worker->index == 0)
        alarm(0);
    if (worker->index == 0)
        report_row(perf->report, shape, results);
}

static void make_operators(struct worker *worker, tutti_type_t type)
{
    uint64_t scalar = 0;
    for (int i = 0; i < worker->perf->options.ranks; i++) {
        data_scalar(&scalar, type, perf_first_rank(worker) + i);
        perf_must(tutti_op_create_premul_sum(&worker->ops[i], &scalar, type, worker->comms[i]), "making the operator",
                  worker->comms[i]);
    }
}

static void sizes(struct worker *worker, struct perf_shape *shape)
{
    const struct perf_options *options = &worker->perf->options;
    bool own_operator = (int)shape->op == OP_MULSUM;
    if (own_operator)
        make_operators(worker, shape->type);
    for (int64_t bytes = options->min; bytes <= options->max;) {
        row(worker, shape, bytes);
        bytes = options->factor > 1 && bytes > 0 ? bytes * options->factor : bytes + options->step;
    }
    for (int i = 0; own_operator && i < options->ranks; i++)
        perf_must(tutti_op_destroy(worker->ops[i], worker->comms[i]), "freeing the operator", worker->comms[i]);
}

static void first_touch(struct worker *worker)
{
    const struct perf_place *place = worker->perf->place;
    size_t bytes = (size_t)worker->perf->options.max + CANARY_BYTES;
    for (int i = 0; i < worker->perf->options.ranks; i++) {
        place->set(&worker->seats[i], worker->sends[i], 1, bytes);
        place->set(&worker->seats[i], worker->recvs[i], 1, bytes);
    }
}

static void cycle(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    const struct collective *collective = options->collective;
    struct perf_shape shape = {.collective = collective, .size = worker->perf->size};
    int first_root = options->root < 0 ? 0 : options->root, roots = options->root < 0 ? worker->perf->size : 1;
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int op = 0; op < OP_ROWS; op++)
            for (int root = 0; root < roots; root++) {
                shape.type = (tutti_type_t)type;
                shape.op = (tutti_op_t)op;
                shape.root = collective->rooted ? first_root + root : 0;
                bool wanted = (options->type < 0 || options->type == type) &&
                              (collective->reduces ? options->op < 0 || options->op == op : op == 0) &&
                              (collective->rooted || root == 0) && !(collective->no_average && op == TUTTI_AVG);
                if (wanted)
                    sizes(worker, &shape);
            }
}

void perf_work(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    first_touch(worker);
    for (int done = 0; !options->cycles || done<options->cycles; done += options->cycles> 0)
        cycle(worker);
}
