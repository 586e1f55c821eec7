/* SPDX-License-Identifier: Apache-2.0 */
/* One finding: its row, its culprit, its sentences. */
#include "diagnosis/finding.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

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
    static const char *const names[] = {"communication hang", "other hang", "communication slow", "other slow",
                                        "no fault"};
    return names[class];
}

bool finding_is_hang(enum finding_kind kind)
{
    return rows[kind].class == CLASS_COMMUNICATION_HANG || rows[kind].class == CLASS_OTHER_HANG;
}

bool finding_is_note(enum finding_kind kind)
{
    return rows[kind].class == CLASS_NO_FAULT;
}

const char *confidence_name(enum confidence confidence)
{
    static const char *const names[] = {"possible", "likely", "certain"};
    return names[confidence];
}

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

/* People know a rank by its number in the largest communicator of its process; of several, the first. */
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
        say(finding, " of %s", phrase_name(world));
    if (member->box->header.pid)
        say(finding, " (process %u%s%s%s", member->box->header.pid, member->group->one_host ? "" : " on ",
            member->group->one_host ? "" : member->box->header.host,
            member->box->alive || member_is_replaced(member) ? "" : ", dead");
    if (world->id != member->comm->id)
        say(finding, "%srank %d of %s", member->box->header.pid ? "; " : " (", member->comm->rank,
            phrase_name(member->comm));
    if (member->box->header.pid || world->id != member->comm->id)
        say(finding, ")");
}

static void list_number(char *text, size_t size, int rank)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, " %d", rank);
}

void say_absent(struct finding *finding, const struct member *member, int rank, const char *why)
{
    if (is_world(member))
        say(finding, "rank %d (%s)", rank, why);
    else if (finding->culprit.world_rank < 0)
        say(finding, "rank %d of %s (%s)", rank, phrase_name(member->comm), why);
    else
        say(finding, "rank %d (rank %d of %s; %s)", finding->culprit.world_rank, rank, phrase_name(member->comm), why);
}

void list_rank(struct rank_list *list, int rank)
{
    if (list->count++ < SHOWN_RANKS && strlen(list->text) + 12 < sizeof list->text / 2) {
        list_number(list->text, sizeof list->text, rank);
        list->named++;
    }
}

void list_member(struct rank_list *list, const struct member *member)
{
    const struct blackbox_comm *world = world_of(member->box, member->comm);
    size_t named = list->named;
    list->comm = list->comm ? list->comm : member->comm;
    list->world = list->world ? list->world : world;
    list->mixed = list->mixed || list->world->id != world->id;
    list_rank(list, world->rank);
    if (list->named > named)
        list_number(list->own, sizeof list->own, member->comm->rank);
}

struct rank_list list_of(const struct member *member)
{
    struct rank_list list = {0};
    list_member(&list, member);
    return list;
}

const char *list_text(struct rank_list *list)
{
    char *text = list->mixed ? list->own : list->text;
    size_t used = strlen(text);
    if (list->count > list->named)
        used += (size_t)snprintf(text + used, sizeof list->text - used, " and %zu more", list->count - list->named);
    if (list->comm && (list->mixed || list->world->id != list->comm->id))
        snprintf(text + used, sizeof list->text - used, " of %s", phrase_name(list->mixed ? list->comm : list->world));
    list->named = list->count;
    list->comm = NULL;
    return text;
}

bool is_world(const struct member *member)
{
    return world_of(member->box, member->comm)->id == member->comm->id;
}

/* The only rank of the largest communicator whose box is not here. */
static int only_without_box(const struct scene *scene, const struct blackbox_comm *world)
{
    struct member_group *group = scene_group(scene, world->id);
    if (!group || group->count + 1 != (size_t)world->nranks)
        return -1;
    int rank = 0;
    while ((size_t)rank < group->count && group->members[rank].comm->rank == rank)
        rank++;
    return rank;
}

int world_rank_of(const struct scene *scene, const struct member *member, int rank)
{
    const struct member *named = scene_find(member->group, rank);
    if (named)
        return world_of(named->box, named->comm)->rank;
    const struct blackbox_comm *world = world_of(member->box, member->comm);
    return world->id == member->comm->id ? rank : only_without_box(scene, world);
}

static struct finding *add(struct findings *findings, enum finding_kind kind, enum confidence confidence,
                           const struct blackbox_comm *comm, int rank)
{
    static struct finding spare; /* written and never read: spares the callers a case */
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

bool finding_names(const struct findings *findings, enum finding_kind kind, const struct member *member)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == kind && findings->items[i].culprit.process == process_key(member->box))
            return true;
    return false;
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

bool finding_same_culprit(const struct finding *a, const struct finding *b)
{
    if (a->culprit.process || b->culprit.process)
        return a->culprit.process == b->culprit.process && a->culprit.peer == b->culprit.peer;
    return a->culprit.comm == b->culprit.comm && a->culprit.rank == b->culprit.rank &&
           a->culprit.peer == b->culprit.peer;
}
