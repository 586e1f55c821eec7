/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/ask.h"
#include "pathmaster/probed.h"
#include "pathmaster/state.h"

#include "base/clock.h"
#include "base/error.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_NS (200 * NS_PER_MS) /* between two waves */
#define CALM_NS NS_PER_S          /* without a change, after which lanes are spread anew */
#define STORM   5                 /* seconds that changes may put it off */
#define UPLOADS (64u << 20)

/* ---- what time brings ---- */

static tutti_result_t end_overdue(struct pathmaster *master)
{
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t now = clock_ns();
    for (int32_t i = allot_overdue(&master->allot, 0, now); !result && i >= 0;
         i = allot_overdue(&master->allot, i + 1, now)) {
        printf("an owner of %s with %d lanes is silent: they end\n",
               master->tenants.tenant[master->allot.owner[i].tenant].name, master->allot.owner[i].count);
        result = pathmaster_event(master, &(struct allot_event){.kind = ALLOT_LEAVE, .owner = i});
    }
    return result;
}

static bool on_move(void *context, const struct allot_event *event)
{
    struct pathmaster *master = context;
    master->moved++;
    return store_note(master->store, &master->allot, event) == TUTTI_SUCCESS;
}

static bool is_calm(const struct pathmaster *master, uint64_t *storm)
{
    uint64_t now = clock_ns();
    if (!master->allot.uneven)
        *storm = now;
    return now - master->changed > CALM_NS || now - *storm > STORM * NS_PER_S;
}

/* A plan after links have changed is at once; that for other reasons waits until jobs have begun. */
static tutti_result_t plan_moves(struct pathmaster *master, uint64_t *storm)
{
    uint64_t moved = master->moved;
    if (!master->fault && (!master->allot.uneven || !is_calm(master, storm)))
        return TUTTI_SUCCESS;
    master->fault = false;
    tutti_result_t result = allot_plan(&master->allot, on_move, master);
    *storm = clock_ns();
    if (master->moved != moved)
        printf("%llu lanes move, in %llu waves\n", (unsigned long long)(master->moved - moved),
               (unsigned long long)(master->allot.wave - master->told));
    return result;
}

static void begin_to_lead(struct pathmaster *master)
{
    int32_t dropped = 0;
    allot_close(&master->allot);
    master->leads = true;
    if (pathmaster_read(master, &dropped)) {
        pathmaster_complain(master);
        store_undo(master->store);
        master->leads = false;
        return;
    }
    *master->said = 0;
    printf("This master leads: %d lanes known, %d lanes and owners end\n", master->allot.lanes, dropped);
}

/* False: another one does, or nobody knows. */
static bool still_leads(struct pathmaster *master)
{
    enum store_role role = store_turn(master->store);
    if (role == STORE_BEGINS)
        begin_to_lead(master);
    if (role != STORE_FOLLOWS)
        return master->leads;
    if (*error_last())
        pathmaster_complain(master);
    if (master->leads)
        printf("This master leads no longer\n");
    return master->leads = false;
}

static void tick(struct pathmaster *master, uint64_t *storm)
{
    pthread_mutex_lock(&master->lock);
    if (!still_leads(master)) {
        pthread_mutex_unlock(&master->lock);
        fflush(stdout);
        return;
    }
    tutti_result_t result = store_begin(master->store);
    if (!result)
        result = end_overdue(master);
    if (!result)
        result = probed_look(master);
    if (!result)
        result = plan_moves(master, storm);
    if (!result)
        result = store_commit(master->store);
    if (result) {
        pathmaster_complain(master);
        store_undo(master->store);
        pathmaster_again(master);
    } else if (master->told < master->allot.wave) {
        master->told++;
    }
    pthread_mutex_unlock(&master->lock);
    fflush(stdout);
}

static void loop(struct pathmaster *master, const sigset_t *signals)
{
    const struct timespec wait = {.tv_nsec = (long)TICK_NS};
    uint64_t storm = clock_ns();
    while (!master->broken) {
        int number = sigtimedwait(signals, NULL, &wait);
        if (number == SIGINT || number == SIGTERM)
            return;
        tick(master, &storm);
    }
}

/* ---- beginning and end ---- */

static bool open_fabric(struct pathmaster *master)
{
    const struct pathmaster_options *options = master->options;
    master->paths = (struct paths){.label = options->fabric, .fabric = &master->fabric, .lanes = 1, .dscp = -1};
    if (tenants_load(options->tenants, &master->tenants) || paths_load(options->fabric, &master->fabric) ||
        paths_open(&master->paths) || names_open(&master->names, &master->fabric))
        return false;
    master->of_tenant = calloc((size_t)master->tenants.count, sizeof *master->of_tenant);
    if (!master->of_tenant)
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
    return master->of_tenant;
}

static bool open_state(struct pathmaster *master, const struct serve_options *serve)
{
    int32_t dropped = 0;
    master->store = store_open(master->options->state, &master->names, &master->tenants);
    master->leads = master->store && !store_is_shared(master->store);
    if (!master->store || pathmaster_read(master, &dropped))
        return false;
    if (dropped)
        printf("%d lanes and owners of %s end: %s, or the tenants, no longer have them\n", dropped,
               master->options->state, master->options->fabric);
    if (!(master->sources = sources_open("tutti pathmaster"))) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return false;
    }
    return (master->server = serve_open(serve)) != NULL;
}

static void close_all(struct pathmaster *master)
{
    serve_close(master->server);
    sources_close(master->sources);
    store_close(master->store);
    catalogue_close(&master->catalogue);
    allot_close(&master->allot);
    names_close(&master->names);
    paths_close(&master->paths);
    fabric_free(&master->fabric);
    tenants_free(&master->tenants);
    free(master->of_tenant);
    pthread_mutex_destroy(&master->lock);
    free(master);
}

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, signals, NULL); /* set before there are threads that would take the signals */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow fails by its result */
}

bool pathmaster_run(const struct pathmaster_options *options)
{
    char text[NET_TEXT];
    sigset_t signals;
    struct serve_door door = options->door;
    struct pathmaster *master = calloc(1, sizeof *master);
    if (!master) {
        fprintf(stderr, "tutti pathmaster: no memory\n");
        return false;
    }
    master->options = options;
    pthread_mutex_init(&master->lock, NULL);
    block_signals(&signals);
    bool fine = open_fabric(master);
    const struct serve_options serve = {.door = &door,
                                        .token = master->tenants.token,
                                        .tokens = (unsigned)master->tenants.count,
                                        .post = "/paths",
                                        .most = PATH_BYTES,
                                        .uploads = UPLOADS,
                                        .context = master,
                                        .on_post = pathmaster_post,
                                        .on_page = pathmaster_page,
                                        .pages = "There are /, /probes, /probes.json and /metrics",
                                        .on_refusal = pathmaster_refusal};
    fine = fine && open_state(master, &serve);
    if (fine) {
        pthread_mutex_lock(&master->lock); /* agents may ask already */
        int lanes = master->allot.lanes;
        pthread_mutex_unlock(&master->lock);
        printf("Agents ask at http%s://%s: %d uplinks of %s, %d lanes known\n", door.certificate ? "s" : "",
               net_format(&door.at, text), master->fabric.uplinks, master->fabric.name, lanes);
        fflush(stdout);
        loop(master, &signals);
        fine = !master->broken;
    } else {
        pathmaster_complain(master);
    }
    close_all(master);
    return fine;
}
