/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits waits: the calls that are tried, and what they work on. */
#pragma once

#include "limits.h"

/* IN_SECOND: the work under way is the second process's. */
enum { MUST_WAIT = 1, NEEDS_PEER = 2, NEEDS_SECOND = 4, IN_SECOND = 8 };

struct Trial {
    const char *name;
    CUresult (*prepare)(); /* before anything is under way; may be none */
    CUresult (*act)();     /* what is tried */
    unsigned flags;
};

const std::vector<Trial> &trials();
void things_begin(const CUipcMemHandle *memory); /* of the second process, if there is one */
void things_sweep();                             /* gives back whatever a trial has left */
void things_end();
