/* SPDX-License-Identifier: Apache-2.0 */
/* Was a run of elastic.c right? Members have told what they got, and why they ended. */
#include "../collective/gpu.h"
#include "elastic_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool in_one_memory(void)
{
    return strcmp(getenv("TUTTI_TRANSPORT"), "shm") == 0;
}

static bool judge_step(int number)
{
    const struct said *first = NULL;
    bool right = true;
    for (int i = 0; i < MEMBERS; i++) {
        const struct said *said = &job->told[i].said[number];
        if (!said->counts)
            continue;
        const struct said *other = first ? first : said;
        bool same_sum = !job->units || !first || (first - job->told[0].said) % 2 == 0;
        for (int j = 0; j < i; j++)
            if (job->told[j].said[number].counts && (!job->units || j % 2 == i % 2))
                same_sum = job->told[j].said[number].hash == said->hash;
            else
                same_sum = true;
        if (other->generation != said->generation || other->set != said->set || !same_sum) {
            fprintf(stderr, "  step %d: member %d says generation %llu, set %#x; another %llu, %#x; sums %s\n", number,
                    i, (unsigned long long)said->generation, said->set, (unsigned long long)other->generation,
                    other->set, same_sum ? "agree" : "differ");
            right = false;
        }
        first = other;
    }
    return right;
}

/* What was under way is all that may be, and no more; something, where slices of a vector go one by one. */
static bool judge_bound(const struct told *told)
{
    size_t bound = job->chunk_bytes * (size_t)job->chunks;
    bool all = told->steps == STEPS && !in_one_memory();
    size_t least = gpu_wanted() ? bound > 0 : bound;
    if (told->under_way > bound || told->unasked || (all && told->under_way < least)) {
        fprintf(stderr, "  %zu bytes were under way, and the bound is %zu%s\n", told->under_way, bound,
                told->unasked ? "; some had not been asked for" : "");
        return false;
    }
    return true;
}

bool judge(const bool *stops, const bool *killed, const bool *died, const char *what)
{
    bool right = true, left[MEMBERS];
    int whole = 0, apart = 0;
    for (int step = 1; step <= STEPS; step++)
        right &= judge_step(step);
    for (int i = 0; i < MEMBERS; i++) {
        const struct told *told = &job->told[i];
        bool broken = job->units && (killed[i ^ 1] || stops[i ^ 1]), out = killed[i] || stops[i] || broken;
        left[i] = out;
        whole += told->result == TUTTI_SUCCESS && told->steps == STEPS && !died[i];
        right &= judge_bound(told);
        if (told->wrong || (died[i] && !killed[i])) {
            fprintf(stderr, "  member %d: %s\n", i,
                    told->wrong ? "a result, an input or a late write is wrong" : "died");
            right = false;
        }
        if (job->all && !out && (told->result != TUTTI_SUCCESS || told->fresh != job->compares)) {
            fprintf(stderr, "  member %d should have gone on: %s\n", i, told->sentence);
            right = false;
        }
        bool network = strstr(told->sentence, "it has no lane to members") != NULL;
        apart += network;
        bool says = job->meets ? told->sentence[0] : words_end(told->sentence);
        if ((!killed[i] && told->steps < STEPS && !says) || (network && !job->cuts)) {
            fprintf(stderr, "  member %d did not say why it ended, and what became of the group: %s\n", i,
                    told->sentence);
            right = false;
        }
    }
    if (whole < job->whole || (job->exactly && (whole > job->whole || whole + apart < MEMBERS)))
        right = false;
    right &= !job->all || words_judge(left);
    if (!right)
        fprintf(stderr, "wrong: %s; %d members are whole\n", what, whole);
    for (int i = 0; i < MEMBERS && (!right || getenv("TUTTI_TEST_SAY")); i++)
        fprintf(stderr, "  member %d: %d steps, generation %llu, set %#x, result %d: %s\n", i, job->told[i].steps,
                (unsigned long long)job->told[i].said[job->told[i].steps].generation,
                job->told[i].said[job->told[i].steps].set, (int)job->told[i].result, job->told[i].sentence);
    return right;
}
