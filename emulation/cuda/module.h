/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and functions. */
#pragma once

#include "cuda/context.h"
#include "cuda/kernel.h"

struct CUfunc_st {
    struct kernel_entry entry;
    CUmodule module;
    CUfunction next;
    int dynamic_shared;
};

struct CUmod_st {
    CUcontext context;
    CUfunction functions;
};
