/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/counters.h"
#include "paths/paths.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTHING 1e-3 /* of its planned share, or of the leaf's bytes: what switches say to each other */
#define STRAY   1e-2 /* of the leaf's bytes, on an uplink that has no lane */

/* The counter of an uplink, by the leaf's port or, where the file names none, by u0, u1, ... */
static tutti_result_t bytes_of(const struct paths *paths, struct sent_bytes *counters, int32_t uplink, uint64_t *out)
{
    const struct fabric *f = paths->fabric;
    const struct fabric_leaf *leaf = &f->leaf[f->uplink[uplink].leaf];
    char number[16], name[PATHS_NAME];
    const char *port = fabric_word(f, f->uplink[uplink].wire.port);
    snprintf(number, sizeof number, "u%d", uplink - leaf->first);
    paths_uplink_name(f, uplink, name);
    if (counters_find(counters, leaf->name, *port ? port : number, out))
        return TUTTI_SUCCESS;
    return error_note(TUTTI_INVALID_ARGUMENT, "the counters tell no bytes that were sent up on link %s (port %s of %s)",
                      name, *port ? port : number, leaf->name);
}

static tutti_result_t sent_of(const struct paths *paths, struct sent_bytes *before, struct sent_bytes *after,
                              int32_t uplink, double *out)
{
    uint64_t old = 0, now;
    char name[PATHS_NAME];
    tutti_result_t result = bytes_of(paths, after, uplink, &now);
    *out = 0;
    if (result && !paths->way[uplink].shares)
        return TUTTI_SUCCESS; /* a port that is down may have no counter */
    if (!result && before->count)
        result = bytes_of(paths, before, uplink, &old);
    if (result)
        return result;
    paths_uplink_name(paths->fabric, uplink, name);
    if (now < old)
        return error_note(TUTTI_INVALID_ARGUMENT,
                          "link %s: its counter went back from %llu to %llu bytes: it was cleared in between", name,
                          (unsigned long long)old, (unsigned long long)now);
    *out = (double)(now - old);
    return TUTTI_SUCCESS;
}

/* within < 0: shares are not judged. */
static const char *judge(double planned, double seen, double within)
{
    if (planned <= 0)
        return seen > (within < 0 ? STRAY : within) ? "DIFFERS: no lane is planned here" : "";
    if (seen < planned * NOTHING)
        return "DIFFERS: planned lanes are missing";
    return within >= 0 && fabs(seen / planned - 1) > within ? "DIFFERS" : "";
}

static void list_leaf(const struct paths *paths, int32_t number, const double *bytes, double within, bool *agree,
                      struct text *out)
{
    const struct fabric *f = paths->fabric;
    const struct fabric_leaf *leaf = &f->leaf[number];
    double sum = 0, lanes = 0;
    for (int32_t u = 0; u < leaf->count; u++) {
        sum += bytes[u];
        lanes += paths->way[leaf->first + u].lanes;
    }
    if (sum <= 0 || lanes <= 0) {
        text_add(out, "%s: nothing was sent up\n", leaf->name);
        return;
    }
    for (int32_t u = 0; u < leaf->count; u++) {
        double planned = paths->way[leaf->first + u].lanes / lanes, seen = bytes[u] / sum;
        const char *verdict = judge(planned, seen, within);
        *agree = *agree && !*verdict;
        text_add(out, "%s.u%-4d planned %6.2f%%, seen %6.2f%% %s\n", leaf->name, u, 100 * planned, 100 * seen, verdict);
    }
}

tutti_result_t paths_verify(const struct paths *paths, struct sent_bytes *before, struct sent_bytes *after,
                            double within, bool *agree, struct text *out)
{
    const struct fabric *f = paths->fabric;
    double *bytes = calloc((size_t)f->uplinks + 1, sizeof *bytes);
    tutti_result_t result =
        bytes ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory for %d uplinks", f->uplinks);
    *agree = true;
    for (int32_t u = 0; !result && u < f->uplinks; u++)
        if (paths->shares[f->uplink[u].leaf] && f->leaf[f->uplink[u].leaf].ports)
            result = sent_of(paths, before, after, u, &bytes[u]);
    for (int32_t l = 0; !result && l < f->leaves; l++)
        list_leaf(paths, l, &bytes[f->leaf[l].first], within, agree, out);
    if (!result && within < 0)
        text_add(out, "Shares are not judged: by default a lane takes what it can (TUTTI_STRIPE=arrival). With "
                      "TUTTI_STRIPE=turns all lanes send alike, and --within PERCENT judges shares.\n");
    free(bytes);
    return result;
}
