/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invitations: the receiver of a message (invite.cuh), or of a reduction's result (reduce_bulk.cuh), says where in its
 * user's memory the data are wanted, and puts a token there. The sender looks for the token through its own mapping. A
 * graph may invite to memory that has been freed, and that is other memory by now; the sender may hear of it after the
 * graph has run. The sender's mapping is then of the old memory, which nobody has, and in which no token is.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_INVITATION_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_INVITATION_CUH

#include <memory.cuh>
#include <window.cuh>

#define INVITE_LEAST    256        /* bytes of a stripe */
#define INVITE_ANSWER   100000     /* ns in which a sender that has seen an invitation says so, and a token comes */
#define INVITE_STORE_NS 1000000000 /* in which one that has said so has stored a stripe */

/* No two invitations that are under way have the same token. */
DEVICE uint64_t invite_token_of(uint32_t number, uint32_t stripe, int from, int to)
{
    const uint64_t x =
        ((uint64_t)number << 32 | (uint64_t)stripe << 16 | (uint64_t)from << 8 | (uint64_t)to) * 0x9e3779b97f4a7c15;
    return x ^ x >> 29;
}

DEVICE uint64_t *invite_token_at(unsigned char *user)
{
    return (uint64_t *)(((uintptr_t)user + 7) & ~(uintptr_t)7);
}

/* Where rank p's memory begins that it invites to, as this rank addresses it; NULL: this rank does not reach that
 * memory. */
DEVICE unsigned char *invite_reach(uint64_t invitation, const struct kernel_mappings *mappings, int p)
{
    if (invitation & KERNEL_INVITE_ADDRESS)
        return (unsigned char *)(invitation & ~KERNEL_INVITE_ADDRESS);
    if (!invitation || !mappings)
        return NULL;
    return (unsigned char *)kernel_invite_address(invitation,
                                                  load_word(&mappings->at[p][kernel_invite_place(invitation)]));
}

#endif
