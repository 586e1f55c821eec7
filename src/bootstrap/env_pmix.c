/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The id through PMIx, which Open MPI's launcher (and Slurm's, if asked) offers. The library is opened when needed, so
 * that tutti runs without it. PMIx counts its users: an MPI in the same process is not disturbed.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "bootstrap/env_kind.h"

#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#define SAY_EVERY 10 /* seconds of waiting for rank 0 */

#ifndef PMIX_ERR_PROC_ENTRY_NOT_FOUND
#define PMIX_ERR_PROC_ENTRY_NOT_FOUND -17 /* the name is out of date, and servers still say so */
#endif

struct pmix {
    void *library;
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
    const char *(*text)(pmix_status_t);
    void (*forget)(pmix_value_t *, size_t); /* may be absent */
};

static bool env_pmix_load(struct pmix *p)
{
    p->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!p->library)
        return false;
    *(void **)&p->init = dlsym(p->library, "PMIx_Init");
    *(void **)&p->finalize = dlsym(p->library, "PMIx_Finalize");
    *(void **)&p->put = dlsym(p->library, "PMIx_Put");
    *(void **)&p->commit = dlsym(p->library, "PMIx_Commit");
    *(void **)&p->get = dlsym(p->library, "PMIx_Get");
    *(void **)&p->text = dlsym(p->library, "PMIx_Error_string");
    *(void **)&p->forget = dlsym(p->library, "PMIx_Value_free");
    return p->init && p->finalize && p->put && p->commit && p->get && p->text;
}

static tutti_result_t refused(const struct pmix *p, const char *what, pmix_status_t status)
{
    return error_set(TUTTI_REMOTE_ERROR, "PMIx: %s: %s; set TUTTI_ID to host:port of rank 0 to do without", what,
                     p->text(status));
}

static tutti_result_t env_pmix_publish(const struct pmix *p, struct env_identity *out, const char *key)
{
    char text[ENV_ID_TEXT];
    tutti_result_t result = env_fresh_id(out);
    if (result == TUTTI_SUCCESS)
        env_id_to_text(&out->id, text);
    else
        text[0] = '\0'; /* the others need not wait */
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
    pmix_status_t status = p->put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = p->commit();
    if (result == TUTTI_SUCCESS && status != PMIX_SUCCESS)
        result = refused(p, "cannot publish the unique id", status);
    return result;
}

/* What a launcher answers while rank 0, or its host, has yet to say something. */
static bool not_yet(pmix_status_t status)
{
    return status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_PROC_ENTRY_NOT_FOUND || status == PMIX_ERR_TIMEOUT;
}

/* Launchers answer when rank 0 has published. That of Open MPI 4 does not wait: it says at once what it has of an
 * earlier generation. When the daemon of rank 0's host is late, it says that it does not know of rank 0. */
static pmix_status_t env_pmix_await(const struct pmix *p, const pmix_proc_t *from, const char *key,
                                    pmix_value_t **value)
{
    const struct timespec pause = {.tv_nsec = 10 * (long)NS_PER_MS};
    uint64_t deadline = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT));
    uint64_t say = clock_deadline_ms(SAY_EVERY * 1000);
    pmix_info_t patience;
    pmix_status_t status;
    memset(&patience, 0, sizeof patience);
    snprintf(patience.key, sizeof patience.key, "%s", PMIX_TIMEOUT);
    patience.value.type = PMIX_INT;
    do {
        int left = clock_left_ms(deadline) / 1000 + 1;
        patience.value.data.integer = left < SAY_EVERY ? left : SAY_EVERY;
        status = p->get(from, key, &patience, 1, value);
        if (not_yet(status) && status != PMIX_ERR_TIMEOUT)
            nanosleep(&pause, NULL);
        if (status != PMIX_SUCCESS && clock_passed(say)) {
            log_warn(
                "rank 0 has not published through PMIx where to meet, and is still waited for; see whether it runs");
            say = clock_deadline_ms(SAY_EVERY * 1000);
        }
    } while (not_yet(status) && !clock_passed(deadline));
    return status;
}

static tutti_result_t read_id(const struct pmix *p, const pmix_proc_t *me, struct env_identity *out, const char *key)
{
    pmix_proc_t zero = *me;
    pmix_value_t *value = NULL;
    zero.rank = 0;
    pmix_status_t status = env_pmix_await(p, &zero, key, &value);
    if (status != PMIX_SUCCESS)
        return refused(p, "cannot read the unique id of rank 0", status);
    bool fine = value->type == PMIX_STRING && value->data.string && env_id_from_text(value->data.string, &out->id);
    if (p->forget)
        p->forget(value, 1);
    return fine ? TUTTI_SUCCESS
                : error_set(
                      TUTTI_REMOTE_ERROR,
                      "PMIx: rank 0 published no unique id; set TUTTI_ID to host:port of rank 0 to do without PMIx");
}

/* Without a fence: Open MPI 5 counts a process that has finalized as gone, and fails the next fence of the others. */
static tutti_result_t env_pmix_exchange(const struct pmix *p, const pmix_proc_t *me, struct env_identity *out,
                                        unsigned generation)
{
    char key[64];
    snprintf(key, sizeof key, "tutti.id.%u", generation);
    return out->rank == 0 ? env_pmix_publish(p, out, key) : read_id(p, me, out, key);
}

/* Init and finalize are counted by PMIx, so that an MPI in this process, or a second call of ours, is not disturbed. */
tutti_result_t env_meet_pmix(struct env_identity *out, unsigned generation, bool *met)
{
    struct pmix p = {0};
    pmix_proc_t me;
    *met = false;
    if (!env_text("PMIX_NAMESPACE") || !env_pmix_load(&p))
        return TUTTI_SUCCESS;
    pmix_status_t status = p.init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        log_info("PMIx_Init: %s; meeting another way", p.text(status));
        return TUTTI_SUCCESS;
    }
    *met = true;
    tutti_result_t result =
        (unsigned)out->rank == me.rank
            ? env_pmix_exchange(&p, &me, out, generation)
            : error_set(TUTTI_INVALID_USAGE, "%s says rank %d, PMIx says rank %u", out->source, out->rank, me.rank);
    p.finalize(NULL, 0);
    return result;
}
