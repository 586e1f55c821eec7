/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that come to nothing: what waits for them is let go, and peers can see what was done. */
#include "executor/gpu/undone.h"

#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/side.h"
#include "executor/gpu/signals.h"

/* copying: the last copy that lies in a stream. That copy needs nothing more than it is given here. */
static void release_end(_Atomic uint32_t *word, const _Atomic uint32_t *copying, _Atomic uint64_t *let_go,
                        uint32_t value, bool at_once)
{
    uint32_t done = atomic_load(word);
    uint64_t none = 0;
    if ((int32_t)(value - done) <= 0 || (!at_once && (int32_t)(done - atomic_load(copying)) < 0))
        return;
    atomic_compare_exchange_strong(let_go, &none, 1ull << 32 | done); /* the other end looks at this behind its wait */
    side_release(word, value);
}

/* What the sender of a pair has copied, and what the receiver has: at once, if its GPU is gone. The copies of this rank
 * end by themselves, whatever became of the peer: until then the user's stream, which may free the memory next, waits.
 */
static void release_ends(struct mailbox_pair *pair, uint32_t messages, uint32_t staged, bool sender_is_gone,
                         bool receiver_is_gone)
{
    release_end(&pair->pushed, &pair->pushing, &pair->let_go[0], messages, sender_is_gone);
    release_end(&pair->pulled, &pair->pulling, &pair->let_go[1], messages, receiver_is_gone);
    release_end(&pair->arrived, &pair->arriving, &pair->let_go[2], staged, sender_is_gone);
}

/*
 * This rank's copies to a peer that has not come so far. They would write over what the peer still reads: its user's
 * buffer, pieces that belong to messages before. So they wait until the peer is gone, too; or, in scratch, until it has
 * read all that has come, and messages behind that count as undone.
 */
static void release_copies(struct mailbox_pair *to, uint32_t messages, uint32_t pieces, bool gone)
{
    uint32_t arrived = atomic_load(&to->arrived);
    uint64_t none = 0;
    if (gone)
        side_release(&to->at_recv, messages);
    if (!gone && atomic_load(&to->freed) != arrived)
        return;
    if ((int32_t)(pieces - arrived) > 0)
        atomic_compare_exchange_strong(&to->let_go[2], &none, 1ull << 32 | arrived);
    side_release(&to->freed, pieces);
}

void undone_let_go(struct gpu *gpu, bool at_once)
{
    struct departure who;
    bool all_fail = atomic_load(&gpu->failure->state) != 0;
    for (int peer = 0; peer < gpu->nranks; peer++) {
        struct mailbox_pair *to = &gpu->messages.pair[gpu->rank][peer], *from = &gpu->messages.pair[peer][gpu->rank];
        bool lost = at_once || gone_is_lost(gpu, peer);
        uint32_t messages = atomic_load(&gpu->messages.sent[peer]),
                 pieces = atomic_load(&gpu->messages.sent_pieces[peer]);
        release_ends(to, messages, pieces, at_once, lost);
        release_copies(to, messages, pieces, lost || all_fail || gone_is(gpu, peer, &who));
        side_release(&from->at_send, atomic_load(&gpu->messages.received[peer]));
        signals_let_go(gpu, peer);
        release_ends(from, atomic_load(&gpu->messages.received[peer]),
                     atomic_load(&gpu->messages.received_pieces[peer]), lost, at_once);
    }
}

static bool undone_in_pair(const struct mailbox_pair *pair, uint32_t messages, uint32_t staged)
{
    bool undone = false;
    for (int word = 0; word < 3; word++) {
        uint64_t let_go = atomic_load(&pair->let_go[word]);
        undone = undone || (let_go && (int32_t)((word == 2 ? staged : messages) - (uint32_t)let_go) > 0);
    }
    return undone;
}

bool undone_with(const struct gpu *gpu, int peer)
{
    return undone_in_pair(&gpu->messages.pair[gpu->rank][peer], atomic_load(&gpu->messages.sent[peer]),
                          atomic_load(&gpu->messages.sent_pieces[peer])) ||
           undone_in_pair(&gpu->messages.pair[peer][gpu->rank], atomic_load(&gpu->messages.received[peer]),
                          atomic_load(&gpu->messages.received_pieces[peer]));
}
