/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of the calling thread. */
#ifndef TUTTI_NCCL_GROUP_H
#define TUTTI_NCCL_GROUP_H

#include "nccl/handle.h"

/* What a group's end does for who noted it. */
typedef ncclResult_t (*group_end_fn)(struct ncclComm *handle);
typedef ncclResult_t (*group_window_fn)(struct ncclComm *owner, struct ncclComm *window);

bool group_open(void);
/* In an open group: its end will fail with this, if it is an error. Returns `result`. */
ncclResult_t group_note(ncclResult_t result);
/* Work of this communicator was recorded: it stays until the group's end, which waits for it on host memory. */
ncclResult_t group_touch(struct ncclComm *handle);
/* `made` is finished at the group's end; if that fails, *out becomes NULL. */
ncclResult_t group_made(struct ncclComm *made, ncclComm_t *out);
ncclResult_t group_window(struct ncclComm *owner, struct ncclComm *window, ncclWindow_t *out, group_window_fn open);
enum group_ending { GROUP_FINALIZE, GROUP_DESTROY };
/* Carried out after all that the group holds. */
ncclResult_t group_end_later(enum group_ending how, struct ncclComm *handle, group_end_fn end);
/* Done with all others of its kind at the same time, each in a thread of its own. */
ncclResult_t group_rest_later(struct ncclComm *handle, group_end_fn end);
ncclResult_t group_revoke_later(struct ncclComm *handle, group_end_fn end);

#endif
