/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A turn counts when all members have finished it: each member that learns so goes on at once. When one is missing, the
 * others ask. A member that has promised finishes nothing more. So the least of what those who answered have
 * finished is at least what any member knows to count, and each of them has that result. An asker proposes this turn
 * and those who answered. The value holds when all of them have accepted. A later asker hears of an accepted value from
 * those who answer, and must propose that very value. Of two that answered, and do not reach one another, one is left
 * out: together they would finish no turn.
 */
#include "comm/consent.h"

#include <string.h>

void consent_begin(struct consent *consent, int members, int me, int minimum, const int *unit, struct consent_set *cut,
                   consent_say *say, void *context)
{
    memset(consent, 0, sizeof *consent);
    consent->members = members;
    consent->me = me;
    consent->minimum = minimum;
    consent->unit = unit;
    consent->cut = cut;
    consent->say = say;
    consent->context = context;
}

bool consent_finish(struct consent *consent, uint32_t turn)
{
    if (consent->open || consent->asked)
        return false;
    consent->finished = turn;
    return true;
}

static void say_all(const struct consent *consent, const struct consent_word *word, const struct consent_set *set)
{
    for (int member = 0; member < consent->members; member++)
        if (member != consent->me && (!set || consent_has(set, member)))
            consent->say(consent->context, member, word);
}

void consent_tell(const struct consent *consent)
{
    struct consent_word word = {.kind = CONSENT_DECIDED, .value = consent->value};
    say_all(consent, &word, NULL);
}

static void say_decided(const struct consent *consent, int to)
{
    struct consent_word word = {.kind = CONSENT_DECIDED, .value = consent->value};
    consent->say(consent->context, to, &word);
}

static void consent_decide(struct consent *consent, const struct consent_value *value)
{
    consent->value = *value;
    consent->decided = true;
    consent->ballot = 0;
}

/* ---- One that answers ---- */

static struct consent_word promise(const struct consent *consent)
{
    struct consent_word word = {.kind = CONSENT_PROMISE,
                                .ballot = consent->promised,
                                .finished = consent->finished,
                                .accepted = consent->accepted,
                                .at = consent->at,
                                .value = {.set = consent->lost}};
    if (consent->accepted)
        word.value = consent->value;
    return word;
}

static void say_promise(const struct consent *consent, int to)
{
    struct consent_word word = promise(consent);
    consent->say(consent->context, to, &word);
}

/* Another one asks, or has, and is heard more than this one. */
static void consent_follow(struct consent *consent, uint32_t ballot)
{
    if (ballot > consent->promised && consent->ballot != ballot)
        consent->ballot = 0;
    consent->promised = ballot > consent->promised ? ballot : consent->promised;
}

/* The same ask may come again: the answer was lost. One whose ballot is too low hears which is not. */
static void hear_ask(struct consent *consent, uint32_t ballot)
{
    consent_follow(consent, ballot);
    say_promise(consent, consent_asker(consent, ballot));
}

void consent_open(struct consent *consent)
{
    if (consent->open)
        return;
    consent->open = true;
    if (consent->asked)
        hear_ask(consent, consent->asked);
}

void consent_enter(struct consent *consent, uint32_t turn)
{
    consent->at = turn;
    if (turn && consent->asked)
        consent_open(consent);
}

/* A member that is in no call may wait there for one that asks, or has answered, in a turn that both have finished. It
 * is not late for that turn, and answers. */
static void hear_first_ask(struct consent *consent, const struct consent_word *word)
{
    consent->asked = word->ballot > consent->asked ? word->ballot : consent->asked;
    if (!consent->at && (!word->at || word->at > consent->finished))
        return;
    consent_open(consent);
    if (word->ballot < consent->asked)
        hear_ask(consent, word->ballot);
}

static void hear_proposal(struct consent *consent, int from, const struct consent_word *word)
{
    if (word->ballot < consent->promised) {
        say_promise(consent, from);
        return;
    }
    struct consent_word answer = {.kind = CONSENT_ACCEPT, .ballot = word->ballot};
    consent->promised = consent->accepted = word->ballot;
    consent->value = word->value;
    consent->say(consent->context, from, &answer);
}

/* ---- One that asks ---- */

/* What an answer says: its own too. */
static void consent_take(struct consent *consent, int from, const struct consent_word *word)
{
    consent_add(&consent->answered, from);
    consent->turns[from] = word->finished;
    if (word->accepted > consent->best) {
        consent->best = word->accepted;
        consent->proposal = word->value;
    }
    for (int member = 0; member < consent->members && !word->accepted; member++)
        if (member != from && consent_has(&word->value.set, member)) {
            consent_add(&consent->cut[from], member);
            consent_add(&consent->cut[member], from);
        }
    if (word->at && word->at < consent->least) {
        consent->least = word->at;
        consent_repeat(consent);
    }
}

void consent_ask(struct consent *consent)
{
    uint32_t round = (consent->promised + (uint32_t)consent->members - 1) / (uint32_t)consent->members;
    consent->ballot = round * (uint32_t)consent->members + (uint32_t)consent->me + 1;
    consent->promised = consent->ballot;
    consent->proposes = false;
    consent->best = 0;
    consent->least = consent->at;
    memset(&consent->answered, 0, sizeof consent->answered);
    memset(&consent->accepts, 0, sizeof consent->accepts);
    memset(consent->cut, 0, (size_t)consent->members * sizeof *consent->cut);
    struct consent_word mine = promise(consent);
    consent_take(consent, consent->me, &mine);
    consent_repeat(consent);
}

void consent_repeat(const struct consent *consent)
{
    struct consent_word word = {.kind = consent->proposes ? CONSENT_PROPOSE : CONSENT_ASK,
                                .ballot = consent->ballot,
                                .at = consent->least,
                                .value = consent->proposal};
    if (!consent->proposes)
        memset(&word.value, 0, sizeof word.value);
    if (consent->ballot)
        say_all(consent, &word, consent->proposes ? &consent->answered : NULL);
}

bool consent_awaits(const struct consent *consent, int member)
{
    return consent->proposes ? consent_has(&consent->answered, member) && !consent_has(&consent->accepts, member)
                             : !consent_has(&consent->answered, member);
}

int consent_units(const struct consent *consent, const struct consent_set *set, struct consent_set *whole)
{
    struct consent_set broken = {{0}}, all = {{0}}, here = {{0}};
    int units = 0;
    for (int member = 0; member < consent->members; member++)
        if (!consent_has(set, member))
            consent_add(&broken, consent->unit[member]);
    for (int member = 0; member < consent->members; member++) {
        if (consent_has(&broken, consent->unit[member]))
            continue;
        consent_add(&all, member);
        units += !consent_has(&here, consent->unit[member]);
        consent_add(&here, consent->unit[member]);
    }
    if (whole)
        *whole = all;
    return units;
}

static int count_cut(const struct consent *consent, const struct consent_set *among, int member)
{
    int count = 0;
    for (int i = 0; i < CONSENT_WORDS; i++)
        count += __builtin_popcountll(consent->cut[member].word[i] & among->word[i]);
    return count;
}

/* The first to go is the one that does not reach most of the others; of equals the last, and never the asker. */
static void leave_out_cut(const struct consent *consent, struct consent_set *among)
{
    for (int most, worst;;) {
        most = worst = 0;
        for (int member = 0; member < consent->members; member++) {
            int count = member != consent->me && consent_has(among, member) ? count_cut(consent, among, member) : 0;
            worst = count && count >= most ? member : worst;
            most = count > most ? count : most;
        }
        if (!most)
            return;
        consent_remove(among, worst);
    }
}

static struct consent_value choose(const struct consent *consent, uint64_t child)
{
    struct consent_value value = {.turn = UINT32_MAX, .child = child};
    struct consent_set among = consent->answered;
    leave_out_cut(consent, &among);
    consent_units(consent, &among, &value.set);
    for (int member = 0; member < consent->members; member++)
        if (consent_has(&value.set, member) && consent->turns[member] < value.turn)
            value.turn = consent->turns[member];
    return value;
}

int consent_rest(const struct consent *consent)
{
    const struct consent_value value = choose(consent, 0);
    return consent_units(consent, &value.set, NULL);
}

static void see_accepted(struct consent *consent)
{
    for (int member = 0; member < consent->members; member++)
        if (consent_awaits(consent, member))
            return;
    consent_decide(consent, &consent->proposal);
    consent_tell(consent);
}

bool consent_conclude(struct consent *consent, uint64_t child)
{
    struct consent_value value = consent->best ? consent->proposal : choose(consent, child);
    if (consent_units(consent, &consent->answered, NULL) < consent->minimum ||
        consent_units(consent, &value.set, NULL) < consent->minimum)
        return false;
    consent->proposal = value;
    consent->proposes = true;
    consent->accepted = consent->ballot;
    consent->value = consent->proposal;
    consent_add(&consent->accepts, consent->me);
    consent_repeat(consent);
    see_accepted(consent);
    return true;
}

/* ---- All ---- */

/* A word of one that has not decided: the answer is the end. */
static void hear_late(const struct consent *consent, int from, const struct consent_word *word)
{
    if (word->kind != CONSENT_DECIDED)
        say_decided(consent, from);
}

/* Ballots grow by one for each time that somebody asks: a number that is near the end of its type is not one. */
static bool is_asker(const struct consent *consent, int from, uint32_t ballot)
{
    return ballot && ballot < UINT32_MAX / 2 && consent_asker(consent, ballot) == from;
}

void consent_hear(struct consent *consent, int from, const struct consent_word *word)
{
    bool mine = consent->ballot && word->ballot == consent->ballot;
    if ((word->kind == CONSENT_ASK || word->kind == CONSENT_PROPOSE) && !is_asker(consent, from, word->ballot))
        return;
    if (consent->decided) {
        hear_late(consent, from, word);
        return;
    }
    switch (word->kind) {
    case CONSENT_ASK:
        if (consent->open)
            hear_ask(consent, word->ballot);
        else
            hear_first_ask(consent, word);
        break;
    case CONSENT_PROMISE:
        if (mine && !consent->proposes)
            consent_take(consent, from, word);
        else if (consent->ballot && word->ballot < UINT32_MAX / 2)
            consent_follow(consent, word->ballot);
        break;
    case CONSENT_PROPOSE:
        if (consent->open)
            hear_proposal(consent, from, word);
        break;
    case CONSENT_ACCEPT:
        if (mine && consent->proposes) {
            consent_add(&consent->accepts, from);
            see_accepted(consent);
        }
        break;
    case CONSENT_DECIDED:
        consent_decide(consent, &word->value);
        break;
    default:
        break;
    }
}
