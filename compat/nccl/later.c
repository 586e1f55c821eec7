/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are refused, and those of the device interface that only count ranks. */
#include "nccl/later.h"
#include "nccl/result.h"

/* The arguments do not matter to a call that is refused; every convention lets a function take none of those it is
 * given. */
#define REFUSE(name, reason)                                                                                           \
    __attribute__((visibility("default"))) ncclResult_t name(void);                                                    \
    ncclResult_t name(void)                                                                                            \
    {                                                                                                                  \
        return group_note(result_fail(ncclInvalidUsage, #name ": " reason));                                           \
    }                                                                                                                  \
    TWIN(name)

#define NO_KERNELS "tutti has no interface for communication inside kernels; run without device implementations"
REFUSE(ncclDevCommCreate, NO_KERNELS);
REFUSE(ncclDevCommDestroy, NO_KERNELS);
REFUSE(ncclLLA2ACreateRequirement, NO_KERNELS);
REFUSE(ncclLsaBarrierCreateRequirement, NO_KERNELS);
REFUSE(ncclGinBarrierCreateRequirement, NO_KERNELS);
REFUSE(ncclGinOutboxCreateRequirement, NO_KERNELS);
REFUSE(ncclGinInboxA2ACreateRequirement, NO_KERNELS);
REFUSE(ncclCftBarrierCreateRequirement, NO_KERNELS);
REFUSE(ncclCommQueryProperties, NO_KERNELS);
REFUSE(ncclGetLsaDevicePointer, NO_KERNELS);
REFUSE(ncclGetLsaMultimemDevicePointer, NO_KERNELS);
REFUSE(ncclGetMultimemDevicePointer, NO_KERNELS);
REFUSE(ncclGetPeerDevicePointer, NO_KERNELS);

REFUSE(ncclSetEncryption, "tutti does not encrypt its connections");

#define NO_PARAMETERS "tutti's settings are environment variables; `tutti env` lists them"
REFUSE(ncclParamBind, NO_PARAMETERS);
REFUSE(ncclParamGetI8, NO_PARAMETERS);
REFUSE(ncclParamGetI16, NO_PARAMETERS);
REFUSE(ncclParamGetI32, NO_PARAMETERS);
REFUSE(ncclParamGetI64, NO_PARAMETERS);
REFUSE(ncclParamGetU8, NO_PARAMETERS);
REFUSE(ncclParamGetU16, NO_PARAMETERS);
REFUSE(ncclParamGetU32, NO_PARAMETERS);
REFUSE(ncclParamGetU64, NO_PARAMETERS);
REFUSE(ncclParamGetStr, NO_PARAMETERS);
REFUSE(ncclParamGet, NO_PARAMETERS);
REFUSE(ncclParamGetParameter, NO_PARAMETERS);
REFUSE(ncclParamGetAllParameterKeys, NO_PARAMETERS);

void ncclParamDumpAll(void)
{
}
TWIN(ncclParamDumpAll);

/* ---- Teams: arithmetic that needs no kernel. No peer's memory can be loaded from, so a rank is alone in its LSA team.
 */

struct device_team ncclTeamWorld(ncclComm_t comm)
{
    struct device_team world = {0, 0, 1};
    if (ncclCommCount(comm, &world.nranks) != ncclSuccess || ncclCommUserRank(comm, &world.rank) != ncclSuccess)
        return (struct device_team){0, 0, 0};
    return world;
}
TWIN(ncclTeamWorld);

struct device_team ncclTeamLsa(ncclComm_t comm)
{
    return (struct device_team){1, 0, 1};
}
TWIN(ncclTeamLsa);

struct device_team ncclTeamRail(ncclComm_t comm)
{
    return ncclTeamWorld(comm);
}
TWIN(ncclTeamRail);

int ncclTeamRankToWorld(ncclComm_t comm, struct device_team team, int rank)
{
    return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
TWIN(ncclTeamRankToWorld);

int ncclTeamRankToLsa(ncclComm_t comm, struct device_team team, int rank)
{
    return (rank - team.rank) * team.stride;
}
TWIN(ncclTeamRankToLsa);

int ncclLLA2ACalcSlots(int elements, int bytes)
{
    return 0;
}
TWIN(ncclLLA2ACalcSlots);
