/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl-net/requests.h"

#include <stdlib.h>
#include <string.h>

/* The bytes follow. */
struct net_early {
    struct net_early *next;
    struct net_part part;
};

static struct net_request *unused(struct net_requests *requests)
{
    for (int i = 0; i < NET_REQUESTS; i++)
        if (!requests->request[i].used)
            return &requests->request[i];
    return NULL;
}

struct net_request *requests_add(struct net_requests *requests, int n, void *const *data, const size_t *sizes,
                                 const int *tags)
{
    struct net_request *request = unused(requests), **at = &requests->first;
    if (!request)
        return NULL;
    *request = (struct net_request){.count = n, .waits = n, .left = n, .used = true};
    for (int i = 0; i < n; i++)
        request->part[i] = (struct net_part){request, data[i], sizes[i], tags[i], false, false};
    while (*at)
        at = &(*at)->next;
    *at = request;
    requests->unfinished++;
    return request;
}

bool requests_wait(const struct net_requests *requests)
{
    return requests->first;
}

/* at: where its request is linked in. */
static void take(struct net_request **at, struct net_part *part)
{
    part->taken = true;
    if (!--part->request->waits)
        *at = part->request->next;
}

struct net_part *requests_next(struct net_requests *requests)
{
    if (!requests->first)
        return NULL;
    struct net_part *part = &requests->first->part[0];
    take(&requests->first, part);
    return part;
}

/* The first part that waits for the tag, if any, which is taken. */
static enum net_result find(struct net_requests *requests, int tag, uint64_t size, struct net_part **out)
{
    *out = NULL;
    for (struct net_request **at = &requests->first; *at; at = &(*at)->next)
        for (int i = 0; i < (*at)->count; i++) {
            struct net_part *part = &(*at)->part[i];
            if (part->taken || part->tag != tag)
                continue;
            if (size > part->size) {
                LOG_WARN("a send of %llu bytes meets a receive of %llu", (unsigned long long)size,
                         (unsigned long long)part->size);
                return NET_INVALID_USAGE;
            }
            part->size = size;
            take(at, part);
            *out = part;
            return NET_SUCCESS;
        }
    return NET_SUCCESS;
}

static enum net_result keep(struct net_requests *requests, int tag, uint64_t size, struct net_part **out)
{
    struct net_early **at = &requests->early;
    if (size > NET_MOST_KEPT - requests->kept) {
        LOG_WARN("%llu bytes of tag %d came before their receive, beside %zu of others: %zu are kept at most",
                 (unsigned long long)size, tag, requests->kept, NET_MOST_KEPT);
        return NET_INTERNAL_ERROR;
    }
    struct net_early *early = malloc(sizeof *early + size);
    if (!early) {
        LOG_WARN("no memory for %llu bytes of tag %d, which came before their receive", (unsigned long long)size, tag);
        return NET_SYSTEM_ERROR;
    }
    *early = (struct net_early){.part = {.data = early + 1, .size = size, .tag = tag, .taken = true}};
    while (*at)
        at = &(*at)->next;
    *at = early;
    requests->kept += size;
    *out = &early->part;
    return NET_SUCCESS;
}

enum net_result requests_match(struct net_requests *requests, int tag, uint64_t size, struct net_part **out)
{
    enum net_result result = find(requests, tag, size, out);
    return result == NET_SUCCESS && !*out ? keep(requests, tag, size, out) : result;
}

void requests_came(struct net_requests *requests, struct net_part *part)
{
    part->came = true;
    if (part->request && !--part->request->left)
        requests->unfinished--;
}

enum net_result requests_hand_out(struct net_requests *requests)
{
    enum net_result result = NET_SUCCESS;
    for (struct net_early **at = &requests->early; *at && result == NET_SUCCESS;) {
        struct net_early *early = *at;
        struct net_part *part = NULL;
        if (early->part.came)
            result = find(requests, early->part.tag, early->part.size, &part);
        if (!part) {
            at = &early->next;
            continue;
        }
        memcpy(part->data, early->part.data, early->part.size);
        requests_came(requests, part);
        requests->kept -= early->part.size;
        *at = early->next;
        free(early);
    }
    return result;
}

void requests_free(struct net_requests *requests)
{
    for (struct net_early *early = requests->early, *next; early; early = next) {
        next = early->next;
        free(early);
    }
    requests->early = NULL;
}
