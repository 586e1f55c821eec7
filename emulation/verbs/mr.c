/* SPDX-License-Identifier: Apache-2.0 */
/* The table of memory regions. A key is an index and a tag that changes with each use of the index, so that a stale key
 * is caught. Both are masked by a number that each process draws, so that one process's keys are not valid in another.
 */
#include "verbs/mr.h"
#include "verbs/dmabuf.h"
#include "verbs/icrc.h"
#include "verbs/mapped.h"
#include "verbs/pace.h"
#include "verbs/posted.h"
#include "verbs/softverbs.h"

#include "base/clock.h"
#include "file_part.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAG_BITS    8
#define TABLE_START 64

static struct mr **table;
static uint8_t *tags;
static uint32_t table_size, free_hint = 1, mask;
static int registered;
static size_t pinned; /* bytes */
static const struct softverbs_memory *hook;
static bool hook_sought;

void softverbs_set_memory(const struct softverbs_memory *memory)
{
    hook = memory;
    hook_sought = true;
}

static void seek_hook(void)
{
    const char *name = getenv("SOFTVERBS_MEMORY");
    if (hook_sought)
        return;
    hook_sought = true;
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        hook = dlsym(library, "softverbs_memory");
}

static bool grow(void)
{
    if (!table && getrandom(&mask, sizeof mask, 0) < 0)
        return false;
    uint32_t size = table_size ? table_size * 2 : TABLE_START;
    if (size >= 1u << (32 - TAG_BITS))
        return false;
    struct mr **more = realloc(table, size * sizeof(*table));
    if (!more)
        return false;
    table = more;
    uint8_t *more_tags = realloc(tags, size);
    if (!more_tags)
        return false;
    tags = more_tags;
    memset(table + table_size, 0, (size - table_size) * sizeof(*table));
    memset(tags + table_size, 0, size - table_size);
    table_size = size;
    return true;
}

/* Index 0 is never used: it says that there is none. */
static uint32_t take_index(void)
{
    for (uint32_t tried = 1; tried < table_size; tried++) {
        uint32_t index = free_hint;
        free_hint = free_hint + 1 < table_size ? free_hint + 1 : 1;
        if (!table[index])
            return index;
    }
    uint32_t index = table_size ? table_size : 1;
    return grow() ? index : 0;
}

static size_t pages_of(const void *address, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)address & ~(page - 1);
    return ((uintptr_t)address + size - begin + page - 1) & ~(page - 1);
}

/* As the kernel counts what is pinned: by process here, and not at all for who may lock memory. */
static bool may_pin(size_t size)
{
    struct rlimit limit;
    struct __user_cap_header_struct who = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct can[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || pinned + size <= limit.rlim_cur)
        return true;
    return syscall(SYS_capget, &who, can) == 0 && can[0].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

static int check_access(int access)
{
    int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND | ACCESS_FLUSH;
    if (access & ~known)
        return EINVAL;
    if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    return 0;
}

static void hold(const struct mr *mr, int by)
{
    ((struct pd *)mr->ibv.pd)->users += by;
    registered += by;
    pinned += by > 0 ? mr->pinned : -mr->pinned;
}

struct mr *mr_enter(struct pd *pd, const struct mr *from)
{
    struct mr *mr = malloc(sizeof(*mr));
    uint32_t index = mr ? take_index() : 0;
    if (!index) {
        free(mr);
        return NULL;
    }
    *mr = *from;
    table[index] = mr;
    mr->ibv.context = pd->ibv.context;
    mr->ibv.pd = &pd->ibv;
    mr->ibv.handle = index;
    if (!((index << TAG_BITS | tags[index]) ^ mask))
        tags[index]++; /* 0 is a common value of uninitialised memory */
    mr->ibv.lkey = mr->ibv.rkey = (index << TAG_BITS | tags[index]++) ^ mask;
    hold(mr, 1);
    return mr;
}

struct mr *mr_register(struct pd *pd, void *address, size_t size, uint64_t iova, int access)
{
    seek_hook();
    access &= ~(int)IBV_ACCESS_OPTIONAL_RANGE;
    int err = check_access(access);
    struct mr new = {.ibv = {.addr = address, .length = size}, .host = address, .access = access};
    new.iova = access &IBV_ACCESS_ZERO_BASED ? 0 : iova;
    new.demand = access &IBV_ACCESS_ON_DEMAND;
    new.foreign = !err && !new.demand &&hook && hook->owns(address, size);
    if (!err && ((uintptr_t)address + size < (uintptr_t)address || iova + size < iova))
        err = EINVAL;
    if (!err && !new.foreign && !new.demand && !mapped_allows(address, size, access))
        err = EFAULT;
    new.pinned = new.foreign || new.demand ? 0 : pages_of(address, size);
    if (!err && !may_pin(new.pinned))
        err = ENOMEM;
    new.pace = pace_of(context_of(pd->ibv.context)->device, 0, new.demand ? NULL : address);
    struct mr *mr = err ? NULL : mr_enter(pd, &new);
    if (!mr)
        errno = err ? err : ENOMEM;
    return mr;
}

int mr_change(struct mr *mr, int what, struct pd *pd, void *address, size_t size, int access)
{
    bool moves = what & IBV_REREG_MR_CHANGE_TRANSLATION;
    pd = what & IBV_REREG_MR_CHANGE_PD ? pd : (struct pd *)mr->ibv.pd;
    access = what & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access;
    if (mr->windows || mr->mapping || mr->imported)
        return mr->windows ? EBUSY : EINVAL;
    address = moves ? address : mr->ibv.addr;
    struct mr *new =
        mr_register(pd, address, moves ? size : mr->ibv.length, moves ? (uintptr_t)address : mr->iova, access);
    if (!new)
        return errno;
    struct ibv_mr keys = mr->ibv; /* stay, as those of an mlx5 do */
    struct mr made = *new;
    mr_leave(new);
    mr_leave(mr);
    free(new);
    *mr = made;
    mr->ibv.handle = keys.handle;
    mr->ibv.lkey = keys.lkey;
    mr->ibv.rkey = keys.rkey;
    table[keys.handle] = mr;
    hold(mr, 1);
    return 0;
}

/* The kernel's checks: what it knows of access here is less, and an adapter's pages begin where those of the memory
 * do. */
static int check_dmabuf(uint64_t offset, size_t size, uint64_t iova, int access)
{
    int unknown = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND;
    if (access & unknown || (offset ^ iova) % PART_PAGE || offset + size < offset || iova + size < iova)
        return EINVAL;
    return check_access(access);
}

struct mr *mr_register_dmabuf(struct pd *pd, uint64_t offset, size_t size, uint64_t iova, int fd, int access)
{
    access &= ~(int)IBV_ACCESS_OPTIONAL_RANGE;
    struct mr new = {.ibv = {.addr = (void *)(uintptr_t)offset, .length = size}, .iova = iova, .access = access};
    int err = check_dmabuf(offset, size, iova, access);
    if (!err)
        err = dmabuf_map(&new, fd, offset, size, access & IBV_ACCESS_LOCAL_WRITE);
    new.pace = pace_of(context_of(pd->ibv.context)->device, new.memory, NULL);
    struct mr *mr = err ? NULL : mr_enter(pd, &new);
    if (mr)
        return mr;
    dmabuf_unmap(&new);
    errno = err ? err : ENOMEM;
    return NULL;
}

void mr_leave(struct mr *mr)
{
    hold(mr, -1);
    table[mr->ibv.handle] = NULL;
}

int mr_deregister(struct mr *mr)
{
    if (mr->windows || mr->imported)
        return mr->windows ? EBUSY : EINVAL;
    mr_leave(mr);
    if (mr->mapping)
        posted_push(mr);
    dmabuf_unmap(mr);
    free(mr);
    return 0;
}

int mr_count(void)
{
    return registered;
}

size_t mr_bytes(void)
{
    return pinned;
}

struct mr *mr_at(uint32_t key)
{
    uint32_t index = (key ^ mask) >> TAG_BITS;
    return index < table_size ? table[index] : NULL;
}

struct mr *mr_of_handle(uint32_t handle)
{
    return handle < table_size ? table[handle] : NULL;
}

static bool covers(const struct mr *mr, const struct pd *pd, uint64_t va, uint64_t size, int access)
{
    return pd_base(mr->ibv.pd) == pd && (mr->access & access) == access && size <= mr->ibv.length && va >= mr->iova &&
           va - mr->iova <= mr->ibv.length - size;
}

struct mr *mr_find(const struct pd *pd, uint32_t key, uint64_t va, uint64_t size, int access)
{
    struct mr *mr = mr_at(key);
    return mr && !mr->window && mr->ibv.lkey == key && covers(mr, pd, va, size, access) ? mr : NULL;
}

struct mr *mr_find_for_peer(const struct qp *qp, uint32_t key, uint64_t va, uint64_t size, int access)
{
    struct mr *mr = mr_at(key);
    if (!mr || mr->ibv.rkey != key || (mr->window && !mr->of) || (mr->only && mr->only != qp_number(qp)))
        return NULL;
    return covers(mr, qp_pd(qp), va, size, access) ? mr : NULL;
}

static void pass(const struct mr *mr, enum pace_way way, size_t size)
{
    if (mr->pace)
        pace_charge(mr->pace, way, size, clock_ns());
}

int mr_read(const struct mr *mr, uint64_t va, void *to, size_t size, uint32_t *crc)
{
    const uint8_t *from = mr->host + (va - mr->iova);
    pass(mr, PACE_OUT_OF_MEMORY, size);
    if (mr->mapping)
        posted_push(mr);
    if (!mr->foreign && !mr->demand) {
        *crc = icrc_copy(*crc, to, from, size);
        return 0;
    }
    int err = mr->demand ? mapped_read(to, from, size) : hook ? hook->read(to, from, size) : EFAULT;
    if (!err)
        *crc = icrc_add(*crc, to, size);
    return err;
}

int mr_write(const struct mr *mr, uint64_t va, const void *from, size_t size)
{
    uint8_t *to = mr->host + (va - mr->iova);
    pass(mr, PACE_INTO_MEMORY, size);
    if (mr->foreign)
        return hook ? hook->write(to, from, size) : EFAULT;
    if (mr->demand)
        return mapped_write(to, from, size);
    if (!mr->mapping || !posted_hold(mr, to, from, size))
        memcpy(to, from, size);
    return 0;
}

static int foreign_atomic(uint8_t *at, bool swap, uint64_t compare, uint64_t value, uint64_t *original)
{
    int err = hook ? hook->read(original, at, 8) : EFAULT;
    uint64_t result = swap ? value : *original + value;
    if (!err && (!swap || *original == compare))
        err = hook->write(at, &result, 8);
    return err;
}

int mr_atomic(const struct mr *mr, uint64_t va, bool swap, uint64_t compare, uint64_t value, uint64_t *original)
{
    uint8_t *at = mr->host + (va - mr->iova);
    if (mr->foreign)
        return foreign_atomic(at, swap, compare, value, original);
    if (mr->demand && mapped_populate(at, 8, true))
        return EFAULT;
    if (mr->mapping)
        posted_push(mr);
    uint64_t *word = (uint64_t *)(void *)at;
    if (swap) {
        *original = compare;
        __atomic_compare_exchange_n(word, original, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    } else {
        *original = __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
    }
    return 0;
}

uint64_t sgl_size(const struct ibv_sge *list, int n)
{
    uint64_t size = 0;
    for (int i = 0; i < n; i++)
        size += list[i].length;
    return size;
}

bool sgl_valid(const struct pd *pd, const struct ibv_sge *list, int n, int access)
{
    for (int i = 0; i < n; i++)
        if (list[i].length && !mr_find(pd, list[i].lkey, list[i].addr, list[i].length, access))
            return false;
    return true;
}

int sgl_read(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, void *to, size_t size,
             uint32_t *crc)
{
    uint8_t *at = to;
    int err = 0;
    for (int i = 0; i < n && size && !err; i++) {
        if (offset >= list[i].length) {
            offset -= list[i].length;
            continue;
        }
        size_t part = list[i].length - offset < size ? list[i].length - offset : size;
        struct mr *mr = mr_find(pd, list[i].lkey, list[i].addr + offset, part, 0);
        err = mr ? mr_read(mr, list[i].addr + offset, at, part, crc) : EFAULT;
        at += part;
        size -= part;
        offset = 0;
    }
    return err ? err : size ? EFAULT : 0;
}

int sgl_write(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, const void *from, size_t size)
{
    const uint8_t *at = from;
    int err = 0;
    for (int i = 0; i < n && size && !err; i++) {
        if (offset >= list[i].length) {
            offset -= list[i].length;
            continue;
        }
        size_t part = list[i].length - offset < size ? list[i].length - offset : size;
        struct mr *mr = mr_find(pd, list[i].lkey, list[i].addr + offset, part, IBV_ACCESS_LOCAL_WRITE);
        err = mr ? mr_write(mr, list[i].addr + offset, at, part) : EFAULT;
        at += part;
        size -= part;
        offset = 0;
    }
    return err ? err : size ? EFAULT : 0;
}

int mr_piece(const struct mr *mr, uint64_t va, size_t size, struct iovec *out)
{
    *out = (struct iovec){mr->host + (va - mr->iova), size};
    if (mr->foreign)
        return 0;
    pass(mr, PACE_OUT_OF_MEMORY, size);
    if (mr->mapping)
        posted_push(mr);
    return 1;
}

struct pace *sgl_pace(const struct pd *pd, const struct ibv_sge *list, int n, enum pace_way way)
{
    struct pace *slowest = NULL;
    for (int i = 0; i < n && pace_used(); i++) {
        const struct mr *mr = list[i].length ? mr_find(pd, list[i].lkey, list[i].addr, list[i].length, 0) : NULL;
        if (mr && mr->pace && pace_through(mr->pace, way) >= pace_through(slowest, way))
            slowest = mr->pace;
    }
    return slowest;
}

int sgl_pieces(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, size_t size, struct iovec *out,
               int most)
{
    int count = 0;
    for (int i = 0; i < n && size; i++) {
        if (offset >= list[i].length) {
            offset -= list[i].length;
            continue;
        }
        size_t part = list[i].length - offset < size ? list[i].length - offset : size;
        struct mr *mr = mr_find(pd, list[i].lkey, list[i].addr + offset, part, 0);
        if (count == most || !mr || !mr_piece(mr, list[i].addr + offset, part, &out[count++]))
            return 0;
        size -= part;
        offset = 0;
    }
    return size ? 0 : count;
}
