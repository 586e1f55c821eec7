/* SPDX-License-Identifier: Apache-2.0 */
/* The part of libmlx5.so.1 that makes sense on emulated devices: choosing a queue pair's UDP source port. All else is
 * ENOSYS. */
#include "verbs/softverbs.h"

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport);
__attribute__((visibility("default"))) int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
    return softverbs_set_source_port(qp, udp_sport);
}
