/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON about the job as it is now. */
#include "master/state.h"

#include "verdict/verdict.h"

#include <stdlib.h>

void answer_text(FILE *out, const char *text)
{
    json_t *value = verdict_text(text);
    if (!value || json_dumpf(value, out, JSON_ENCODE_ANY) != 0)
        fputs("null", out);
    json_decref(value);
}

char *answer_now(struct master *master, answer_writer *write, const void *what)
{
    struct job_look look;
    char *text = NULL;
    size_t length = 0;
    pthread_mutex_lock(&master->lock);
    bool fine = job_look(&master->job, clock_ns(), &look);
    pthread_mutex_unlock(&master->lock);
    FILE *out = fine ? open_memstream(&text, &length) : NULL;
    if (out)
        write(out, &look, what);
    bool whole = out && fclose(out) == 0;
    if (fine)
        job_look_free(&look);
    if (whole)
        return text;
    free(text);
    return NULL;
}
