/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a port must show before anybody is told of it. Where RDMA was asked for by name nothing is tried: lanes that do
 * not come up say why. Where it was not, a port that cannot carry lanes must not be the reason of a single one.
 */
#include "transport/verbs/usable.h"

#include "base/error.h"
#include "base/param.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define ENOUGH ((size_t)64 << 20) /* bytes: the buffers of lanes, and payloads */

tutti_result_t verbs_usable_kind(const struct verbs_device *device, const struct ibv_device *ibv)
{
    char parent[128]; /* which rxe has, and adapters have not */
    snprintf(parent, sizeof parent, "/sys/class/infiniband/%.64s/parent",
             device->owner->library->get_device_name((struct ibv_device *)ibv));
    if (ibv->transport_type != IBV_TRANSPORT_IB)
        return error_note(
            TUTTI_INVALID_USAGE,
            "RDMA device %s is neither InfiniBand nor RoCE (iWARP, EFA or the like), and cannot carry lanes",
            device->name);
    if (!*param_string(PARAM_IB_HCA) && access(parent, F_OK) == 0)
        return error_note(TUTTI_INVALID_USAGE,
                          "RDMA device %s is software of the kernel (rxe), slower than TCP: TUTTI_IB_HCA=%.*s takes it",
                          device->name, (int)strcspn(device->name, ":"), device->name);
    return TUTTI_SUCCESS;
}

static tutti_result_t try_pair(const struct verbs_device *device)
{
    struct ibv_cq *cq = device->open.cq;
    struct ibv_srq *shared = device->open.shared.queue;
    struct ibv_qp_init_attr how = {.send_cq = cq, .recv_cq = cq, .srq = shared, .qp_type = IBV_QPT_RC};
    how.cap = (struct ibv_qp_cap){VERBS_SENDS, shared ? 0 : VERBS_RECEIVES, 1, 1, 0};
    struct ibv_qp *qp = device->owner->library->create_qp(device->open.pd, &how);
    if (!qp)
        return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s cannot make a reliable queue pair: %s", device->name,
                          strerror(errno));
    int error = device->owner->library->destroy_qp(qp);
    return error ? error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s cannot end a queue pair: %s", device->name,
                              strerror(error))
                 : TUTTI_SUCCESS;
}

static tutti_result_t usable_lacks_memory(const struct verbs_device *device, size_t size, int error)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s cannot register %zu KiB of memory: %s", device->name,
                          size >> 10, strerror(error));
    return error_note(
        TUTTI_SYSTEM_ERROR,
        "RDMA device %s cannot register %zu KiB of memory: %s, where %llu KiB may be locked. Type `ulimit "
        "-l unlimited` before the program (docker: --ulimit memlock=-1; systemd and Slurm: "
        "LimitMEMLOCK=infinity)",
        device->name, size >> 10, strerror(error), (unsigned long long)limit.rlim_cur >> 10);
}

/* Where there is a limit the only way to know whether it counts, which it does not for the privileged, is to try. */
static size_t enough(bool first)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited && first ? ENOUGH : VERBS_BUFFERS;
}

static tutti_result_t try_memory(const struct verbs_device *device, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory to try RDMA device %s with: %s", device->name,
                          strerror(errno));
    struct ibv_mr *mr = device->owner->library->reg_mr(device->open.pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    int error = mr ? 0 : errno;
    bool kept = mr && device->owner->library->dereg_mr(mr) != 0; /* then the adapter still knows the pages */
    if (!kept)
        munmap(memory, size);
    if (kept)
        return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s does not give back registered memory", device->name);
    return error ? usable_lacks_memory(device, size, error) : TUTTI_SUCCESS;
}

tutti_result_t verbs_usable_parts(const struct verbs_device *device, bool first)
{
    tutti_result_t result = try_pair(device);
    return result == TUTTI_SUCCESS ? try_memory(device, enough(first)) : result;
}
