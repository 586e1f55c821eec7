/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates of windows: credits that stand. The first long put of a pair of buffers asks for one. Those that follow go at
 * once, with no word but the request, which may come behind its payload. docs/understand/window.md.
 */
#ifndef TUTTI_ENGINE_GATES_H
#define TUTTI_ENGINE_GATES_H

#include "base/list.h"
#include "tutti/tutti.h"
#include "wire/link.h"

#include <stdbool.h>

#define GATES_MOST 16 /* of two ranks, each way */

struct link;
struct link_grant;
struct link_recv;
struct team;
struct tutti_window;
struct window_request;

/* The gates of a team to and from one other rank. Under the engine's lock. */
struct gates {
    struct list out; /* by which this rank puts, the longest unused first */
    struct list in;  /* to this rank's windows */
    struct team *team;
    void (*landed)(struct window_request *request, tutti_result_t result); /* its payload is there, or lost */
};
void gates_begin(struct gates *gates, struct team *team,
                 void (*landed)(struct window_request *request, tutti_result_t result));

/* At the rank that puts: by which one the put of this request goes, which says so then. NULL: it goes without. */
struct link_grant *gates_choose(struct gates *gates, const struct link *link, struct wire_window *what);

/* At the rank that has the window: a request asks for a gate, and `recv` says where its payload goes. landed() follows.
 * False: there is no gate for it. */
bool gates_open(struct gates *gates, const struct wire_window *what, struct link *link, const struct link_recv *recv,
                struct window_request *request);
/* A request goes by a gate, with a payload of this tag. False: it has no gate with this slot, or another one. */
bool gates_take(struct gates *gates, const struct wire_window *what, const struct wire_tag *tag,
                struct window_request *request);
/* The peer gives one back. False: it has none of this slot. */
bool gates_give_back(struct gates *gates, uint32_t slot);

/* The window ends, and nobody puts there. */
void gates_forget(struct gates *gates, const struct tutti_window *window);
/* Nothing comes through any of them when this returns. */
void gates_stop(struct gates *gates);

#endif
