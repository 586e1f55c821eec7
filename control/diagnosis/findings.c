/* SPDX-License-Identifier: Apache-2.0 */
/* What was found: the list, its sentences, and the order of the rules. */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_RANKS 16

static const struct finding_row rows[FINDING_KINDS] = {
#define KIND(id, name, class, remedy) [FINDING_##id] = {name, CLASS_##class, remedy},
#include "diagnosis/kinds.tbl"
#undef KIND
};

const struct finding_row *finding_row(enum finding_kind kind)
{
    return &rows[kind];
}

const char *finding_class_name(enum finding_class class)
{
    static const char *const names[] = {"communication hang", "other hang", "communication slow", "other slow"};
    return names[class];
}

bool finding_is_hang(enum finding_kind kind)
{
    return rows[kind].class == CLASS_COMMUNICATION_HANG || rows[kind].class == CLASS_OTHER_HANG;
}

const char *confidence_name(enum confidence confidence)
{
    static const char *const names[] = {"possible", "likely", "certain"};
    return names[confidence];
}

/* ---- Texts ---- */

static void append(char *text, size_t size, const char *format, va_list args)
{
    size_t used = strlen(text);
    vsnprintf(text + used, size - used, format, args);
}

void say(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append(finding->sentence, sizeof finding->sentence, format, args);
    va_end(args);
}

void prove(struct finding *finding, const char *format, ...)
{
    if (finding->evidence_count == FINDING_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    append(finding->evidence[finding->evidence_count++], FINDING_LINE, format, args);
    va_end(args);
}

/* Ranks are known by their number among all: in the largest communicator of their process, of several the first. */
static const struct blackbox_comm *world_of(const struct blackbox *box, const struct blackbox_comm *comm)
{
    const struct blackbox_comm *world = comm;
    for (size_t i = 0; i < box->comm_count; i++)
        if (box->comms[i].nranks > world->nranks && box->comms[i].state != WIRE_COMM_CLOSED)
            world = &box->comms[i];
    return world;
}

void say_who(struct finding *finding, const struct member *member)
{
    const struct blackbox_comm *world = world_of(member->box, member->comm);
    say(finding, "rank %d", world->rank);
    if (world->id != member->comm->id)
        say(finding, " of %s", word_name(world));
    if (member->box->header.pid)
        say(finding, " (process %u%s%s%s", member->box->header.pid, member->group->one_host ? "" : " on ",
            member->group->one_host ? "" : member->box->header.host, member->box->alive ? "" : ", dead");
    if (world->id != member->comm->id)
        say(finding, "%srank %d of %s", member->box->header.pid ? "; " : " (", member->comm->rank,
            word_name(member->comm));
    if (member->box->header.pid || world->id != member->comm->id)
        say(finding, ")");
}

void list_rank(struct rank_list *list, int rank)
{
    size_t used = strlen(list->text);
    if (list->count++ < SHOWN_RANKS && used + 12 < sizeof list->text) {
        snprintf(list->text + used, sizeof list->text - used, " %d", rank);
        list->named++;
    }
}

const char *list_text(struct rank_list *list)
{
    size_t used = strlen(list->text);
    if (list->count > list->named)
        snprintf(list->text + used, sizeof list->text - used, " and %zu more", list->count - list->named);
    list->named = list->count;
    return list->text;
}

/* What the driver of GPUs says in a failure's sentence, and what to do about it. */
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

/* The remedy of this kind, with the number of the process in place of PID. */
static void advise(struct finding *finding)
{
    const char *gpu = finding->kind == FINDING_FAILED ? remedy_of_gpu(finding->sentence) : NULL;
    const char *text = gpu ? gpu : rows[finding->kind].remedy, *at;
    char number[24] = "the process";
    if (finding->culprit.pid)
        snprintf(number, sizeof number, "%u", finding->culprit.pid);
    size_t used = 0;
    while ((at = strstr(text, "PID")) && used < sizeof finding->remedy) {
        used += (size_t)snprintf(finding->remedy + used, sizeof finding->remedy - used, "%.*s%s", (int)(at - text),
                                 text, number);
        text = at + 3;
    }
    if (used < sizeof finding->remedy)
        snprintf(finding->remedy + used, sizeof finding->remedy - used, "%s", text);
}

/* ---- The list ---- */

static struct finding *add(struct findings *findings, enum finding_kind kind, enum confidence confidence,
                           const struct blackbox_comm *comm, int rank)
{
    static struct finding spare; /* written and not read: saves its users a case */
    struct finding *more =
        findings->count < FINDINGS_MOST ? realloc(findings->items, (findings->count + 1) * sizeof *more) : NULL;
    struct finding *finding = more ? &more[findings->count++] : &spare;
    findings->items = more ? more : findings->items;
    findings->left_out += !more;
    *finding = (struct finding){
        .kind = kind, .confidence = confidence, .culprit = {.rank = rank, .world_rank = rank, .peer = -1}};
    if (comm) {
        finding->culprit.comm = comm->id;
        memcpy(finding->culprit.name, comm->name, sizeof comm->name);
    }
    return finding;
}

struct finding *finding_add(struct findings *findings, enum finding_kind kind, enum confidence confidence,
                            const struct member *about)
{
    struct finding *finding = add(findings, kind, confidence, about->comm, about->comm->rank);
    finding->culprit.pid = about->box->header.pid;
    finding->culprit.process = process_key(about->box);
    finding->culprit.world_rank = world_of(about->box, about->comm)->rank;
    memcpy(finding->culprit.host, about->box->header.host, sizeof finding->culprit.host);
    return finding;
}

struct finding *finding_add_rank(struct findings *findings, enum finding_kind kind, const struct blackbox_comm *comm,
                                 int rank)
{
    return add(findings, kind, POSSIBLE, comm, rank);
}

static int by_weight(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;
    if (finding_is_hang(a->kind) != finding_is_hang(b->kind))
        return finding_is_hang(a->kind) ? -1 : 1;
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
    rule_lanes(&scene, &findings);
    rule_losses(&scene, &findings);
    rule_slow(&scene, &findings);
    rule_starved(snapshot, &findings);
    rule_delays(&scene, &findings);
    findings.steps += scene.steps;
    scene_close(&scene);
    for (size_t i = 0; i < findings.count; i++)
        advise(&findings.items[i]);
    if (findings.count)
        qsort(findings.items, findings.count, sizeof *findings.items, by_weight);
    return findings;
}

bool finding_same_culprit(const struct finding *a, const struct finding *b)
{
    if (a->culprit.process || b->culprit.process)
        return a->culprit.process == b->culprit.process && a->culprit.peer == b->culprit.peer;
    return a->culprit.comm == b->culprit.comm && a->culprit.rank == b->culprit.rank &&
           a->culprit.peer == b->culprit.peer;
}

void findings_confirm(struct findings *now, const struct findings *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < now->count; i++) {
        bool stays = finding_is_hang(now->items[i].kind);
        for (size_t j = 0; j < before->count && !stays; j++)
            stays = !finding_is_hang(before->items[j].kind) && finding_same_culprit(&now->items[i], &before->items[j]);
        if (stays)
            now->items[kept++] = now->items[i];
    }
    now->count = kept;
}

void findings_free(struct findings *findings)
{
    free(findings->items);
    *findings = (struct findings){0};
}
