/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl-net/driver.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int driver_side, driver_runs;
static _Atomic unsigned warnings;

/* ---- Ends are processes ---- */

static pid_t start(int side, int version, end_fn *function, const int sockets[2])
{
    fflush(NULL);
    pid_t child = fork();
    if (child)
        return child;
    alarm(DRIVER_PATIENCE);
    driver_side = side;
    struct end end = {.socket = sockets[side], .side = side};
    close(sockets[!side]);
    if (version) {
        net_load(&end.net, version);
        CHECK_CALL(net_init(&end.net));
        net_check_devices(&end.net);
    }
    function(&end);
    if (version)
        net_unload(&end.net);
    exit(0); /* not _exit(): sanitizers look for leaks then */
}

/* A killed end is no failure: a test that kills an end expects it. */
static bool ended_well(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        fprintf(stderr, "an end died of signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : !WEXITSTATUS(status);
}

bool driver_pair(int version, end_fn *first, end_fn *second)
{
    int sockets[2];
    driver_runs++;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    pid_t children[2] = {start(0, version, first, sockets), second ? start(1, version, second, sockets) : 0};
    close(sockets[0]);
    close(sockets[1]);
    bool well = ended_well(children[0]);
    return (!second || ended_well(children[1])) && well;
}

bool driver_alone(int version, end_fn *only)
{
    return driver_pair(version, only, NULL);
}

/* ---- Loading ---- */

static __attribute__((format(printf, 5, 6))) void hear(enum net_level level, unsigned long subsystems, const char *file,
                                                       int line, const char *format, ...)
{
    va_list arguments;
    if (level == NET_LOG_WARN)
        atomic_fetch_add(&warnings, 1);
    if (level != NET_LOG_WARN && !getenv("DRIVER_TELLS"))
        return;
    va_start(arguments, format);
    fprintf(stderr, "end %d: ", driver_side);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
}

unsigned net_warnings(void)
{
    return atomic_load(&warnings);
}

static enum net_result profile(void **event, int type, void *parent, int64_t plugin, void *data)
{
    return NET_SUCCESS;
}

void net_load(struct net *net, int version)
{
    char name[40];
    snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
    *net = (struct net){.version = version, .library = dlopen(getenv("DRIVER_PLUGIN"), RTLD_NOW | RTLD_LOCAL)};
    if (!net->library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(net->library);
    const void *table = dlsym(net->library, name);
    CHECK(table);
    net->v8 = version == 8 ? table : NULL;
    net->v9 = version == 9 ? table : NULL;
    net->v10 = version == 10 ? table : NULL;
    net->v11 = version == 11 ? table : NULL;
    net->memory = net->v8    ? &net->v8->memory
                  : net->v9  ? &net->v9->memory
                  : net->v10 ? &net->v10->memory
                             : &net->v11->memory;
    net->end = net->v8 ? &net->v8->end : net->v9 ? &net->v9->end : net->v10 ? &net->v10->end : &net->v11->end;
}

enum net_result net_init(struct net *net)
{
    struct net_wishes wishes = {NET_NO_CLASS};
    if (net->v8)
        return net->v8->init(hear);
    if (net->v9)
        return net->v9->init(hear);
    return net->v10 ? net->v10->init(hear, profile) : net->v11->init(&net->context, 0x1234, &wishes, hear, profile);
}

static struct net_properties_11 properties(const struct net *net, int index)
{
    struct net_properties_11 all;
    struct net_properties_8 few;
    memset(&all, 0x5a, sizeof all);
    if (net->v8) {
        CHECK_CALL(net->v8->properties(index, &few));
        all.common = (struct net_properties_9){few.name,
                                               few.pci_path,
                                               few.guid,
                                               few.pointers,
                                               few.global_memory,
                                               0,
                                               few.speed,
                                               few.port,
                                               few.latency,
                                               few.most_connections,
                                               few.most_grouped,
                                               few.device_type,
                                               few.device_version,
                                               {1, {index}},
                                               1,
                                               1};
    } else if (!net->v11) {
        CHECK_CALL((net->v9 ? net->v9->properties : net->v10->properties)(index, &all.common));
    } else {
        CHECK_CALL(net->v11->properties(index, &all));
        CHECK(all.most_at_once == 1);
    }
    return all;
}

static void check_device(struct net *net, int index)
{
    struct net_properties_9 device = properties(net, index).common;
    CHECK(!strncmp(device.name, "tutti", 5) && device.pointers == NET_HOST_MEMORY && device.speed > 0);
    CHECK(device.most_connections > 1000 && device.most_grouped == DRIVER_GROUPED && !device.device_type);
    CHECK(!device.must_flush && !device.global_memory && device.latency >= 0 && device.guid == (uint64_t)index);
    CHECK(device.fused.count == 1 && device.fused.device[0] == index);
    CHECK(device.most_bytes && device.most_collective_bytes);
}

int net_check_devices(struct net *net)
{
    int count = 0;
    CHECK_CALL(net->v8    ? net->v8->devices(&count)
               : net->v9  ? net->v9->devices(&count)
               : net->v10 ? net->v10->devices(&count)
                          : net->v11->devices(&count));
    CHECK(count >= 1);
    for (int index = 0; index < count; index++)
        check_device(net, index);
    if (net->v11) {
        struct net_hints hints = {.op = 1};
        CHECK_CALL(net->v11->hint(net->context, &hints));
    }
    return count;
}

void net_unload(struct net *net)
{
    if (net->v11)
        CHECK_CALL(net->v11->finalize(net->context));
    dlclose(net->library);
}

void *net_symbol(const char *name)
{
    void *library = dlopen("libtutti.so.0", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library);
    void *symbol = dlsym(library, name);
    CHECK(symbol);
    dlclose(library);
    return symbol;
}

/* ---- Calls that differ ---- */

enum net_result net_listen(const struct net *net, int device, void *handle, void **listener)
{
    if (net->v8)
        return net->v8->listen(device, handle, listener);
    if (net->v9)
        return net->v9->listen(device, handle, listener);
    return net->v10 ? net->v10->listen(device, handle, listener)
                    : net->v11->listen(net->context, device, handle, listener);
}

enum net_result net_connect(const struct net *net, int device, void *handle, void **connection)
{
    struct net_wishes wishes = {7};
    void *on_device = NULL;
    if (net->v8)
        return net->v8->connect(device, handle, connection, &on_device);
    if (net->v9)
        return net->v9->connect(device, handle, connection, &on_device);
    return net->v10 ? net->v10->connect(device, &wishes, handle, connection, &on_device)
                    : net->v11->connect(net->context, device, handle, connection, &on_device);
}

enum net_result net_send_as(const struct net *net, void *connection, int tag, void *data, size_t size, void *memory,
                            void **request)
{
    if (net->v8)
        return net->v8->send(connection, data, (int)size, tag, memory, request);
    if (net->v9)
        return net->v9->send(connection, data, size, tag, memory, request);
    return (net->v10 ? net->v10->send : net->v11->send)(connection, data, size, tag, memory, NULL, request);
}

enum net_result net_send(const struct net *net, void *connection, void *data, size_t size, void *memory, void **request)
{
    return net_send_as(net, connection, DRIVER_TAG, data, size, memory, request);
}

enum net_result net_receive_grouped(const struct net *net, void *connection, int n, void **data, size_t *sizes,
                                    int *tags, void **request)
{
    int few[DRIVER_GROUPED + 1];
    void *memory[DRIVER_GROUPED + 1] = {NULL}, *events[DRIVER_GROUPED + 1] = {NULL};
    for (int i = 0; i < n; i++)
        few[i] = (int)sizes[i];
    *request = NET_ANY_ENDING; /* as NCCL hands it in where it looks at the data itself */
    if (net->v8)
        return net->v8->receive(connection, n, data, few, tags, memory, request);
    if (net->v9)
        return net->v9->receive(connection, n, data, sizes, tags, memory, request);
    return (net->v10 ? net->v10->receive : net->v11->receive)(connection, n, data, sizes, tags, memory, events,
                                                              request);
}

enum net_result net_receive(const struct net *net, void *connection, void *data, size_t size, void *memory,
                            void **request)
{
    return net_receive_grouped(net, connection, 1, &data, &size, (int[]){DRIVER_TAG}, request);
}

/* ---- Two ends ---- */

void end_tell(const struct end *end, const void *data, size_t size)
{
    CHECK(send(end->socket, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

void end_hear(const struct end *end, void *data, size_t size)
{
    CHECK(recv(end->socket, data, size, MSG_WAITALL) == (ssize_t)size);
}

void end_meet(const struct end *end)
{
    char byte = 1;
    end_tell(end, &byte, 1);
    end_hear(end, &byte, 1);
}

/* One thread calls all in turn: a call that waited for the peer would wait for ever. */
void end_connect(const struct end *end, void **sends, void **receives)
{
    unsigned char ours[NET_HANDLE], theirs[NET_HANDLE];
    void *listener = NULL;
    if (receives) {
        CHECK_CALL(net_listen(&end->net, 0, ours, &listener));
        CHECK(listener);
        end_tell(end, ours, sizeof ours);
        *receives = NULL;
    }
    if (sends) {
        end_hear(end, theirs, sizeof theirs);
        *sends = NULL;
    }
    while ((sends && !*sends) || (receives && !*receives)) {
        if (sends && !*sends)
            CHECK_CALL(net_connect(&end->net, 0, theirs, sends));
        if (receives && !*receives)
            CHECK_CALL(end->net.memory->accept(listener, receives, &(void *){NULL}));
        usleep(100);
    }
    if (receives)
        CHECK_CALL(end->net.end->close_listen(listener));
}

enum net_result end_wait(const struct end *end, void *request, int *size)
{
    int done = 0;
    enum net_result result = NET_SUCCESS;
    while (!done && result == NET_SUCCESS) {
        result = end->net.end->test(request, &done, size);
        sched_yield();
    }
    return result;
}

/* ---- Payloads ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void payload_fill(unsigned char *data, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mixed(seed + i);
        memcpy(data + i, &word, size - i < 8 ? size - i : 8);
    }
}

bool payload_is(const unsigned char *data, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mixed(seed + i);
        if (memcmp(data + i, &word, size - i < 8 ? size - i : 8) != 0)
            return false;
    }
    return true;
}
