/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits waits: the calls that are tried. Each finds and leaves what it works on in one place, so that one sweep
 * cleans up after all. */
#include "things.h"

#include "kernels.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace
{

constexpr size_t SIZE = 32 * MIB, HOST_SIZE = 4 * MIB;

struct Things {
    CUdeviceptr memory, opened, reserved;
    void *host;
    bool registered, mapped, peer_off;
    CUmemGenericAllocationHandle handle, imported;
    int fd;
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    CUstream stream;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
};

Things things;
CUipcMemHandle foreign;
void *pages; /* to be registered */

const Gpu &gpu()
{
    return machine.gpus[0];
}

/* What was given back is forgotten. */
template <class T> CUresult gone(CUresult result, T &thing, T none = {})
{
    if (!result)
        thing = none;
    return result;
}

template <class T> void give_back(T thing, CUresult (*call)(T))
{
    if (thing)
        call(thing);
}

CUmemAllocationProp properties()
{
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = gpu().device;
    return p;
}

CUresult allocate()
{
    return cuMemAlloc(&things.memory, SIZE);
}

CUresult host_allocate()
{
    return cuMemHostAlloc(&things.host, HOST_SIZE, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult host_register()
{
    CUresult result = cuMemHostRegister(pages, HOST_SIZE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    things.registered = !result;
    return result;
}

CUresult get_handle()
{
    CUipcMemHandle handle;
    return cuIpcGetMemHandle(&handle, things.memory);
}

CUresult open_handle()
{
    return cuIpcOpenMemHandle(&things.opened, foreign, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

CUresult create()
{
    CUmemAllocationProp p = properties();
    return cuMemCreate(&things.handle, SIZE, &p, 0);
}

CUresult reserve()
{
    return cuMemAddressReserve(&things.reserved, SIZE, 0, 0, 0);
}

CUresult create_reserve()
{
    CUresult result = create();
    return result ? result : reserve();
}

CUresult map()
{
    CUresult result = cuMemMap(things.reserved, SIZE, 0, things.handle, 0);
    things.mapped = !result;
    return result;
}

CUresult create_map()
{
    CUresult result = create_reserve();
    return result ? result : map();
}

CUresult set_access(int count)
{
    CUmemAccessDesc access[GPUS_MOST] = {};
    for (int i = 0; i < count; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = machine.gpus[i].device;
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return cuMemSetAccess(things.reserved, SIZE, access, count);
}

CUresult map_with_access()
{
    CUresult result = create_map();
    return result ? result : set_access(1);
}

CUresult export_fd()
{
    return cuMemExportToShareableHandle(&things.fd, things.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CUresult create_export()
{
    CUresult result = create();
    return result ? result : export_fd();
}

CUresult import_fd()
{
    return cuMemImportFromShareableHandle(&things.imported, (void *)(uintptr_t)things.fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUresult load()
{
    return cuModuleLoadData(&things.module, machine.image.data());
}

CUresult get_function()
{
    return cuModuleGetFunction(&things.function, things.module, kernel_names[NOTHING]);
}

CUresult load_get()
{
    CUresult result = load();
    return result ? result : get_function();
}

CUresult first_launch()
{
    Nothing nothing = {};
    void *params[] = {&nothing};
    return cuLaunchKernel(things.function, 1, 1, 1, 32, 1, 1, 0, gpu().streams[3], params, nullptr);
}

CUresult load_library()
{
    return cuLibraryLoadData(&things.library, machine.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult library_function()
{
    CUkernel kernel;
    CUresult result = cuLibraryGetKernel(&kernel, things.library, kernel_names[NOTHING]);
    return result ? result : cuKernelGetFunction(&things.function, kernel);
}

CUresult make_graph()
{
    Nothing nothing = {};
    void *params[] = {&nothing};
    CUDA_KERNEL_NODE_PARAMS node = {};
    CUgraphNode made;
    node.func = gpu().functions[NOTHING];
    node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
    CUresult result = cuGraphCreate(&things.graph, 0);
    return result ? result : cuGraphAddKernelNode(&made, things.graph, nullptr, 0, &node);
}

CUresult peer_on()
{
    return gone(cuCtxEnablePeerAccess(gpu_after(gpu(), 1).context, 0), things.peer_off);
}

CUresult peer_off()
{
    CUresult result = cuCtxDisablePeerAccess(gpu_after(gpu(), 1).context);
    things.peer_off = things.peer_off || !result;
    return result;
}

CUresult memory_info()
{
    size_t free_bytes, total;
    return cuMemGetInfo(&free_bytes, &total);
}

CUresult write_word()
{
    uint32_t word = 0;
    return cuMemcpyHtoD(gpu().words, &word, sizeof(word));
}

} // namespace

const std::vector<Trial> &trials()
{
    static const std::vector<Trial> all = {
        {"cuCtxSynchronize (must wait)", nullptr, [] { return cuCtxSynchronize(); }, MUST_WAIT},
        {"cuMemAlloc, 1 KiB", nullptr, [] { return cuMemAlloc(&things.memory, KIB); }, 0},
        {"cuMemAlloc, 32 MiB", nullptr, allocate, 0},
        {"cuMemFree, 32 MiB", allocate, [] { return gone(cuMemFree(things.memory), things.memory); }, 0},
        {"cuMemGetInfo", nullptr, memory_info, 0},
        {"cuMemcpyHtoD, 4 bytes", nullptr, write_word, 0},
        {"cuMemHostAlloc", nullptr, host_allocate, 0},
        {"cuMemFreeHost", host_allocate, [] { return gone(cuMemFreeHost(things.host), things.host); }, 0},
        {"cuMemHostRegister", nullptr, host_register, 0},
        {"cuMemHostUnregister", host_register, [] { return gone(cuMemHostUnregister(pages), things.registered); }, 0},
        {"cuIpcGetMemHandle", allocate, get_handle, 0},
        {"cuIpcOpenMemHandle", nullptr, open_handle, NEEDS_SECOND},
        {"cuIpcCloseMemHandle", open_handle, [] { return gone(cuIpcCloseMemHandle(things.opened), things.opened); },
         NEEDS_SECOND},
        {"cuIpcOpenMemHandle, the owner is busy", nullptr, open_handle, NEEDS_SECOND | IN_SECOND},
        {"cuIpcCloseMemHandle, the owner is busy", open_handle,
         [] { return gone(cuIpcCloseMemHandle(things.opened), things.opened); }, NEEDS_SECOND | IN_SECOND},
        {"cuMemCreate", nullptr, create, 0},
        {"cuMemAddressReserve", nullptr, reserve, 0},
        {"cuMemMap", create_reserve, map, 0},
        {"cuMemSetAccess", create_map, [] { return set_access(1); }, 0},
        {"cuMemSetAccess for all GPUs", create_map, [] { return set_access(gpu_count()); }, NEEDS_PEER},
        {"cuMemUnmap", map_with_access, [] { return gone(cuMemUnmap(things.reserved, SIZE), things.mapped); }, 0},
        {"cuMemExportToShareableHandle", create, export_fd, 0},
        {"cuMemImportFromShareableHandle", create_export, import_fd, 0},
        {"cuMemRelease", create, [] { return gone(cuMemRelease(things.handle), things.handle); }, 0},
        {"cuModuleLoadData", nullptr, load, 0},
        {"first cuModuleGetFunction", load, get_function, 0},
        {"first cuLaunchKernel of a function", load_get, first_launch, 0},
        {"cuModuleUnload", load_get, [] { return gone(cuModuleUnload(things.module), things.module); }, 0},
        {"cuLibraryLoadData", nullptr, load_library, 0},
        {"cuLibraryGetKernel, cuKernelGetFunction", load_library, library_function, 0},
        {"cuGraphInstantiate, 1 kernel", make_graph,
         [] { return cuGraphInstantiateWithFlags(&things.exec, things.graph, 0); }, 0},
        {"cuStreamCreate", nullptr, [] { return cuStreamCreate(&things.stream, CU_STREAM_NON_BLOCKING); }, 0},
        {"cuStreamDestroy", [] { return cuStreamCreate(&things.stream, CU_STREAM_NON_BLOCKING); },
         [] { return gone(cuStreamDestroy(things.stream), things.stream); }, 0},
        {"cuEventCreate", nullptr, [] { return cuEventCreate(&things.event, CU_EVENT_DISABLE_TIMING); }, 0},
        {"cuCtxEnablePeerAccess", peer_off, peer_on, NEEDS_PEER},
        {"cuCtxDisablePeerAccess", nullptr, peer_off, NEEDS_PEER},
    };
    return all;
}

void things_begin(const CUipcMemHandle *memory)
{
    things = {};
    things.fd = -1;
    if (memory)
        foreign = *memory;
    if (posix_memalign(&pages, 4 * KIB, HOST_SIZE))
        throw Failure("no memory to be registered");
    memset(pages, 0, HOST_SIZE);
}

/* What does not go is left: the next trial will say what is wrong. */
void things_sweep()
{
    Things t = things;
    cuCtxSetCurrent(gpu().context);
    cuCtxSynchronize();
    give_back(t.memory, cuMemFree);
    give_back(t.opened, cuIpcCloseMemHandle);
    if (t.mapped)
        cuMemUnmap(t.reserved, SIZE);
    if (t.reserved)
        cuMemAddressFree(t.reserved, SIZE);
    give_back(t.imported, cuMemRelease);
    give_back(t.handle, cuMemRelease);
    give_back(t.host, cuMemFreeHost);
    if (t.registered)
        cuMemHostUnregister(pages);
    give_back(t.exec, cuGraphExecDestroy);
    give_back(t.graph, cuGraphDestroy);
    give_back(t.module, cuModuleUnload);
    give_back(t.library, cuLibraryUnload);
    give_back(t.stream, cuStreamDestroy);
    give_back(t.event, cuEventDestroy);
    if (t.peer_off)
        peer_on();
    if (t.fd >= 0)
        close(t.fd);
    things = {};
    things.fd = -1;
}

void things_end()
{
    things_sweep();
    free(pages);
    pages = nullptr;
}
