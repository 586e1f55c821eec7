/* SPDX-License-Identifier: Apache-2.0 */
/* Second handles of protection domains and regions, for contexts of one file. */
#ifndef VERBS_IMPORTED_H
#define VERBS_IMPORTED_H

#include "verbs/object.h"

/* Gives a protection domain its handle. With the engine's lock. */
void imported_enter(struct pd *pd);

#endif
