/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_piece.h"

#include "gpu_rank.h"

void map_piece(const struct cuda_driver *cu, int device, CUdeviceptr at, size_t bytes, bool shareable)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    DONE(cu->MemCreate(&handle, bytes, &prop, 0));
    DONE(cu->MemMap(at, bytes, 0, handle, 0));
    DONE(cu->MemSetAccess(at, bytes, &who, 1));
    DONE(cu->MemRelease(handle));
}
