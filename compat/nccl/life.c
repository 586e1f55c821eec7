/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how they begin, divide and end. */
#include "nccl/life.h"
#include "nccl/config.h"
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/memory.h"
#include "nccl/names.h"
#include "nccl/place.h"
#include "nccl/result.h"

#include <string.h>

/* What a new communicator is to be. */
struct life_order {
    int nranks, rank; /* 0, -1: found out by tutti */
    int device, inherited_blocking;
    bool host;
    const struct comm_config *config;
};

static struct ncclComm *prepare(const struct life_order *order, tutti_config_t *config)
{
    struct ncclComm *handle = handle_new(HANDLE_COMM);
    if (!handle)
        return NULL;
    handle->nranks = order->nranks;
    handle->rank = order->rank;
    handle->host = order->host;
    handle->device = order->device;
    handle->blocking = config_blocking(order->config->blocking, order->inherited_blocking);
    config->blocking = handle->blocking;
    config->name = order->config->name;
    config->blocks = order->config->blocks;
    config->policy = order->config->policy;
    place_config(config, order->host, order->device);
    return handle;
}

/* tutti has begun to make it, or has not. In a group the handle is good from now on and whole at the end. */
static ncclResult_t hand_out(struct ncclComm *made, ncclComm_t *out, tutti_result_t begun, tutti_comm_t parent)
{
    bool early = begun == TUTTI_IN_PROGRESS && !made->comm;
    ncclResult_t result =
        early ? result_fail(ncclInvalidArgument, "the parent is still being made; ask ncclCommGetAsyncError()")
              : result_of(begun, parent);
    if (result == ncclSuccess && group_open())
        result = group_made(made, out);
    if (result == ncclSuccess || result == ncclInProgress) {
        *out = made;
        return result;
    }
    handle_free(made);
    return group_note(result);
}

/* Whatever fails behind this, the caller holds no communicator. */
static ncclResult_t begin(ncclComm_t *out, const char *call)
{
    if (!out)
        return group_note(result_fail(ncclInvalidArgument, "%s: the place for the communicator is NULL", call));
    *out = NULL;
    return ncclSuccess;
}

static ncclResult_t join(ncclComm_t *out, const struct life_order *order, const ncclUniqueId *id)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_unique_id_t where;
    struct ncclComm *made = prepare(order, &config);
    if (!made)
        return group_note(ncclSystemError);
    memcpy(where.bytes, id->internal, sizeof where.bytes);
    return hand_out(made, out, tutti_comm_init_rank(&made->comm, order->nranks, &where, order->rank, &config), NULL);
}

/* ---- Begin ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    tutti_unique_id_t where;
    _Static_assert(sizeof where == sizeof *id, "one fits into the other");
    if (!id)
        return result_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    ncclResult_t result = result_of(tutti_get_unique_id(&where), NULL);
    if (result == ncclSuccess)
        memcpy(id->internal, where.bytes, sizeof where.bytes);
    return result;
}
TWIN(ncclGetUniqueId);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *user)
{
    struct comm_config config;
    ncclResult_t result = begin(comm, "ncclCommInitRank");
    if (result != ncclSuccess)
        return result;
    result = config_read(user, &config);
    if (result != ncclSuccess)
        return group_note(result);
    struct life_order order = {nranks, rank, PLACE_CURRENT, 1, place_host(), &config};
    return join(comm, &order, &id);
}
TWIN(ncclCommInitRankConfig);

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}
TWIN(ncclCommInitRank);

/* tutti's ranks meet at one place however many there are (docs/bootstrap.md); the first is as good as all. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int count, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    ncclResult_t result = begin(comm, "ncclCommInitRankScalable");
    if (result != ncclSuccess)
        return result;
    if (count < 1 || (count > nranks && nranks > 0) || !ids)
        return group_note(result_fail(ncclInvalidArgument,
                                      "ncclCommInitRankScalable: nId is %d, commIds %p; want 1 to %d ids, no more than "
                                      "ranks",
                                      count, (void *)ids, nranks));
    return ncclCommInitRankConfig(comm, nranks, ids[0], rank, config);
}
TWIN(ncclCommInitRankScalable);

static ncclResult_t check_devices(int count, const int *devices)
{
    for (int i = 0; devices && i < count; i++) {
        if (devices[i] < 0)
            return result_fail(ncclInvalidArgument, "ncclCommInitAll: devlist[%d] is %d", i, devices[i]);
        for (int j = 0; j < i; j++)
            if (devices[j] == devices[i])
                return result_fail(ncclInvalidUsage, "ncclCommInitAll: device %d is named twice", devices[i]);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    static const struct comm_config blocking = {1, NULL, 0, -1};
    ncclUniqueId id;
    if (!comms || count < 1)
        return result_fail(ncclInvalidArgument, "ncclCommInitAll: comm is %p and ndev %d", (void *)comms, count);
    for (int i = 0; i < count; i++)
        comms[i] = NULL;
    ncclResult_t result = check_devices(count, devices);
    if (result == ncclSuccess)
        result = ncclGetUniqueId(&id);
    if (result != ncclSuccess)
        return result;
    ncclGroupStart();
    for (int rank = 0; rank < count && result == ncclSuccess; rank++) {
        struct life_order order = {count, rank, devices ? devices[rank] : rank, 1, place_host(), &blocking};
        result = join(&comms[rank], &order, &id);
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}
TWIN(ncclCommInitAll);

/* ---- Divide ---- */

static ncclResult_t enter_parent(ncclComm_t comm, struct ncclComm **parent, bool revoked_too)
{
    ncclResult_t result = handle_enter(comm, parent);
    if (result != ncclSuccess)
        return result;
    if (!(*parent)->comm)
        result = result_fail(ncclInvalidArgument, "the communicator is still being made; end the group first");
    else if (!revoked_too && atomic_load(&(*parent)->revoked))
        result = result_fail(ncclInvalidUsage, "the communicator was revoked; shrink or destroy it");
    else if (group_open())
        result = group_touch(*parent);
    if (result != ncclSuccess)
        handle_leave(*parent);
    return result;
}

static ncclResult_t prepare_child(struct ncclComm *parent, const ncclConfig_t *user, struct ncclComm **made,
                                  tutti_config_t *out)
{
    struct comm_config config;
    ncclResult_t result = config_read(user, &config);
    if (result != ncclSuccess)
        return result;
    struct life_order order = {0, -1, parent->device, user ? 1 : parent->blocking, parent->host, &config};
    *made = prepare(&order, out);
    if (!*made)
        return ncclSystemError;
    int device;
    if (!parent->host && place_device(parent->comm, false, 0, &device) == TUTTI_SUCCESS)
        place_config(out, false, device);
    return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *user)
{
    static _Thread_local tutti_comm_t nobody;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    struct ncclComm *parent, *made;
    ncclResult_t result = begin(newcomm, "ncclCommSplit");
    if (result != ncclSuccess)
        return result;
    result = enter_parent(comm, &parent, false);
    if (result != ncclSuccess)
        return group_note(result);
    if (color == NCCL_SPLIT_NOCOLOR) {
        config.blocking = parent->blocking;
        result = group_note(
            result_of(tutti_comm_split(parent->comm, TUTTI_SPLIT_NOCOLOR, key, &nobody, &config), parent->comm));
    } else {
        result = group_note(prepare_child(parent, user, &made, &config));
        if (result == ncclSuccess)
            result =
                hand_out(made, newcomm, tutti_comm_split(parent->comm, color, key, &made->comm, &config), parent->comm);
    }
    handle_leave(parent);
    return result;
}
TWIN(ncclCommSplit);

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *newcomm, ncclConfig_t *user,
                            int flags)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    struct ncclComm *parent, *made;
    ncclResult_t result = begin(newcomm, "ncclCommShrink");
    if (result != ncclSuccess)
        return result;
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        return group_note(result_fail(ncclInvalidArgument,
                                      "ncclCommShrink: shrinkFlags is %d; want NCCL_SHRINK_DEFAULT or "
                                      "NCCL_SHRINK_ABORT",
                                      flags));
    result = enter_parent(comm, &parent, true);
    if (result != ncclSuccess)
        return group_note(result);
    result = group_note(prepare_child(parent, user, &made, &config));
    if (result == ncclSuccess && flags == NCCL_SHRINK_ABORT)
        tutti_comm_abort(parent->comm);
    if (result == ncclSuccess)
        result = hand_out(made, newcomm, tutti_comm_shrink(parent->comm, excluded, count, &made->comm, &config),
                          parent->comm);
    handle_leave(parent);
    return result;
}
TWIN(ncclCommShrink);

/* ---- Grow ---- */

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
    tutti_unique_id_t where;
    struct ncclComm *parent;
    if (!id)
        return result_fail(ncclInvalidArgument, "ncclCommGetUniqueId: uniqueId is NULL");
    ncclResult_t result = enter_parent(comm, &parent, false);
    if (result != ncclSuccess)
        return group_note(result);
    result = result_of(tutti_comm_get_unique_id(parent->comm, &where), parent->comm);
    if (result == ncclSuccess)
        memcpy(id->internal, where.bytes, sizeof where.bytes);
    handle_leave(parent);
    return group_note(result);
}
TWIN(ncclCommGetUniqueId);

static ncclResult_t come(int nranks, const tutti_unique_id_t *id, int rank, ncclComm_t *newcomm, ncclConfig_t *user)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    struct comm_config wanted;
    ncclResult_t result = config_read(user, &wanted);
    if (result != ncclSuccess)
        return group_note(result);
    struct life_order order = {nranks, rank, PLACE_CURRENT, 1, place_host(), &wanted};
    struct ncclComm *made = prepare(&order, &config);
    if (!made)
        return group_note(ncclSystemError);
    return hand_out(made, newcomm, tutti_comm_grow(NULL, nranks, id, rank, &made->comm, &config), NULL);
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                          ncclConfig_t *user)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_unique_id_t where;
    struct ncclComm *parent, *made;
    ncclResult_t result = begin(newcomm, "ncclCommGrow");
    if (result != ncclSuccess)
        return result;
    if (id)
        memcpy(where.bytes, id->internal, sizeof where.bytes);
    if (!comm)
        return come(nranks, id ? &where : NULL, rank, newcomm, user);
    result = enter_parent(comm, &parent, false);
    if (result != ncclSuccess)
        return group_note(result);
    result = group_note(prepare_child(parent, user, &made, &config));
    if (result == ncclSuccess)
        result = hand_out(made, newcomm,
                          tutti_comm_grow(parent->comm, nranks, id ? &where : NULL, rank, &made->comm, &config),
                          parent->comm);
    handle_leave(parent);
    return result;
}
TWIN(ncclCommGrow);

/* ---- End ---- */

ncclResult_t life_finalize(struct ncclComm *handle)
{
    return handle->comm ? result_of(tutti_comm_finalize(handle->comm), handle->comm) : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    struct ncclComm *handle;
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = handle_enter(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    if (atomic_load(&handle->revoked))
        result = result_fail(ncclInvalidUsage, "ncclCommFinalize: the communicator was revoked; destroy it");
    else if (group_open())
        result = group_end_later(GROUP_FINALIZE, handle, life_finalize);
    else
        result = life_finalize(handle);
    handle_leave(handle);
    return group_note(result);
}
TWIN(ncclCommFinalize);

ncclResult_t life_destroy(struct ncclComm *handle)
{
    handle_wait(handle);
    if (handle->aborted)
        handle->ended = result_of(tutti_comm_abort(handle->comm), NULL);
    ncclResult_t result = handle->ended;
    memory_forget(handle);
    ncclResult_t destroyed = handle->comm ? result_of(tutti_comm_destroy(handle->comm), NULL) : ncclSuccess;
    handle->comm = NULL;
    handle_free(handle);
    return result == ncclSuccess ? destroyed : result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    struct ncclComm *handle;
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = handle_close(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    return group_open() ? group_note(group_end_later(GROUP_DESTROY, handle, life_destroy)) : life_destroy(handle);
}
TWIN(ncclCommDestroy);

/* Any thread may call it: those inside come out with an error, and then the communicator is freed. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    struct ncclComm *handle;
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = handle_close(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    if (handle->comm)
        handle->ended = result_of(tutti_comm_abort(handle->comm), NULL);
    handle->aborted = handle->comm && group_open(); /* has not been waited for: a group's are all told first */
    return group_open() ? group_note(group_end_later(GROUP_DESTROY, handle, life_destroy)) : life_destroy(handle);
}
TWIN(ncclCommAbort);

/* At a group's end, when all of it have been told. */
ncclResult_t life_revoked(struct ncclComm *handle)
{
    ncclResult_t result = result_of(tutti_comm_abort(handle->comm), handle->comm);
    handle_leave(handle);
    return result;
}

/* tutti's abort leaves the communicator standing, as a revocation wants. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    struct ncclComm *handle;
    if (flags != NCCL_REVOKE_DEFAULT)
        return group_note(
            result_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d; want NCCL_REVOKE_DEFAULT", flags));
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = handle_enter(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    atomic_store(&handle->revoked, true);
    if (handle->comm)
        result = result_of(tutti_comm_abort(handle->comm), handle->comm);
    if (result == ncclSuccess && handle->comm && group_open())
        result = group_revoke_later(handle, life_revoked);
    handle_leave(handle);
    return group_note(result);
}
TWIN(ncclCommRevoke);
