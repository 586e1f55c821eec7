/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long messages of plain data that go straight to where they are wanted. The receiver of a stripe invites: a packet
 * says where in its user's memory the message is to go, or nothing. The sender waits for it. If it reaches that memory
 * it stores the stripe there, all at once, and announces its last chunk; the receiver has nothing left to copy. If not,
 * chunks go through slots (stream.cuh). A word tells which, behind the same fence as the first announcement. Either way
 * both ends count the same chunks, and the last one is acknowledged, so that slots go on as if all had gone through
 * them.
 *
 *   receiver                        sender
 *   token in the stripe's head
 *   invitation        ------------> looks up where that is mapped
 *                     <------------ "straight", the stripe but for its head; reads the token meanwhile
 *                     <------------ the head, fence, last chunk's number
 *   acknowledges it   ------------>
 *
 * Where the token is not there, and does not come, all goes through slots, once more.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_INVITE_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_INVITE_CUH

#include <invitation.cuh>
#include <stream.cuh>

#define INVITE_HEAD 128 /* bytes of a stripe that are stored last, a whole line; the token is in them */

enum invite_way { INVITE_OPEN, INVITE_SLOTS, INVITE_STRAIGHT, INVITE_GIVEN_UP };

/* In shared memory, one for each half of a block. */
struct invite_state {
    enum invite_way way[2];
    unsigned char *to; /* the sending half's */
};

/* The only packet of a pair and stripe that is on its way. Numbers 0 and 1 have the same flag: they lie in different
 * places. */
DEVICE struct packet *invite_place(const struct stream &s)
{
    const bool out = s.direction == STREAM_OUT;
    const int sender = out ? s.team->rank : s.peer, receiver = out ? s.peer : s.team->rank;
    return &window_of(*s.team, sender)->plain_invited[s.stripe][receiver][(s.number + 1) % LL_SLOTS];
}

DEVICE uint64_t invite_token(const struct stream &s)
{
    const bool out = s.direction == STREAM_OUT;
    return invite_token_of(s.number + 1, s.stripe, out ? s.team->rank : s.peer, out ? s.peer : s.team->rank);
}

/* ---- one thread of either end ---- */

DEVICE uint64_t invite_of(const struct kernel_exchange &what, const struct stream &s)
{
    return s.bytes >= INVITE_LEAST ? what.invite[s.peer] : 0;
}

/* The token may come later than the invitation. */
DEVICE void invite_send(const struct kernel_exchange &what, const struct stream &s)
{
    const uint64_t invitation = invite_of(what, s);
    if (invitation)
        store_word(invite_token_at(s.user), invite_token(s));
    ll_put(invite_place(s), s.number + 1, invitation);
}

/* Is there an invitation? */
DEVICE bool invite_look(const struct stream &s, uint64_t *invitation)
{
    struct packet x;
    load_halves_acquire(invite_place(s)->half, &x.half[0], &x.half[1]);
    *invitation = ll_unit(x);
    return ll_is(x, s.number + 1);
}

/* Where the stripe may be stored, if the token is there; NULL: through slots. */
DEVICE unsigned char *invite_target(const struct kernel_exchange &what, const struct stream &s, uint64_t invitation)
{
    unsigned char *at = invite_reach(invitation, what.mappings, s.peer);
    return at ? at + (s.user - (const unsigned char *)what.send[s.peer]) : NULL;
}

/* What says that this message goes straight: never 0. */
DEVICE uint32_t invite_straight_word(const struct stream &s)
{
    return (s.number + 1) << 1 | 1;
}

DEVICE void invite_tell(const struct stream &s, bool straight)
{
    store_flag(&window_of(*s.team, s.peer)->plain_straight[s.stripe][s.team->rank],
               straight ? invite_straight_word(s) : 0);
}

/* The word that was read in the token's place a while ago is right, or becomes so. */
DEVICE bool invite_confirm(const struct stream &s, unsigned char *to, uint64_t seen)
{
    const uint64_t until = clock_of_gpu() + INVITE_ANSWER;
    while (seen != invite_token(s) && clock_of_gpu() < until)
        seen = load_word(invite_token_at(to));
    return seen == invite_token(s);
}

/* Stores the whole stripe, but for its head. */
DEVICE void invite_store(const struct stream &s, unsigned char *to)
{
    copy_by<STREAM_VECTORS>(to + INVITE_HEAD, s.user + INVITE_HEAD, s.bytes - INVITE_HEAD, s.thread_group);
}

/* Stores the head behind the rest. False: the token is not there, so what was stored is nobody's. */
DEVICE bool invite_store_head(const struct stream &s, unsigned char *to, uint64_t seen)
{
    const struct thread_group alone = {0, 1};
    if (!invite_confirm(s, to, seen)) {
        invite_tell(s, false);
        return false;
    }
    copy_by<STREAM_VECTORS>(to, s.user, INVITE_HEAD, alone);
    return true;
}

/* The sender has an invitation: tells the receiver what comes of it. */
DEVICE enum invite_way invite_accept(const struct kernel_exchange &what, const struct stream &s, uint64_t invitation,
                                     unsigned char **to)
{
    *to = invite_target(what, s, invitation);
    invite_tell(s, *to != NULL);
    return *to ? INVITE_STRAIGHT : INVITE_SLOTS;
}

/* The receiver has seen the first announcement, or asks before that whether it will be of a whole stripe. */
DEVICE enum invite_way invite_hear(const struct stream &s)
{
    const struct window *mine = window_of(*s.team, s.team->rank);
    return load_relaxed(&mine->plain_straight[s.stripe][s.peer]) == invite_straight_word(s) ? INVITE_STRAIGHT
                                                                                            : INVITE_SLOTS;
}

/*
 * The receiver has given up, and its user's memory may be another's soon: a sender that has not begun to store there
 * shall not begin, and one that has begun is waited for.
 */
DEVICE void invite_revoke(const struct kernel_exchange &what, const struct stream &s)
{
    const struct window *mine = window_of(*s.team, s.team->rank);
    uint32_t turn = 0;
    uint64_t until = clock_of_gpu() + INVITE_ANSWER;
    if (!invite_of(what, s))
        return;
    store_word(invite_token_at(s.user), ~invite_token(s));
    ll_put(invite_place(s), s.number + 1, 0);
    while (invite_hear(s) == INVITE_SLOTS && clock_of_gpu() < until)
        pause_spin(turn++);
    if (invite_hear(s) == INVITE_SLOTS)
        return;
    until = clock_of_gpu() + INVITE_STORE_NS;
    while (!reached(load_acquire(&mine->plain_arrived[s.stripe][s.peer]), s.number + 1) && clock_of_gpu() < until)
        pause_spin(turn++);
}

/* Ends the stripe behind all that the half has stored, as if all chunks had gone through slots. */
DEVICE void invite_close(const struct stream &s)
{
    struct window *to = window_of(*s.team, s.peer);
    if (s.direction == STREAM_OUT) {
        fence_all();
        store_flag(&to->plain_arrived[s.stripe][s.team->rank], s.number + s.steps);
    } else {
        store_ack(&to->plain_acked[s.stripe][s.team->rank], s.number + s.steps);
    }
    *stream_number(s) = s.number + s.steps;
}

/* Counts when the stripe is done: waiting for the old count would hold up the stripe. */
DEVICE void invite_count(const struct kernel_exchange &what, const struct stream &s, enum invite_way way)
{
    if (s.direction == STREAM_OUT && what.mappings)
        ++(way == INVITE_STRAIGHT ? what.mappings->straight : what.mappings->slots)[s.stripe][s.peer];
}

/* ---- half a block ---- */

DEVICE enum invite_way invite_settle(const struct kernel_exchange &what, const struct stream &s, unsigned char **to)
{
    const struct window *mine = window_of(*s.team, s.team->rank);
    struct waiting w = {s.team->abort, 0};
    uint64_t invitation;
    if (s.direction == STREAM_IN) {
        invite_send(what, s);
        if (wait_flag(&mine->plain_arrived[s.stripe][s.peer], s.number + 1, s.team->abort, s.peer))
            return invite_hear(s);
        invite_revoke(what, s);
        return INVITE_GIVEN_UP;
    }
    while (!invite_look(s, &invitation))
        if (!wait_on(&w, s.peer))
            return INVITE_GIVEN_UP;
    return invite_accept(what, s, invitation, to);
}

/* The same answer in all threads, when all have stored, and have read what the next stripe overwrites. */
DEVICE bool invite_straight(const struct stream &s, const struct invite_state *invite)
{
    bool good = true;
    if (s.direction == STREAM_OUT) {
        unsigned char *to = invite->to;
        const bool first = s.thread_group.thread == 0;
        const uint64_t seen = first ? load_word(invite_token_at(to)) : 0;
        invite_store(s, to);
        good = !first || invite_store_head(s, to, seen);
    }
    return !half_barrier_or(s.direction, !good);
}

/* Stores a whole stripe. False, in all threads of the half: given up. */
DEVICE bool invite_run(const struct kernel_exchange &what, struct stream *s, struct stages_state *state,
                       struct invite_state *invite)
{
    const bool first = s->thread_group.thread == 0;
    unsigned char *to = NULL;
    if (!s->steps)
        return true;
    if (first) {
        invite->way[s->direction] = invite_settle(what, *s, &to);
        if (s->direction == STREAM_OUT)
            invite->to = to;
    }
    half_barrier_or(s->direction, false);
    enum invite_way way = invite->way[s->direction];
    if (way == INVITE_GIVEN_UP)
        return false;
    if (way == INVITE_STRAIGHT && !invite_straight(*s, invite))
        way = INVITE_SLOTS;
    if (way == INVITE_SLOTS && !stream_run(s, state))
        return false;
    if (way == INVITE_STRAIGHT && first)
        invite_close(*s);
    if (first)
        invite_count(what, *s, way);
    return true;
}

/* ---- a block of one thread ---- */

DEVICE bool invite_is_ready(const struct stream &s)
{
    const struct window *mine = window_of(*s.team, s.team->rank);
    uint64_t invitation;
    return s.direction == STREAM_OUT ? invite_look(s, &invitation)
                                     : reached(load_acquire(&mine->plain_arrived[s.stripe][s.peer]), s.number + 1);
}

/* Finds the way of the stripe. Straight: the stripe is done. */
DEVICE enum invite_way invite_alone(const struct kernel_exchange &what, const struct stream &s)
{
    unsigned char *to = NULL;
    uint64_t invitation = 0;
    const bool out = s.direction == STREAM_OUT;
    enum invite_way way = out && invite_look(s, &invitation) ? invite_accept(what, s, invitation, &to) : invite_hear(s);
    if (out && way == INVITE_STRAIGHT)
        invite_store(s, to);
    if (out && way == INVITE_STRAIGHT && !invite_store_head(s, to, load_word(invite_token_at(to))))
        way = INVITE_SLOTS;
    invite_count(what, s, way);
    if (way == INVITE_STRAIGHT)
        invite_close(s);
    return way;
}

#endif
