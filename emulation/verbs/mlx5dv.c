/* SPDX-License-Identifier: Apache-2.0 */
/* The part of libmlx5.so.1 that makes sense on emulated devices: choosing a queue pair's UDP source port, the clock of
 * completions, and memory of a descriptor. All else is ENOSYS. */
#include "verbs/softverbs.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Ticks of completions are nanoseconds of the monotonic clock; the times that they become are of the wall's. */
EXPORT int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *out)
{
    *out = (struct mlx5dv_clock_info){.mult = 1, .mask = UINT64_MAX};
    out->last_cycles = nanoseconds(CLOCK_MONOTONIC);
    out->nsec = nanoseconds(CLOCK_REALTIME);
    return 0;
}

EXPORT int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
    return softverbs_set_source_port(qp, udp_sport);
}

/* Of later <mlx5dv.h>. No adapter of ours has a second path to a device's memory. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                    int access, int mlx5_access);
EXPORT struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                           int access, int mlx5_access)
{
    if (!mlx5_access)
        return ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
    errno = EOPNOTSUPP;
    return NULL;
}

int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *out, size_t size);
EXPORT int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *out, size_t size)
{
    return ENODEV;
}
