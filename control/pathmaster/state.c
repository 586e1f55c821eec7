/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/state.h"

#include "base/clock.h"
#include "base/error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void pathmaster_complain(struct pathmaster *master)
{
    if (strcmp(master->said, error_last()) != 0)
        fprintf(stderr, "tutti pathmaster: %s\n", error_last());
    snprintf(master->said, sizeof master->said, "%s", error_last());
}

/* ---- events ---- */

static void count_event(struct pathmaster *master, const struct allot_event *event)
{
    const struct allot_owner *owner = &master->allot.owner[event->owner];
    struct tenant_count *of = event->kind == ALLOT_LINK ? NULL : &master->of_tenant[owner->tenant];
    if (event->kind == ALLOT_OWNER)
        of->owners++;
    if (event->kind == ALLOT_GIVE || event->kind == ALLOT_END)
        of->lanes += event->kind == ALLOT_GIVE ? 1 : -1;
    if (event->kind == ALLOT_LEAVE) {
        of->owners--;
        of->lanes -= owner->count;
    }
    if (event->kind != ALLOT_MOVE && event->kind != ALLOT_OWNER)
        master->changed = clock_ns();
    if (event->kind == ALLOT_LEAVE)
        catalogue_leave(&master->catalogue, event->owner);
    if (event->kind == ALLOT_GIVE && owner->count == 1) /* a job begins */
        catalogue_sweep(&master->catalogue, clock_ns());
}

tutti_result_t pathmaster_event(struct pathmaster *master, const struct allot_event *event)
{
    tutti_result_t result = store_note(master->store, &master->allot, event);
    if (!result && event->kind == ALLOT_LEAVE)
        count_event(master, event); /* the owner is gone behind it */
    if (!result)
        result = allot_apply(&master->allot, event);
    if (!result && event->kind != ALLOT_LEAVE)
        count_event(master, event);
    return result;
}

/* All owners have a whole lease before them: nobody knows what they said while no master was there. */
static void count_all(struct pathmaster *master)
{
    memset(master->of_tenant, 0, (size_t)master->tenants.count * sizeof *master->of_tenant);
    for (int32_t i = 0; i < master->allot.owner_places; i++) {
        struct allot_owner *owner = &master->allot.owner[i];
        if (owner->tenant < 0)
            continue;
        owner->until = clock_ns() + master->options->lease;
        master->of_tenant[owner->tenant].owners++;
        master->of_tenant[owner->tenant].lanes += owner->count;
    }
    master->told = master->allot.wave;
    master->fault = master->allot.lanes > 0;
}

tutti_result_t pathmaster_read(struct pathmaster *master, int32_t *dropped)
{
    tutti_result_t result = allot_open(&master->allot, &master->paths);
    *dropped = 0;
    if (!result && master->leads)
        result = store_load(master->store, &master->allot, dropped);
    catalogue_close(&master->catalogue);
    if (!result)
        result = catalogue_open(&master->catalogue, &master->allot, &master->fabric);
    if (!result)
        count_all(master);
    return result;
}

void pathmaster_again(struct pathmaster *master)
{
    int32_t dropped;
    if (store_is_shared(master->store)) { /* it is read when this master leads again */
        master->leads = false;
        return;
    }
    allot_close(&master->allot);
    master->broken = pathmaster_read(master, &dropped) != TUTTI_SUCCESS;
    if (master->broken)
        pathmaster_complain(master);
}

/* The loop waits for signals. While waves are under way, it keeps their time. */
void pathmaster_hurry(struct pathmaster *master)
{
    master->fault = true;
    if (master->told == master->allot.wave)
        kill(getpid(), SIGUSR1);
}
