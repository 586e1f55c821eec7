/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a measurement: its communicators, buffers and threads. */
#include "cli/perf.h"
#include "cli/perf_data.h"
#include "cli/perf_options.h"
#include "cli/perf_report.h"
#include "cli/cli.h"
#include "cli/launch.h"

#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- communicators ---- */

static bool launched(void)
{
    static const char *const names[] = {"TUTTI_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

/* The meeting point of the measured communicator, from process 0. */
static void share_id(struct perf *perf)
{
    if (perf->process == 0)
        perf_must(tutti_get_unique_id(&perf->id), "making an id", NULL);
    if (!perf->world)
        return;
    perf_must(tutti_broadcast(&perf->id, &perf->id, sizeof perf->id, TUTTI_UINT8, 0, perf->world, NULL),
              "sharing the id", perf->world);
    perf_must(tutti_comm_synchronize(perf->world), "sharing the id", perf->world);
}

static void join_world(struct perf *perf)
{
    int there;
    perf->processes = 1;
    perf->one_host = true;
    perf->local = perf->options.threads * perf->options.ranks;
    if (launched()) {
        perf_must(tutti_comm_init_from_env(&perf->world, NULL), "joining the other processes", NULL);
        perf_must(tutti_comm_rank(perf->world, &perf->process), "asking for the rank", perf->world);
        perf_must(tutti_comm_count(perf->world, &perf->processes), "asking for the size", perf->world);
        perf_must(tutti_comm_local_rank(perf->world, &perf->first_on_host, &there), "asking for the host", perf->world);
        perf->first_on_host *= perf->local;
        perf->one_host = there == perf->processes;
    }
    perf->size = perf->local * perf->processes;
    perf->world_is_own = perf->world && (perf->local > 1 || perf->options.gpu);
    if (perf->options.root >= perf->size)
        perf_die("the root given by -r is not one of the ranks");
    if (perf->world_is_own || !perf->world)
        share_id(perf);
}

/* Joins inside a group, so that one thread can join as several ranks. */
static void join_as_all(struct worker *worker)
{
    const struct perf *perf = worker->perf;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    for (int i = 0; i < perf->options.ranks; i++) {
        config.device = worker->seats[i].device;
        perf_must(tutti_comm_init_rank(&worker->comms[i], perf->size, &perf->id, perf_first_rank(worker) + i, &config),
                  "joining the communicator", NULL);
    }
}

static void join_measured(struct perf *perf, int first_thread, int threads)
{
    if (perf->world && !perf->world_is_own) {
        perf->workers[0].comms[0] = perf->world;
        return;
    }
    perf_must(tutti_group_start(), "group start", NULL);
    for (int t = first_thread; t < first_thread + threads; t++)
        join_as_all(&perf->workers[t]);
    perf_must(tutti_group_end(), "joining the communicator", NULL);
}

static void leave(struct perf *perf)
{
    for (int i = 0; i < perf->local; i++) {
        struct worker *worker = &perf->workers[i / perf->options.ranks];
        tutti_comm_t comm = worker->comms[i % perf->options.ranks];
        if (comm != perf->world)
            perf_must(tutti_comm_destroy(comm), "leaving the communicator", NULL);
    }
    perf_must(tutti_comm_destroy(perf->world), "leaving the other processes", NULL);
}

/* ---- buffers ---- */

static void *must_have(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        perf_die("out of memory");
    return memory;
}

static void take_buffers(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    const struct perf_place *place = worker->perf->place;
    size_t bytes = (size_t)options->max + CANARY_BYTES;
    tutti_result_t (*enter)(tutti_comm_t, void *, size_t, void **) =
        options->registered > 1 ? tutti_comm_register_symmetric : tutti_comm_register;
    for (int i = 0; i < options->ranks; i++) {
        worker->sends[i] = place->take(&worker->seats[i], bytes, options->registered);
        worker->recvs[i] = place->take(&worker->seats[i], bytes, options->registered);
        for (int k = 0; options->registered && k < 2; k++)
            perf_must(enter(worker->comms[i], k ? worker->recvs[i] : worker->sends[i], (size_t)options->max,
                            &worker->handles[2 * i + k]),
                      "registering a buffer", worker->comms[i]);
    }
}

static void drop_buffers(struct worker *worker)
{
    const struct perf_options *options = &worker->perf->options;
    for (int i = 0; i < options->ranks; i++) {
        for (int k = 0; options->registered && k < 2; k++)
            perf_must(tutti_comm_deregister(worker->comms[i], worker->handles[2 * i + k]), "deregistering a buffer",
                      worker->comms[i]);
        worker->perf->place->drop(&worker->seats[i], worker->sends[i], options->registered);
        worker->perf->place->drop(&worker->seats[i], worker->recvs[i], options->registered);
    }
}

/* ---- threads ---- */

static void hire(struct perf *perf)
{
    size_t ranks = (size_t)perf->options.ranks;
    perf->workers = must_have((size_t)perf->options.threads, sizeof *perf->workers);
    for (int t = 0; t < perf->options.threads; t++) {
        struct worker *worker = &perf->workers[t];
        *worker = (struct worker){.perf = perf, .index = t};
        worker->comms = must_have(ranks, sizeof *worker->comms);
        worker->ops = must_have(ranks, sizeof *worker->ops);
        worker->seats = must_have(ranks, sizeof *worker->seats);
        worker->sends = must_have(ranks, sizeof *worker->sends);
        worker->recvs = must_have(ranks, sizeof *worker->recvs);
        worker->handles = must_have(2 * ranks, sizeof *worker->handles);
        worker->vectors = must_have(4 * ranks * (size_t)perf->size, sizeof *worker->vectors);
        worker->calls = must_have(ranks, sizeof *worker->calls);
        worker->table = must_have(DATA_PERIOD, 8);
        for (int i = 0; i < perf->options.ranks; i++)
            perf->place->open(&worker->seats[i], perf->first_on_host + t * perf->options.ranks + i);
    }
}

static void dismiss(struct perf *perf)
{
    for (int t = 0; t < perf->options.threads; t++) {
        struct worker *worker = &perf->workers[t];
        for (int i = 0; i < perf->options.ranks; i++)
            perf->place->close(&worker->seats[i]);
        void *parts[] = {worker->comms,   worker->ops,     worker->seats, worker->sends, worker->recvs,
                         worker->handles, worker->vectors, worker->calls, worker->table};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            free(parts[i]);
    }
    free(perf->workers);
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    if (worker->perf->options.parallel_init)
        join_measured(worker->perf, worker->index, 1);
    take_buffers(worker);
    perf_work(worker);
    perf_barrier(worker);
    drop_buffers(worker);
    return NULL;
}

static void run_threads(struct perf *perf)
{
    int threads = perf->options.threads;
    pthread_barrier_init(&perf->barrier, NULL, (unsigned)threads);
    for (int t = 1; t < threads; t++)
        if (pthread_create(&perf->workers[t].thread, NULL, thread_main, &perf->workers[t]) != 0)
            perf_die("cannot start a thread");
    thread_main(&perf->workers[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(perf->workers[t].thread, NULL);
    pthread_barrier_destroy(&perf->barrier);
}

static int run(const struct perf_options *options)
{
    struct perf perf = {.options = *options, .place = options->gpu ? &place_gpu : &place_host};
    join_world(&perf);
    hire(&perf);
    if (!options->parallel_init)
        join_measured(&perf, 0, options->threads);
    perf.report = report_open(&perf);
    run_threads(&perf);
    int code = report_close(perf.report);
    leave(&perf);
    dismiss(&perf);
    return code;
}

/* Runs the same command without --np, as `processes` ranks. */
static int run_processes(int argc, char **argv, const struct perf_options *options)
{
    if (options->gpu && place_gpus() == 0) /* once, and not by every process */
        return failure("perf", "%s", error_last());
    char program[PATH_MAX], **again = calloc((size_t)argc + 2, sizeof *again);
    int count = 0, code;
    if (!again || !program_path(program, sizeof program)) {
        free(again);
        return failure("perf", "cannot start processes: %s", strerror(errno));
    }
    again[count++] = program;
    again[count++] = "perf";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--np") == 0)
            i++;
        else if (strncmp(argv[i], "--np=", 5) != 0)
            again[count++] = argv[i];
    /* drivers have threads, too */
    bool bind = options->threads == 1 && !options->gpu && launch_fits(options->processes);
    code = launch(&(struct launch){.command = "perf", .size = options->processes, .argv = again, .bind = bind});
    free(again);
    return code;
}

int cmd_perf(int argc, char **argv)
{
    struct perf_options options;
    int code = perf_parse(argc, argv, &options);
    if (code >= 0)
        return code;
    return options.processes ? run_processes(argc, argv, &options) : run(&options);
}
