/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the rules, and of their findings. */
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A remedy for what the driver of GPUs says in a failure's sentence. */
static const char *remedy_of_gpu(const char *sentence)
{
    static const struct {
        const char *word, *remedy;
    } remedies[] = {
        {"CUDA_ERROR_ECC_",
         "its GPU's memory is at fault, not the program: nvidia-smi -q -d ECC,ROW_REMAPPER and dmesg "
         "(Xid) there; reset the GPU, or drain the host"},
        {"CUDA_ERROR_NVLINK_",
         "an NVLink of its GPU is at fault, not the program: nvidia-smi nvlink -e and dmesg (Xid) "
         "there; reset the GPU, or drain the host"},
        {"CUDA_ERROR_LAUNCH_FAILED", "a kernel on its GPU failed: compute-sanitizer finds a program's error, dmesg "
                                     "(Xid) there a fault of the GPU"},
        {"CUDA_ERROR_ILLEGAL_ADDRESS",
         "a kernel on its GPU touched memory that is not its own: compute-sanitizer tells "
         "which"},
        {"CUDA_ERROR_OUT_OF_MEMORY", "its GPU has no more memory: nvidia-smi there shows who has it"},
    };
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (strstr(sentence, remedies[i].word))
            return remedies[i].remedy;
    return NULL;
}

/* Adds the remedy of this kind. PID becomes the process's number, if that is known, and PROCESS words for it. */
static void advise(struct finding *finding)
{
    if (*finding->remedy)
        return; /* a rule knows better */
    const char *gpu = finding->kind == FINDING_FAILED ? remedy_of_gpu(finding->sentence) : NULL;
    const char *text = gpu ? gpu : finding_row(finding->kind)->remedy, *at;
    char number[24] = "PID", words[32] = "the process";
    if (finding->culprit.pid) {
        snprintf(number, sizeof number, "%u", finding->culprit.pid);
        snprintf(words, sizeof words, "process %u", finding->culprit.pid);
    }
    size_t used = 0;
    while ((at = strstr(text, "P")) && used < sizeof finding->remedy) {
        bool pid = strncmp(at, "PID", 3) == 0, process = strncmp(at, "PROCESS", 7) == 0;
        used +=
            (size_t)snprintf(finding->remedy + used, sizeof finding->remedy - used, "%.*s%s", (int)(at - text), text,
                             pid       ? number
                             : process ? words
                                       : "P");
        text = at + (pid ? 3 : process ? 7 : 1);
    }
    if (used < sizeof finding->remedy)
        snprintf(finding->remedy + used, sizeof finding->remedy - used, "%s", text);
}

/* ---- The list ---- */

/* Hangs, what is slow, notes. */
static int gravity(enum finding_kind kind)
{
    return finding_is_hang(kind) ? 0 : finding_is_note(kind) ? 2 : 1;
}

size_t findings_faults(const struct findings *findings)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += !finding_is_note(findings->items[i].kind);
    return count;
}

static int by_weight(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;
    if (gravity(a->kind) != gravity(b->kind))
        return gravity(a->kind) - gravity(b->kind);
    if (a->confidence != b->confidence)
        return a->confidence > b->confidence ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->victims != b->victims)
        return a->victims > b->victims ? -1 : 1;
    if (a->culprit.comm != b->culprit.comm)
        return a->culprit.comm < b->culprit.comm ? -1 : 1;
    return a->culprit.rank < b->culprit.rank ? -1 : a->culprit.rank > b->culprit.rank;
}

struct findings diagnosis_find(const struct snapshot *snapshot)
{
    struct findings findings = {0};
    struct scene scene;
    if (!scene_open(&scene, snapshot, snapshot->stuck, false))
        return findings;
    rule_calls(&scene, &findings);
    rule_failures(&scene, &findings);
    rule_joining(&scene, &findings);
    scene_follow(&scene);
    rule_hang(&scene, &findings);
    if (!findings_faults(&findings)) /* ranks that wait for each other tell more */
        rule_shifted(&scene, &findings);
    rule_cut(&scene, &findings);
    rule_lanes(&scene, &findings);
    rule_losses(&scene, &findings);
    rule_slow(&scene, &findings);
    rule_delays(&scene, &findings);
    rule_outside(&scene, &findings);
    rule_starved(snapshot, &findings);
    rule_idle(&scene, &findings); /* a job that stands still was quicker before, too */
    rule_slowed(&scene, &findings);
    rule_hiccups(&scene, &findings);
    findings.steps += scene.steps;
    scene_close(&scene);
    for (size_t i = 0; i < findings.count; i++)
        advise(&findings.items[i]);
    if (findings.slower)
        advise(findings.slower);
    if (findings.count)
        qsort(findings.items, findings.count, sizeof *findings.items, by_weight);
    return findings;
}

bool findings_may_be_chance(const struct findings *findings)
{
    return findings->count && gravity(findings->items[0].kind) == 1 && !findings->items[0].settled;
}

/* Was the job slower than before, beside others or alone? */
static bool is_slower(const struct findings *findings)
{
    bool slower = findings->slower;
    for (size_t i = 0; i < findings->count; i++)
        slower = slower || findings->items[i].kind == FINDING_SLOWED;
    return slower;
}

void findings_confirm(struct findings *now, const struct findings *before)
{
    size_t kept = 0, all = now->count;
    for (size_t i = 0; i < all; i++) {
        bool stays = gravity(now->items[i].kind) != 1;
        for (size_t j = 0; j < before->count && !stays; j++)
            stays = gravity(before->items[j].kind) == 1 && finding_same_culprit(&now->items[i], &before->items[j]);
        if (stays)
            now->items[kept++] = now->items[i];
    }
    now->count = kept;
    if (now->slower && kept < all && !findings_faults(now) && is_slower(before)) {
        now->items[now->count++] = *now->slower;
        qsort(now->items, now->count, sizeof *now->items, by_weight);
    }
}

void findings_free(struct findings *findings)
{
    free(findings->items);
    free(findings->slower);
    *findings = (struct findings){0};
}
