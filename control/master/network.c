/* SPDX-License-Identifier: Apache-2.0 */
/* Is it the network? Answers as `tutti diagnose --network` does. As `tutti diagnose --network` tells. Agents tell of
 * lanes for a while after somebody has asked here, so a first answer may know nothing of data between hosts. */
#include "master/state.h"

#include "verdict/verdict.h"

static void write_network(FILE *out, const struct job_look *look, const void *what)
{
    const struct snapshot snapshot = {.now = look->look, .stuck = *(const uint64_t *)what, .watched = true};
    struct findings findings = diagnosis_find(&snapshot);
    struct network_report report;
    if (network_look(&snapshot, &report))
        verdict_print_network(out, &report, &findings);
    for (size_t i = 0; i < findings.count; i++)
        verdict_print(out, &findings.items[i]);
    network_free(&report);
    findings_free(&findings);
}

char *network_page(struct master *master)
{
    pthread_mutex_lock(&master->lock);
    job_look_closer(&master->job, clock_ns());
    pthread_mutex_unlock(&master->lock);
    return answer_now(master, write_network, &master->options->stuck);
}
