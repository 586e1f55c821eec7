/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads libibverbs once. */
#include "transport/verbs/library.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/load.h"
#include "base/log.h"
#include "base/param.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct verbs_library library;
static char complaint[400]; /* "" once the library is usable */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int inside; /* threads of ours in calls that take locks of the whole library */
static bool orphaned;      /* a thread that this process has not may hold them */

static void after_fork(void)
{
    orphaned |= atomic_load(&inside) > 0;
    atomic_store(&inside, 0);
}

__attribute__((constructor)) static void library_watch_forks(void)
{
    fork_reset_by(after_fork);
}

void verbs_library_enter(void)
{
    atomic_fetch_add(&inside, 1);
}

void verbs_library_leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

static const struct load_symbol symbols[] = {
#define CALL(result, name, arguments) {&library.name, "ibv_" #name},
#include "transport/verbs/library.tbl"
#undef CALL
    {&library.query_gid, "_ibv_query_gid_ex"},
};

static void library_load(void)
{
    const char *name = param_string(PARAM_IBVERBS_LIBRARY), *missing;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const struct load_symbol later = {&library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr"};
    int error;
    if (!handle)
        snprintf(complaint, sizeof complaint,
                 "cannot load libibverbs: %.200s. Type `apt install libibverbs1 ibverbs-providers`; "
                 "TUTTI_IBVERBS_LIBRARY names another file",
                 dlerror());
    else if ((missing = load_fill(handle, symbols, sizeof symbols / sizeof *symbols)))
        snprintf(complaint, sizeof complaint, "libibverbs %.100s lacks %s: rdma-core 33 or later is needed", name,
                 missing);
    else if ((error = library.fork_init())) /* for one, because somebody has registered memory before */
        log_info("libibverbs cannot guard memory against forks: %s", strerror(error));
    if (handle)
        load_fill(handle, &later, 1);
}

tutti_result_t verbs_library(const struct verbs_library **out)
{
    if (orphaned)
        return error_note(TUTTI_INVALID_USAGE, "this process was forked while its parent opened or closed an RDMA "
                                               "device: RDMA is not to be had here; begin a new program instead");
    pthread_once(&once, library_load);
    if (*complaint)
        return error_note(verbs_kernel_has_devices() ? TUTTI_SYSTEM_ERROR : TUTTI_INVALID_USAGE, "%s", complaint);
    *out = &library;
    return TUTTI_SUCCESS;
}

bool verbs_is_asked(void)
{
    return strcmp(param_string(PARAM_TRANSPORT), "verbs") == 0;
}

bool verbs_kernel_has_devices(void)
{
    bool found = false;
    DIR *folder = opendir("/sys/class/infiniband");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        found |= entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return found;
}

bool verbs_set_source(struct ibv_qp *qp, uint16_t port)
{
    int (*modify)(struct ibv_qp * qp, uint16_t port);
    const struct load_symbol symbol = {&modify, "mlx5dv_modify_qp_udp_sport"};
    void *adapter = port ? dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
    bool done = adapter && !load_fill(adapter, &symbol, 1) && modify(qp, port) == 0;
    if (adapter)
        dlclose(adapter);
    return done;
}
