/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: the ranks that stand still, and the ends of their waits. One finding for each end: the first that stalls, not
 * those who wait for it, in any communicator. (ICCL section 6: operation counts; NCCLX section 7.3: a collective that
 * waits for another is not the cause.)
 */
#include "diagnosis/circle.h"
#include "diagnosis/laggards.h"
#include "diagnosis/launcher.h"
#include "diagnosis/patience.h"
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/stage.h"
#include "diagnosis/system.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS_SHOWN 3

static bool of_process(enum finding_kind ending)
{
    return ending == FINDING_DEAD || ending == FINDING_REPLACED || ending == FINDING_STOPPED ||
           ending == FINDING_TRACED;
}

static struct victim victim_of(const struct scene *scene, const struct member *member)
{
    const struct member *end = member->end;
    struct victim victim = {member, end, end->ending, (uint64_t)(end->group - scene->groups),
                            (uint64_t)end->comm->rank};
    if (of_process(end->ending) || end->ending == FINDING_BEHIND)
        victim.key = end->process, victim.rank = 0;
    else if (end->ending == FINDING_ABSENT)
        victim.rank = (uint64_t)end->awaited;
    return victim;
}

static int by_key(const struct victim *a, const struct victim *b)
{
    if (a->ending != b->ending)
        return a->ending < b->ending ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Members of one finding are in the order of communicators and ranks. */
static int by_end(const void *left, const void *right)
{
    const struct victim *a = left, *b = right;
    int keys = by_key(a, b);
    return keys ? keys : a->member < b->member ? -1 : a->member > b->member;
}

/* How well does this victim tell what is waited for? The best one waits for the end itself, for a call that the end has
 * not made. */
static int weight_of(const struct victim *victim)
{
    const struct member *member = victim->member, *end = victim->end;
    if (member->next != end || member == end)
        return 0;
    return member_has_called(end, member->op) ? 1 : 2;
}

/* The best witness; of several, the one in the earliest call. */
static const struct victim *choose_witness(const struct victim *victims, size_t count)
{
    const struct victim *best = victims;
    for (size_t i = 1; i < count; i++) {
        int mine = weight_of(&victims[i]), others = weight_of(best);
        bool same = victims[i].member->group == best->member->group;
        bool earlier = same ? victims[i].member->op->seq < best->member->op->seq
                            : blackbox_since(victims[i].member->op) < blackbox_since(best->member->op);
        if (mine > others || (mine == others && mine && earlier))
            best = &victims[i];
    }
    return best;
}

/* ---- Sentences ---- */

static bool same_call(const struct member *a, const struct member *b)
{
    return a->group == b->group && a->op->seq == b->op->seq && a->op->collective == b->op->collective;
}

static bool is_end(const struct victim *victim)
{
    return victim->member->comm->rank == victim->end->comm->rank && victim->member->group == victim->end->group &&
           victim->ending != FINDING_ABSENT && victim->ending != FINDING_CIRCLE && victim->ending != FINDING_ORDER;
}

/* All victims of one finding, and the witness among them. */
struct chain {
    const struct victim *victims, *witness;
    size_t count;
};

/* The ranks in the same call as the witness, without the end itself. */
static struct rank_list with_witness(const struct chain *chain)
{
    struct rank_list list = {0};
    for (size_t i = 0; i < chain->count; i++)
        if (same_call(chain->victims[i].member, chain->witness->member) && !is_end(&chain->victims[i]) &&
            (chain->witness->ending != FINDING_STILL ||
             chain->victims[i].member->process != chain->witness->end->process))
            list_member(&list, chain->victims[i].member);
    return list;
}

/* Says for how long; nothing where a dump has no times. */
static void say_for(struct finding *finding, const struct member *waiter)
{
    if (member_waited(waiter))
        say(finding, ", for %s", phrase_time(member_waited(waiter)).text);
}

static void say_where(struct finding *finding, const struct member *waiter)
{
    say(finding, " in %s of communicator %s", phrase_step(waiter->op).text, phrase_name(waiter->comm));
    say_for(finding, waiter);
}

/* "is waited for by ranks 0 1 in allreduce #17 of communicator world, for 2.9 s" */
static void say_waiters(struct finding *finding, const struct chain *chain, const char *verb)
{
    struct rank_list list = with_witness(chain);
    if (list.count)
        say(finding, "%s rank%s%s", verb, list.count == 1 ? "" : "s", list_text(&list));
    else
        say(finding, of_process(chain->witness->ending) ? " has stood still"
                                                        : " stands still and names no rank that it waits for,");
    say_where(finding, chain->witness->member);
}

static void say_last(struct finding *finding, const struct member *member, uint64_t now)
{
    const struct blackbox_comm *comm = member->comm;
    if (!comm->op_count && member->box->alive)
        say(finding, "; it has called nothing yet");
    if (!comm->op_count)
        return;
    const struct blackbox_op *last = &comm->ops[comm->op_count - 1];
    say(finding, "; its last: %s, %s", phrase_call(last).text, phrase_state(last));
    if (last->end && now > last->end)
        say(finding, " %s ago", phrase_time(now - last->end).text);
}

/* A staged member: data of its GPU goes through the host, whose part of a call begins when the GPU has come to it. */
static bool is_staged(const struct member *member)
{
    return member->comm->memory[WIRE_MEMORY_SLICES] != 0;
}

static void say_end(struct finding *finding, const struct victim *victim)
{
    const struct member *end = victim->end, *waiter = victim->member;
    bool collective = waiter->op->collective < WIRE_SEND;
    say_who(finding, end);
    if (victim->ending == FINDING_REPLACED)
        say(finding, " has become another program (%s) and", end->facts->detail);
    else if (victim->ending == FINDING_STOPPED)
        say(finding, " is %s and", end->facts->frozen ? "frozen" : "stopped");
    else if (victim->ending == FINDING_TRACED && end->facts->tracer)
        say(finding, " is held by process %u (%s), a debugger or tracer, and", end->facts->tracer,
            end->facts->tracer_name);
    else if (victim->ending == FINDING_TRACED)
        say(finding, " is held by a debugger or tracer and");
    else if (victim->ending == FINDING_BEHIND && collective && !member_has_called(end, waiter->op))
        say(finding, is_staged(end) ? ", or its GPU, has not come to %s and" : " has not called %s and",
            phrase_call(waiter->op).text);
    else if (victim->ending == FINDING_BEHIND && collective)
        say(finding, " has called %s itself but", phrase_call(waiter->op).text);
    else if (victim->ending == FINDING_FAILED)
        say(finding, " has given up the communicator (%s) and", end->comm->sentence);
    else if (victim->ending == FINDING_STILL && end != waiter && end->op->device && end->op->state == WIRE_OP_ENQUEUED)
        say(finding,
            *end->op->algorithm ? ", whose GPU has not been seen to come to %s,"
                                : " has not returned from its call of %s and",
            phrase_call(end->op).text);
}

/* Describes a message of which both ends wait for each other. */
static void say_message(struct finding *finding, const struct member *receiver)
{
    const struct member *sender = receiver->next;
    struct rank_list from = list_of(sender);
    say_who(finding, receiver);
    say(finding, " does not get what rank%s sends: they wait for each other in %s", list_text(&from),
        phrase_call(sender->op).text);
    say(finding, " and %s of communicator %s", phrase_call(receiver->op).text, phrase_name(receiver->comm));
    say_for(finding, receiver);
    finding->culprit.peer = sender->comm->rank;
}

static void say_unread(struct finding *finding, const struct chain *chain)
{
    const struct member *end = chain->witness->end;
    if (end->op->collective == WIRE_RECV) {
        say_message(finding, end);
        return;
    }
    const struct blackbox_op *theirs = end->next->op;
    struct rank_list from = list_of(end->next);
    say_who(finding, end);
    say(finding, " does not get on, though rank%s, whom it waits for in round %u of %s, ", list_text(&from),
        end->op->wait_round + 1, phrase_call(end->op).text);
    if (!theirs)
        say(finding, "has ended that already; ");
    else if (theirs->seq == end->op->seq)
        say(finding, "is in round %u already; ", theirs->wait_round + 1);
    else
        say(finding, "is in %s already; ", phrase_call(theirs).text);
    say_waiters(finding, chain, "it is waited for by");
    finding->culprit.peer = end->next->comm->rank;
}

static void say_circle(struct finding *finding, const struct chain *chain)
{
    struct rank_list list = with_witness(chain);
    say(finding, "%s%s wait for each other", list.count == 1 ? "rank" : "ranks", list_text(&list));
    say_where(finding, chain->witness->member);
}

/* ---- Evidence ---- */

/* What a silent agent has not reported may have changed since. */
static void prove_silence(struct finding *finding, const struct member *end)
{
    if (end->facts->unheard < UNHEARD_NS)
        return;
    finding->confidence = POSSIBLE;
    prove(finding, "nothing has been heard of its host %s for %s: look whether the host and its agent live",
          end->box->header.host, phrase_time(end->facts->unheard).text);
}

/* State D: a debugger would wait for the process, too, and no signal ends it. */
static void prove_blocked(struct finding *finding, const struct member *end)
{
    uint32_t pid = end->box->header.pid;
    prove(finding, "/proc/%u/stat says D: it waits in the kernel, for a disk, a network file system or a device%s%s",
          pid, *end->facts->detail ? ", in " : "", end->facts->detail);
    snprintf(finding->remedy, sizeof finding->remedy,
             "no debugger gets in, and it may not end before that is over: cat /proc/%u/stack as root, dmesg, and "
             "what it has open (ls -l /proc/%u/fd)",
             pid, pid);
}

static void prove_process(const struct scene *scene, struct finding *finding, const struct member *end)
{
    const struct process_facts *now = end->facts, *before = facts_before(scene, end);
    const struct processor_share share = share_of(scene, end);
    if (now->frozen)
        prove_frozen(finding, end);
    else if (now->state == PROCESS_STOPPED || now->state == PROCESS_TRACED)
        prove(finding, "/proc/%u/stat says %s", end->box->header.pid,
              now->state == PROCESS_STOPPED ? "T (stopped)" : "t (traced)");
    else if (now->state == PROCESS_BLOCKED && before && before->state == PROCESS_BLOCKED)
        prove_blocked(finding, end);
    else if (share.time)
        prove(finding, "process %u used %s of processor in the last %s: it %s", end->box->header.pid,
              phrase_time(share.ran).text, phrase_time(share.time).text,
              share_is_starved(&share) ? "is ready to run and gets none"
              : share_computes(&share) ? "computes"
                                       : "sleeps, or waits for something");
    if (now->stopped_parent)
        prove(finding, "process %u, which has started it, is stopped: it may wait until that reads what it prints",
              now->stopped_parent);
    prove_system(scene, finding, end);
}

/* The other calls that wait for the same end: one for each name of communicators, so that the finding stays
 * readable. */
static void prove_others(struct finding *finding, const struct chain *chain)
{
    const struct victim *victims = chain->victims;
    const struct blackbox_comm *shown[OTHERS_SHOWN];
    size_t count = 0;
    for (size_t i = 0, end; i < chain->count && count < OTHERS_SHOWN; i = end) {
        struct rank_list list = {0};
        const struct member *other = victims[i].member;
        bool new = !same_call(other, chain->witness->member);
        for (size_t j = 0; j < count; j++)
            new = new &&strcmp(shown[j]->name, other->comm->name) != 0;
        for (end = i; end < chain->count && same_call(victims[end].member, other); end++)
            if (!is_end(&victims[end]))
                list_member(&list, victims[end].member);
        if (!new || !list.count)
            continue;
        prove(finding, "held up by that: rank%s%s in %s of communicator %s", list.count == 1 ? "" : "s",
              list_text(&list), phrase_step(other->op).text, phrase_name(other->comm));
        shown[count++] = other->comm;
    }
}

static void prove_wait(struct finding *finding, const struct member *waiter)
{
    const struct blackbox_op *op = waiter->op;
    if (op->device || !op->wait_since || op->wait_peer < 0)
        return;
    const struct member *peer = scene_find(waiter->group, op->wait_peer);
    struct rank_list who = list_of(waiter), whom = {0};
    if (peer)
        list_member(&whom, peer);
    else
        list_rank(&whom, op->wait_peer);
    prove(finding, "rank%s waits for rank%s in round %u%s%s of %s, %s", list_text(&who), list_text(&whom),
          op->wait_round + 1, op->rounds ? " of " : "", op->rounds ? phrase_number(op->rounds).text : "",
          phrase_step(op).text,
          waiter->box->now > op->wait_since ? phrase_time(waiter->box->now - op->wait_since).text : "since now");
}

static void prove_all(const struct scene *scene, struct finding *finding, const struct chain *chain)
{
    const struct member *waiter = chain->witness->member, *end = chain->witness->end;
    if (chain->witness->ending == FINDING_DEAD && !end->group->lives)
        prove(finding, "all these processes are dead; this one's black box ends %s before the last one's",
              waiter->box->now > end->box->now ? phrase_time(waiter->box->now - end->box->now).text : "some time");
    if (chain->witness->ending == FINDING_DEAD)
        prove_memory(scene, finding, end);
    if (chain->witness->ending != FINDING_ABSENT)
        prove_silence(finding, end);
    if (end->box->alive && chain->witness->ending != FINDING_ABSENT)
        prove_process(scene, finding, end);
    if (chain->witness->ending == FINDING_BEHIND && may_come_yet(chain->witness))
        prove(finding, "between two calls it was away for %s before: it may come yet",
              phrase_time(longest_pause(end->comm)).text);
    if (chain->witness->ending != FINDING_ABSENT)
        prove_stage(finding, end->box);
    if (finding_row(finding->kind)->class == CLASS_COMMUNICATION_HANG || finding->kind == FINDING_STILL) {
        prove_laggards(finding, end, scene->snapshot->stuck);
        if (end->next && end->next->process != end->process)
            prove_laggards(finding, end->next, scene->snapshot->stuck);
    }
    prove_wait(finding, waiter);
    prove_others(finding, chain);
    if (scene->snapshot->before.count && waiter->box->alive)
        prove(finding, "none of these ranks moved between two looks");
}

/* ---- Findings ---- */

/* An end that waits for nobody: it lacks a call, or it has made the call, and its data lacks. */
static enum finding_kind kind_of(const struct victim *victim)
{
    const struct blackbox_op *op = victim->member->op;
    bool called = op->collective < WIRE_SEND && member_has_called(victim->end, op);
    return victim->ending == FINDING_BEHIND && called ? FINDING_AHEAD : victim->ending;
}

static enum confidence confidence_of(const struct victim *victim)
{
    if (victim->ending == FINDING_BEHIND && may_come_yet(victim))
        return POSSIBLE;
    if (victim->ending == FINDING_DEAD && !victim->end->group->lives)
        return LIKELY; /* only times tell */
    if (of_process(victim->ending))
        return CERTAIN;
    if (victim->ending == FINDING_STILL || victim->ending == FINDING_ABSENT || victim->ending == FINDING_CIRCLE)
        return POSSIBLE;
    return LIKELY;
}

static void describe(struct finding *finding, const struct chain *chain)
{
    const struct victim *witness = chain->witness;
    switch (witness->ending) {
    case FINDING_ABSENT:
        say_absent(finding, witness->end, witness->end->awaited,
                   witness->end->box->dumped ? "it left no dump"
                                             : "no black box here: on another host, not traced, or never started");
        say_waiters(finding, chain, " is waited for by");
        break;
    case FINDING_CIRCLE:
        if (circle_in_several(witness->end)) {
            say(finding, "ranks wait for each other, some for a message that may be lost:");
            circle_say_each(finding, witness->end);
        } else if (!circle_in_one_call(witness->end)) {
            say(finding, "ranks wait for each other in calls that do not fit:");
            circle_say_each(finding, witness->end);
        } else {
            say_circle(finding, chain);
        }
        break;
    case FINDING_ORDER:
        say(finding, "ranks use communicators in different order, or one has left out or repeated a call, and wait for "
                     "each other:");
        circle_say_each(finding, witness->end);
        break;
    case FINDING_UNREAD:
        say_unread(finding, chain);
        break;
    default:
        say_end(finding, witness);
        say_waiters(finding, chain, " is waited for by");
        if (witness->ending == FINDING_BEHIND || witness->ending == FINDING_DEAD || witness->ending == FINDING_REPLACED)
            say_last(finding, witness->end, witness->member->box->now);
    }
}

/* Does a finding about the calls or the failure of its communicator have the cause already? */
static bool told(const struct scene *scene, const struct findings *findings, const struct victim *victim)
{
    for (size_t i = 0; i < findings->count && of_process(victim->ending); i++)
        if (findings->items[i].culprit.process == process_key(victim->end->box) &&
            finding_is_hang(findings->items[i].kind))
            return true;
    /* a process that has heard of a failure calls no more, in other communicators either */
    for (const struct member *at = scene->of_process[victim->end->process]; at && !of_process(victim->ending);
         at = at->sibling)
        if (at->group->told)
            return true;
    return false;
}

static void say_starved(const struct scene *scene, struct finding *finding, const struct chain *chain)
{
    const struct processor_share share = share_of(scene, chain->witness->end);
    finding->kind = FINDING_STARVED;
    say_who(finding, chain->witness->end);
    say(finding,
        " gets no processor: in %s a thread of it was ready to run without one for %s, and all of them ran for %s;",
        phrase_time(share.time).text, phrase_time(share.delayed).text, phrase_time(share.ran).text);
    say_waiters(finding, chain, " it is waited for by");
}

/* ---- Absences ---- */

static void say_why(struct finding *finding, const struct blackbox *box, const struct absence *absence)
{
    if (absence->why == ABSENCE_SAID)
        say(finding, "%s%s, as it has said, for %s at most", *box->expected ? " for " : "", box->expected,
            phrase_time(box->expected_until - box->expected_since).text);
    else if (absence->why == ABSENCE_USUAL)
        say(finding, " as it has been %s time%s before, for %s at most", phrase_number(absence->times).text,
            absence->times == 1 ? "" : "s", phrase_time(absence->longest).text);
    else
        say(finding, " and works; its pauses before were shorter");
}

/* "rank 0 (process 812) is outside of calls for 12.0 s, as it has been 12 times before, for 26.0 s at most; ..." */
static void say_away(struct finding *finding, const struct chain *chain, const struct absence *absence)
{
    const struct member *end = chain->witness->end;
    say_who(finding, end);
    say(finding, " is outside of calls for %s,", phrase_time(absence->away).text);
    say_why(finding, end->box, absence);
    say_waiters(finding, chain, "; it is waited for by");
    if (absence->why == ABSENCE_BUSY && absence->moved >= MOVES_BYTES)
        prove(finding, "process %u has read and written %s bytes between the looks", end->box->header.pid,
              phrase_number(absence->moved).text);
    if (absence->like && absence->like->before >= 0)
        prove(finding, "the latest pause like it was between %s and %s of %s elements, and ended %s ago",
              blackbox_collective_name(absence->like->before), blackbox_collective_name(absence->like->after),
              phrase_number(absence->like->after_count).text,
              end->box->now > absence->like->latest ? phrase_time(end->box->now - absence->like->latest).text : "0 s");
}

static void prove_unusual(struct finding *finding, const struct chain *chain, const struct absence *absence)
{
    const struct blackbox *box = chain->witness->end->box;
    if (chain->witness->ending != FINDING_BEHIND || !box->alive || finding->kind != FINDING_BEHIND || !box->pause_count)
        return;
    if (box->expected_until && box->expected_since + absence->away >= box->now)
        prove(finding, "the pause that it has said it makes (%s) is over",
              *box->expected ? box->expected : "without a word for what");
    prove(finding, "it is outside of calls for %s; of %s pauses before the longest was %s",
          phrase_time(absence->away).text, phrase_number(absence->times).text, phrase_time(absence->longest).text);
}

/* A rank that does not come, and waits until its launcher reads what it prints. One finding for all of them. */
static void tell_launcher(struct findings *findings, const struct chain *chain, uint32_t launcher)
{
    struct finding *finding = launcher_add(findings, chain->witness->end->comm, launcher, chain->count);
    if (!finding)
        return;
    say(finding, ", and ");
    say_who(finding, chain->witness->end);
    say_waiters(finding, chain, " is waited for by");
    say(finding, ": it may wait until its launcher reads what it prints");
}

static void find_one(struct scene *scene, struct findings *findings, const struct chain *chain)
{
    const struct victim *witness = chain->witness;
    bool starved = only_starved(scene, witness) && !share_is_crowded_out(scene, witness->end);
    if (told(scene, findings, witness) || may_get_on(scene, witness))
        return;
    const struct absence absence = absence_of(scene, witness);
    enum finding_kind kind = kind_of(witness);
    bool away = kind == FINDING_BEHIND && !starved && absence.why != ABSENCE_UNUSUAL;
    uint32_t launcher = kind == FINDING_BEHIND ? launcher_stopped(scene, witness->end) : 0;
    if (launcher) {
        tell_launcher(findings, chain, launcher);
        return;
    }
    struct habit habit;
    const struct member *odd = circle_odd(scene, kind, witness->end, &habit);
    kind = away ? FINDING_AWAY : odd ? FINDING_ORDER : kind;
    struct finding *finding =
        witness->ending == FINDING_ABSENT
            ? finding_add_rank(findings, kind, witness->end->comm, witness->end->awaited)
            : finding_add(findings, kind, odd ? LIKELY : confidence_of(witness), odd ? odd : witness->end);
    finding->victims = chain->count;
    if (witness->ending == FINDING_ABSENT)
        finding->culprit.world_rank = world_rank_of(scene, witness->end, witness->end->awaited);
    bool circle = witness->ending == FINDING_CIRCLE || witness->ending == FINDING_ORDER;
    if (circle && !odd)
        finding->culprit = (struct culprit){.comm = witness->end->comm->id, .rank = -1, .world_rank = -1, .peer = -1};
    if (odd)
        circle_say_odd(finding, odd, witness->end, &habit);
    else if (away)
        say_away(finding, chain, &absence);
    else if (starved)
        say_starved(scene, finding, chain);
    else
        describe(finding, chain);
    prove_unusual(finding, chain, &absence);
    prove_all(scene, finding, chain);
}

/* The dead member that a stopped one may wait for, which is another cause. NULL: none. */
static const struct member *dead_behind(const struct member *member)
{
    const struct member *peer = (member->ending == FINDING_STOPPED || member->ending == FINDING_TRACED)
                                    ? scene_find(member->group, member->awaited)
                                    : NULL;
    return peer && peer->dead ? peer : NULL;
}

static size_t add_victims(const struct scene *scene, const struct member *member, struct victim *victims)
{
    const struct member *dead = dead_behind(member);
    victims[0] = victim_of(scene, member);
    if (dead)
        victims[1] = (struct victim){member, dead, dead->ending, dead->process, 0};
    return dead ? 2 : 1;
}

/* A rank that moves is no cause beside a certain one: it is on its way to wait there. */
static bool has_certain(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].confidence == CERTAIN)
            return true;
    return false;
}

static void drop_ahead(const struct scene *scene, struct findings *findings, size_t from)
{
    size_t kept = from;
    bool certain = has_certain(findings);
    for (size_t i = from; i < findings->count; i++)
        if ((findings->items[i].kind != FINDING_AHEAD || !certain) && !circle_tells(scene, findings, from, i))
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

/* A later operation of a process is no finding: where a stream does not get on, nothing behind it does. */
static void drop_later(struct findings *findings, size_t from)
{
    bool later[FINDINGS_MOST] = {false};
    size_t kept = from;
    for (size_t i = from; i < findings->count; i++)
        for (size_t j = from; j < findings->count && findings->items[i].kind == FINDING_STILL; j++) {
            const struct finding *one = &findings->items[i], *other = &findings->items[j];
            later[i] |= other->culprit.process == one->culprit.process &&
                        (other->victims > one->victims || (other->victims == one->victims && j < i));
        }
    for (size_t i = from; i < findings->count; i++)
        if (!later[i])
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

void rule_hang(struct scene *scene, struct findings *findings)
{
    size_t from = findings->count;
    struct victim *victims = calloc(2 * scene->count + 1, sizeof *victims);
    size_t count = 0, run = 1;
    for (size_t i = 0; victims && i < scene->count; i++)
        if (scene->members[i].stuck)
            count += add_victims(scene, &scene->members[i], victims + count);
    if (count)
        qsort(victims, count, sizeof *victims, by_end);
    for (size_t i = 0; i < count; i += run) {
        for (run = 1; i + run < count && by_key(&victims[i], &victims[i + run]) == 0;)
            run++;
        find_one(scene, findings, &(struct chain){victims + i, choose_witness(victims + i, run), run});
        scene->steps += run;
    }
    drop_ahead(scene, findings, from);
    drop_later(findings, from);
    free(victims);
}
