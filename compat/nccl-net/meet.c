/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks meet: the handle is the communicator's unique id, whoever listens is rank 0, and whoever connects rank 1.
 */
#include "nccl-net/net.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ONE_PLACE "NCCL_COMM_ID names one meeting point, and each connection needs one of its own: unset it"

/* A rank on its way into a communicator. */
struct joining {
    tutti_unique_id_t id;
    int rank;
    tutti_comm_t comm; /* NULL: it has not begun, or has ended */
    bool over;
};

struct net_listener {
    pthread_mutex_t lock;
    struct joining joining;
};

/* NCCL connects by calling again and again with one handle: that tells which call belongs to what was begun. */
struct connecting {
    struct connecting *next;
    const void *context;
    struct joining joining;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct connecting *all;
static tutti_unique_id_t latest; /* that was handed out */

_Static_assert(TUTTI_UNIQUE_ID_BYTES == NET_HANDLE, "a handle holds a unique id");

bool meet_possible(void)
{
    if (!getenv("NCCL_COMM_ID") || getenv("TUTTI_ID"))
        return true;
    LOG_WARN(ONE_PLACE);
    return false;
}

static tutti_result_t begin(struct joining *joining)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.name = joining->rank == NET_SENDER ? "nccl-net send" : "nccl-net receive";
    tutti_result_t result = tutti_comm_init_rank(&joining->comm, 2, &joining->id, joining->rank, &config);
    if (result != TUTTI_SUCCESS && result != TUTTI_IN_PROGRESS)
        joining->comm = NULL;
    return result;
}

static void end(struct joining *joining)
{
    if (joining->comm) {
        tutti_comm_abort(joining->comm);
        tutti_comm_destroy(joining->comm);
    }
    joining->comm = NULL;
    joining->over = true;
}

/* Looks how far it is. */
static enum net_result look(struct joining *joining, struct connection **out)
{
    tutti_result_t state = TUTTI_IN_PROGRESS;
    tutti_result_t result = joining->comm ? TUTTI_SUCCESS : begin(joining);
    *out = NULL;
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_get_async_error(joining->comm, &state);
    if (result == TUTTI_SUCCESS)
        result = state;
    if (result == TUTTI_IN_PROGRESS)
        return NET_SUCCESS;
    enum net_result said = log_result(result, joining->comm, joining->rank == NET_SENDER ? "connecting" : "accepting");
    if (said == NET_SUCCESS && !(*out = connection_open(joining->comm, joining->rank)))
        said = NET_SYSTEM_ERROR;
    if (said == NET_SUCCESS)
        joining->comm = NULL;
    end(joining);
    return said;
}

/* ---- The receiver ---- */

/* NCCL_COMM_ID may also stand in a file that NCCL reads: then ids come twice. */
static enum net_result new_id(tutti_unique_id_t *out)
{
    enum net_result result = log_result(tutti_get_unique_id(out), NULL, "listening");
    pthread_mutex_lock(&lock);
    bool again = result == NET_SUCCESS && !memcmp(out, &latest, sizeof latest);
    latest = *out;
    pthread_mutex_unlock(&lock);
    if (again)
        LOG_WARN(ONE_PLACE);
    return again ? NET_INVALID_USAGE : result;
}

enum net_result meet_listen(unsigned char *handle, struct net_listener **out)
{
    struct net_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return NET_SYSTEM_ERROR;
    enum net_result result = new_id(&listener->joining.id);
    if (result != NET_SUCCESS) {
        free(listener);
        return result;
    }
    pthread_mutex_init(&listener->lock, NULL);
    listener->joining.rank = NET_RECEIVER;
    memcpy(handle, listener->joining.id.bytes, NET_HANDLE);
    *out = listener;
    return NET_SUCCESS;
}

enum net_result meet_accept(struct net_listener *listener, struct connection **out)
{
    enum net_result result = NET_SUCCESS;
    *out = NULL;
    pthread_mutex_lock(&listener->lock);
    if (!listener->joining.over) /* the handle is good for one connection */
        result = look(&listener->joining, out);
    pthread_mutex_unlock(&listener->lock);
    return result;
}

/* A meeting point that nobody has come to stays until the process ends. */
void meet_close(struct net_listener *listener)
{
    end(&listener->joining);
    pthread_mutex_destroy(&listener->lock);
    free(listener);
}

/* ---- The sender ---- */

/* Where it is linked in; what it points to is NULL if it is not. */
static struct connecting **find(const void *context, const unsigned char *handle)
{
    struct connecting **at = &all;
    while (*at && ((*at)->context != context || memcmp((*at)->joining.id.bytes, handle, NET_HANDLE) != 0))
        at = &(*at)->next;
    return at;
}

static enum net_result connect_locked(const void *context, const unsigned char *handle, struct connection **out)
{
    struct connecting **at = find(context, handle), *connecting = *at;
    if (!connecting) {
        connecting = *at = calloc(1, sizeof *connecting);
        if (!connecting)
            return NET_SYSTEM_ERROR;
        connecting->context = context;
        connecting->joining.rank = NET_SENDER;
        memcpy(connecting->joining.id.bytes, handle, NET_HANDLE);
    }
    enum net_result result = look(&connecting->joining, out);
    if (connecting->joining.over) {
        *at = connecting->next;
        free(connecting);
    }
    return result;
}

enum net_result meet_connect(const void *context, const unsigned char *handle, struct connection **out)
{
    *out = NULL;
    pthread_mutex_lock(&lock);
    enum net_result result = connect_locked(context, handle, out);
    pthread_mutex_unlock(&lock);
    return result;
}

void meet_give_up(const void *context)
{
    pthread_mutex_lock(&lock);
    for (struct connecting **at = &all; *at;) {
        struct connecting *connecting = *at;
        if (connecting->context != context) {
            at = &connecting->next;
            continue;
        }
        *at = connecting->next;
        end(&connecting->joining);
        free(connecting);
    }
    pthread_mutex_unlock(&lock);
}
