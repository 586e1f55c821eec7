/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor does that has nothing of its own to do. */
#include "engine/executor.h"

#include "base/error.h"

#include <stdlib.h>

static tutti_result_t engine_executor_refuse(const struct executor *executor, const char *what)
{
    return error_set(TUTTI_INVALID_USAGE, "the executor \"%s\" cannot %s", executor->ops.name, what);
}

static tutti_result_t no_issue(struct executor *executor, const struct call *call, void *owned, tutti_stream_t stream,
                               const struct executor_note *note)
{
    (void)call;
    (void)note;
    (void)stream;
    free(owned);
    return engine_executor_refuse(executor, "carry out collectives");
}

/* What follows a call that fails is not issued. One may still be in progress when the next one is. */
static tutti_result_t one_by_one(struct executor *executor, const struct executor_call *calls, int count,
                                 tutti_stream_t stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count; i++) {
        bool goes_on = result == TUTTI_SUCCESS || result == TUTTI_IN_PROGRESS;
        tutti_result_t next =
            goes_on ? executor->ops.issue(executor, calls[i].call, calls[i].owned, stream, calls[i].note) : result;
        if (!goes_on)
            free(calls[i].owned);
        result = next == TUTTI_SUCCESS ? result : next;
    }
    return result;
}

static tutti_result_t no_messages(struct executor *executor, const struct p2p_item *items, int count,
                                  tutti_stream_t stream)
{
    (void)items;
    (void)count;
    (void)stream;
    return engine_executor_refuse(executor, "carry messages");
}

static tutti_result_t no_dynamic(struct executor *executor, const struct dynamic_call *call, tutti_stream_t stream)
{
    (void)call;
    (void)stream;
    return engine_executor_refuse(
        executor, "exchange what only GPUs know the lengths of, as GPUs can; call tutti_alltoallv() with the lengths");
}

static tutti_result_t no_register(struct executor *executor, void *buffer, size_t size, void **out)
{
    (void)executor;
    (void)buffer;
    (void)size;
    *out = NULL;
    return TUTTI_SUCCESS;
}

static tutti_window_t no_symmetric_window(struct executor *executor, void *registered)
{
    (void)executor;
    (void)registered;
    return NULL;
}

static void no_unregister(struct executor *executor, void *registered)
{
    (void)executor;
    (void)registered;
}

static tutti_result_t no_window_open(struct executor *executor, void *buffer, size_t size, tutti_window_t *out)
{
    (void)buffer;
    (void)size;
    *out = NULL;
    return engine_executor_refuse(executor, "make windows, as host memory has them, and up to 8 GPUs of one host that "
                                            "reach one another");
}

static tutti_result_t no_window_close(struct executor *executor, tutti_window_t window)
{
    (void)window;
    return engine_executor_refuse(executor, "close windows");
}

static tutti_result_t no_window_calls(struct executor *executor, const struct window_item *items, int count,
                                      tutti_stream_t stream)
{
    (void)items;
    (void)count;
    (void)stream;
    return engine_executor_refuse(executor, "put or signal: host memory has windows, and up to 8 GPUs of one host "
                                            "that reach one another");
}

static tutti_result_t no_window_address(struct executor *executor, tutti_window_t window, int rank, void **address,
                                        size_t *size)
{
    (void)window;
    (void)rank;
    (void)address;
    (void)size;
    return engine_executor_refuse(executor, "map windows");
}

static bool no_window_is_open(const struct executor *executor, tutti_window_t window)
{
    (void)executor;
    (void)window;
    return false;
}

static tutti_result_t no_follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    (void)stream;
    (void)before;
    return engine_executor_refuse(executor, "join streams");
}

static bool no_any_thread(struct executor *executor, tutti_stream_t stream)
{
    (void)executor;
    (void)stream;
    return false;
}

static tutti_result_t no_wait(struct executor *executor)
{
    (void)executor;
    return TUTTI_SUCCESS;
}

static bool no_give_up(struct executor *executor)
{
    (void)executor;
    return false;
}

static void nothing(struct executor *executor)
{
    (void)executor;
}

static bool no_goes_on(struct executor *executor)
{
    (void)executor;
    return false;
}

static tutti_result_t no_settle(struct executor *executor, bool ends)
{
    (void)ends;
    return no_wait(executor);
}

static const char *no_keeps(const struct executor *executor)
{
    (void)executor;
    return NULL;
}

static void no_memory(struct executor *executor, size_t *device_bytes, size_t *host_bytes)
{
    (void)executor;
    *device_bytes = *host_bytes = 0;
}

void executor_init(struct executor *out, const struct executor_ops *ops, int device)
{
    *out = (struct executor){
        .ops = {.name = ops->name,
                .prepare = ops->prepare,
                .issue = ops->issue ? ops->issue : no_issue,
                .issue_many = ops->issue_many ? ops->issue_many : one_by_one,
                .messages = ops->messages ? ops->messages : no_messages,
                .dynamic = ops->dynamic ? ops->dynamic : no_dynamic,
                .register_symmetric = ops->register_symmetric ? ops->register_symmetric : no_register,
                .symmetric_window = ops->symmetric_window ? ops->symmetric_window : no_symmetric_window,
                .unregister = ops->unregister ? ops->unregister : no_unregister,
                .window_open = ops->window_open ? ops->window_open : no_window_open,
                .window_close = ops->window_close ? ops->window_close : no_window_close,
                .window_calls = ops->window_calls ? ops->window_calls : no_window_calls,
                .window_address = ops->window_address ? ops->window_address : no_window_address,
                .window_is_open = ops->window_is_open ? ops->window_is_open : no_window_is_open,
                .follow = ops->follow ? ops->follow : no_follow,
                .any_thread = ops->any_thread ? ops->any_thread : no_any_thread,
                .wait = ops->wait ? ops->wait : no_wait,
                .give_up = ops->give_up ? ops->give_up : no_give_up,
                .wait_given_up = ops->wait_given_up ? ops->wait_given_up : nothing,
                .settle = ops->settle ? ops->settle : no_settle,
                .hear = ops->hear ? ops->hear : nothing,
                .goes_on = ops->goes_on ? ops->goes_on : no_goes_on,
                .end_calls = ops->end_calls ? ops->end_calls : nothing,
                .keeps = ops->keeps ? ops->keeps : no_keeps,
                .memory = ops->memory ? ops->memory : no_memory,
                .close = ops->close ? ops->close : nothing},
        .device = device,
    };
}
