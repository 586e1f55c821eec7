/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory has a protection key of the processor, which each thread may or may not use: those of streams and
 * kernels may, those of the program may not. A thread that touches the memory without it gets a signal, and the handler
 * says whose memory it is before the process ends as it would have. System calls that are given an address in device
 * memory fail with EFAULT, as with a GPU.
 */
#include "cuda/private.h"
#include "cuda/config.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAMES 16 /* of callers that are told */

#ifndef SEGV_PKUERR
#define SEGV_PKUERR 4
#endif

static atomic_int key = -1; /* -1: everybody may touch the memory */
static struct sigaction before;
static private_describe_fn describe;

#ifdef __x86_64__
#include <ucontext.h>

static const char *deed_of(const void *context)
{
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? "wrote to" : "read";
}
#else
static const char *deed_of(const void *context)
{
    (void)context;
    return "touched";
}
#endif

/* The process ends: the access is tried again, and meets whatever handler there was before. */
static void tell(int number, siginfo_t *info, void *context)
{
    char memory[100], text[400];
    void *frames[FRAMES];
    if (info->si_code == SEGV_PKUERR) {
        describe(info->si_addr, memory, sizeof(memory));
        int n =
            snprintf(text, sizeof(text),
                     "emulated CUDA: the CPU %s %p, %s. Only the GPU may (TUTTI_EMULATED_PRIVATE): copy by cuMemcpy, "
                     "and give adapters a descriptor (cuMemGetHandleForAddressRange, ibv_reg_dmabuf_mr). It was:\n",
                     deed_of(context), info->si_addr, memory);
        if (write(STDERR_FILENO, text, (size_t)n) == n)
            backtrace_symbols_fd(frames, backtrace(frames, FRAMES), STDERR_FILENO);
    }
    sigaction(number, &before, NULL);
}

CUresult private_start(private_describe_fn with)
{
    if (!config_get()->private || key >= 0)
        return CUDA_SUCCESS;
    int made = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (made < 0) {
        fprintf(stderr,
                "emulated CUDA: TUTTI_EMULATED_PRIVATE needs protection keys, which this processor or kernel does not "
                "give (pkey_alloc: %s): unset the variable\n",
                strerror(errno));
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *frame;
    backtrace(&frame, 1); /* the first one loads a library, which a handler must not do */
    describe = with;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
    atomic_store(&key, made);
    return CUDA_SUCCESS;
}

bool private_allow(bool may)
{
    int have = atomic_load_explicit(&key, memory_order_relaxed);
    if (have < 0)
        return true;
    bool could = pkey_get(have) == 0;
    if (could != may)
        pkey_set(have, may ? 0 : PKEY_DISABLE_ACCESS);
    return could;
}

int private_protect(void *base, size_t size, int rights)
{
    int have = atomic_load_explicit(&key, memory_order_relaxed);
    return have < 0 ? mprotect(base, size, rights) : pkey_mprotect(base, size, rights, have);
}
