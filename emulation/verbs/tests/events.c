/* SPDX-License-Identifier: Apache-2.0 */
/* Prints asynchronous events of a device, with the wall clock's milliseconds, until one PORT_ERR, PORT_ACTIVE and
 * GID_CHANGE each came. Exit 1 after 60 s without. Usage: events DEVICE */
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 60000

static struct ibv_context *open_named(const char *name)
{
    struct ibv_context *context = NULL;
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return context;
}

int main(int argc, char **argv)
{
    struct ibv_context *context = argc > 1 ? open_named(argv[1]) : NULL;
    bool down = false, up = false, gid = false;
    if (!context)
        return 1;
    while (!(down && up && gid)) {
        struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
        struct ibv_async_event event;
        struct timespec now;
        if (poll(&ready, 1, PATIENCE_MS) != 1 || ibv_get_async_event(context, &event))
            return 1;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%lld %s\n", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, ibv_event_type_str(event.event_type));
        fflush(stdout);
        down |= event.event_type == IBV_EVENT_PORT_ERR;
        up |= event.event_type == IBV_EVENT_PORT_ACTIVE && down;
        gid |= event.event_type == IBV_EVENT_GID_CHANGE;
        ibv_ack_async_event(&event);
    }
    return ibv_close_device(context);
}
