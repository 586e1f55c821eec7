/* SPDX-License-Identifier: Apache-2.0 */
/* The library behind inject.h: stands before the C library's functions and makes chosen calls fail. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT bool inject_arm(const char *specification);
EXPORT unsigned long inject_disarm(void);
EXPORT unsigned long inject_calls(void);

/* name, errno of its failure */
#define FUNCTIONS(X)                                                                                                   \
    X(malloc, ENOMEM)                                                                                                  \
    X(calloc, ENOMEM)                                                                                                  \
    X(realloc, ENOMEM)                                                                                                 \
    X(connect, ENETUNREACH)                                                                                            \
    X(accept4, EMFILE)                                                                                                 \
    X(send, ECONNRESET)                                                                                                \
    X(sendmsg, ECONNRESET)                                                                                             \
    X(recv, ECONNRESET)                                                                                                \
    X(recvmsg, ECONNRESET)                                                                                             \
    X(socket, EMFILE)                                                                                                  \
    X(epoll_ctl, ENOSPC)                                                                                               \
    X(mmap, ENOMEM)                                                                                                    \
    X(memfd_create, ENOSYS)                                                                                            \
    X(eventfd, EMFILE)                                                                                                 \
    X(poll, ENOMEM)

enum function {
#define X(name, error) F_##name,
    FUNCTIONS(X)
#undef X
        F_COUNT,
    F_ANY,
    F_SHORT,
    F_NONE
};

static const char *const names[] = {
#define X(name, error) #name,
    FUNCTIONS(X)
#undef X
};
static const int errors[] = {
#define X(name, error) error,
    FUNCTIONS(X)
#undef X
};

static void *real[F_COUNT];
static _Atomic int target = F_NONE;
static _Atomic unsigned long first, calls, fired;
static _Atomic bool all_after;
static _Thread_local bool resolving;

/* dlsym may want memory before malloc is known. It is little and never given back. */
static void *early(size_t size)
{
    static _Alignas(16) char arena[8192];
    static _Atomic size_t used;
    size_t at = atomic_fetch_add(&used, (size + 15) & ~(size_t)15);
    return at + size <= sizeof arena ? arena + at : NULL;
}

static void *real_of(enum function f)
{
    void *found = __atomic_load_n(&real[f], __ATOMIC_ACQUIRE);
    if (found)
        return found;
    resolving = true;
    found = dlsym(RTLD_NEXT, names[f]);
    resolving = false;
    __atomic_store_n(&real[f], found, __ATOMIC_RELEASE);
    return found;
}

/* Must this call fail? Sets errno then. */
static bool fails(enum function f)
{
    int wanted = atomic_load_explicit(&target, memory_order_relaxed);
    if (wanted != (int)f && wanted != F_ANY)
        return false;
    unsigned long call = atomic_fetch_add(&calls, 1) + 1, from = atomic_load(&first);
    if (call != from && !(atomic_load(&all_after) && call > from))
        return false;
    atomic_fetch_add(&fired, 1);
    errno = errors[f];
    return true;
}

/*
 * A sanitizer's own threads and reports allocate through the C library and cannot bear failures. Where one is loaded,
 * allocations that the C library or the sanitizer asks for are left alone.
 */
static struct range {
    uintptr_t start, end;
} spared[8];
static int spared_count;
static bool sanitized;

static bool is_sanitizer(const char *name)
{
    return strstr(name, "libasan") || strstr(name, "libtsan") || strstr(name, "libubsan") || strstr(name, "liblsan");
}

static int look_at(struct dl_phdr_info *object, size_t size, void *unused)
{
    const char *name = object->dlpi_name ? object->dlpi_name : "";
    sanitized |= is_sanitizer(name);
    if (!is_sanitizer(name) && !strstr(name, "libc.so") && !strstr(name, "ld-linux"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum && spared_count < 8; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X))
            spared[spared_count++] = (struct range){start, start + part->p_memsz};
    }
    return 0;
}

static bool allocation_fails(enum function f, const void *caller)
{
    for (int i = 0; i < spared_count && sanitized; i++)
        if ((uintptr_t)caller >= spared[i].start && (uintptr_t)caller < spared[i].end)
            return false;
    return fails(f);
}

static size_t cut(size_t size)
{
    if (atomic_load_explicit(&target, memory_order_relaxed) != F_SHORT)
        return size;
    atomic_fetch_add(&calls, 1);
    unsigned long most = atomic_load(&first);
    if (size <= most)
        return size;
    atomic_fetch_add(&fired, 1);
    return most;
}

static int function_of(const char *name, size_t length)
{
    if (length == 3 && strncmp(name, "any", 3) == 0)
        return F_ANY;
    if (length == 5 && strncmp(name, "short", 5) == 0)
        return F_SHORT;
    for (int f = 0; f < F_COUNT; f++)
        if (strlen(names[f]) == length && strncmp(names[f], name, length) == 0)
            return f;
    return F_NONE;
}

bool inject_arm(const char *specification)
{
    const char *colon = strchr(specification, ':');
    char *end;
    int wanted = colon ? function_of(specification, (size_t)(colon - specification)) : F_NONE;
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (wanted == F_NONE || !number || (*end && strcmp(end, "+") != 0))
        return false;
    atomic_store(&target, F_NONE);
    atomic_store(&first, number);
    atomic_store(&all_after, *end == '+');
    atomic_store(&calls, 0);
    atomic_store(&fired, 0);
    atomic_store(&target, wanted);
    return true;
}

unsigned long inject_disarm(void)
{
    atomic_store(&target, F_NONE);
    return atomic_load(&fired);
}

unsigned long inject_calls(void)
{
    return atomic_load(&calls);
}

static __attribute__((constructor)) void start(void)
{
    const char *specification = getenv("TUTTI_INJECT");
    for (int f = 0; f < F_COUNT; f++)
        real_of((enum function)f);
    dl_iterate_phdr(look_at, NULL);
    if (specification && *specification && !inject_arm(specification)) {
        fprintf(stderr, "TUTTI_INJECT=%s is not understood\n", specification);
        _exit(99);
    }
}

static __attribute__((destructor)) void report(void)
{
    char line[80];
    const char *path = getenv("TUTTI_INJECT_REPORT");
    unsigned long made = inject_disarm();
    int fd = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    int length = snprintf(line, sizeof line, "calls=%lu fired=%lu\n", inject_calls(), made);
    ssize_t ignored = write(fd, line, (size_t)length);
    (void)ignored;
    close(fd);
}

/* The functions themselves. `name` is what they are called, so that no header's macro gets in the way. */
#define REAL(name, type) ((type)(uintptr_t)real_of(F_##name))

EXPORT void *malloc(size_t size)
{
    if (resolving)
        return early(size);
    return allocation_fails(F_malloc, __builtin_return_address(0)) ? NULL : REAL(malloc, void *(*)(size_t))(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    if (resolving)
        return early(count * size);
    return allocation_fails(F_calloc, __builtin_return_address(0))
               ? NULL
               : REAL(calloc, void *(*)(size_t, size_t))(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    return allocation_fails(F_realloc, __builtin_return_address(0))
               ? NULL
               : REAL(realloc, void *(*)(void *, size_t))(old, size);
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    return fails(F_connect) ? -1 : REAL(connect, int (*)(int, const struct sockaddr *, socklen_t))(fd, to, size);
}

EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    return fails(F_accept4) ? -1
                            : REAL(accept4, int (*)(int, struct sockaddr *, socklen_t *, int))(fd, from, size, flags);
}

EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return fails(F_send) ? -1 : REAL(send, ssize_t(*)(int, const void *, size_t, int))(fd, data, cut(size), flags);
}

EXPORT ssize_t recv(int fd, void *data, size_t size, int flags)
{
    return fails(F_recv) ? -1 : REAL(recv, ssize_t(*)(int, void *, size_t, int))(fd, data, cut(size), flags);
}

/* A message cut to K bytes: as many whole pieces as fit, or the beginning of the first. */
static struct msghdr cut_message(const struct msghdr *message, struct iovec *piece)
{
    struct msghdr less = *message;
    size_t i = 0, total = 0;
    if (atomic_load_explicit(&target, memory_order_relaxed) != F_SHORT)
        return less;
    while (i < message->msg_iovlen && !message->msg_iov[i].iov_len)
        i++;
    for (size_t k = i; k < message->msg_iovlen; k++)
        total += message->msg_iov[k].iov_len;
    if (cut(total) == total)
        return less;
    *piece = message->msg_iov[i];
    if (piece->iov_len > atomic_load(&first))
        piece->iov_len = atomic_load(&first);
    less.msg_iov = piece;
    less.msg_iovlen = 1;
    return less;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec piece;
    if (fails(F_sendmsg))
        return -1;
    struct msghdr less = cut_message(message, &piece);
    return REAL(sendmsg, ssize_t(*)(int, const struct msghdr *, int))(fd, &less, flags);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct iovec piece;
    if (fails(F_recvmsg))
        return -1;
    struct msghdr less = cut_message(message, &piece);
    ssize_t got = REAL(recvmsg, ssize_t(*)(int, struct msghdr *, int))(fd, &less, flags);
    message->msg_namelen = less.msg_namelen;
    message->msg_controllen = less.msg_controllen;
    message->msg_flags = less.msg_flags;
    return got;
}

EXPORT int socket(int family, int type, int protocol)
{
    return fails(F_socket) ? -1 : REAL(socket, int (*)(int, int, int))(family, type, protocol);
}

EXPORT int epoll_ctl(int set, int what, int fd, struct epoll_event *event)
{
    /* Taking a descriptor out cannot fail. */
    if (what != EPOLL_CTL_DEL && fails(F_epoll_ctl))
        return -1;
    return REAL(epoll_ctl, int (*)(int, int, int, struct epoll_event *))(set, what, fd, event);
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return allocation_fails(F_mmap, __builtin_return_address(0))
               ? MAP_FAILED
               : REAL(mmap, void *(*)(void *, size_t, int, int, int, off_t))(at, size, protection, flags, fd, offset);
}

/* What programs with 64-bit file offsets call mmap. */
EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
    return allocation_fails(F_mmap, __builtin_return_address(0))
               ? MAP_FAILED
               : REAL(mmap, void *(*)(void *, size_t, int, int, int, off_t))(at, size, protection, flags, fd, offset);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
    return fails(F_memfd_create) ? -1 : REAL(memfd_create, int (*)(const char *, unsigned))(name, flags);
}

EXPORT int eventfd(unsigned count, int flags)
{
    return fails(F_eventfd) ? -1 : REAL(eventfd, int (*)(unsigned, int))(count, flags);
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    return fails(F_poll) ? -1 : REAL(poll, int (*)(struct pollfd *, nfds_t, int))(fds, count, timeout);
}
