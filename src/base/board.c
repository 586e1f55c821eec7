/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock is one of fcntl(2) that belongs to the process: no child inherits it, and it ends when the process closes
 * any descriptor of the file. So a process has one descriptor, whoever opens the board. Processes of one user trust one
 * another not to shorten the file: they may end each other anyway.
 * A process that has locked the whole file may remove it: nobody has a slot. One that had opened it before sees, once
 * it has a slot, that another file is there or none, and begins again.
 */
#include "base/board.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOARD_MAGIC 0x35304452414f4254ull /* "TBOARD05": another layout has another file */
#define FOLDER      "/dev/shm/"
#define LOOK_AGAIN  (2 * NS_PER_MS)
#define STILL       NS_PER_S /* without a word of what waits */
#define TRIES       1000     /* to be alone with the board: one that was stopped in the middle keeps nobody */

struct board_slot {
    _Alignas(64) _Atomic uint32_t taken; /* by the process of this number, which may be gone: the lock says */
    struct board_use use[BOARD_NICS];
};
_Static_assert(BOARD_MAGIC >> 56 == '5' && sizeof(struct board_slot) == 2688, "another layout has another magic");

struct board {
    int fd; /* -1: not open */
    int users;
    uint64_t host;
    struct board_slot *slots;
    int mine;
    _Atomic uint64_t looked; /* when `lives` was true */
    _Atomic bool lives[BOARD_SLOTS];
    _Atomic int end; /* behind the last of those */
};

static struct board the_board = {.fd = -1};
static pthread_mutex_t board_lock = PTHREAD_MUTEX_INITIALIZER;

/* The child has none of the locks, and nothing to write: it opens a board of its own. */
static void board_reset(void)
{
    if (the_board.fd >= 0)
        close(the_board.fd);
    the_board = (struct board){.fd = -1};
    pthread_mutex_init(&board_lock, NULL);
}

__attribute__((constructor)) static void board_watch_forks(void)
{
    fork_reset_by(board_reset);
}

static bool board_try_lock(const struct board *board, int at, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(board->fd, F_SETLK, &lock) == 0;
}

/* Alone with the board: none of those is who removes it. */
static void board_be_alone(const struct board *board)
{
    for (int i = 0; i < TRIES && !board_try_lock(board, BOARD_SLOTS, F_WRLCK); i++)
        sched_yield();
}

static bool board_lives(const struct board *board, int slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return atomic_load(&board->slots[slot].taken) && fcntl(board->fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void board_clear(struct board_slot *slot)
{
    for (int i = 0; i < BOARD_NICS; i++) {
        atomic_store(&slot->use[i].nic, 0);
        atomic_store(&slot->use[i].outstanding, 0);
        atomic_store(&slot->use[i].waiting, 0);
        atomic_store(&slot->use[i].told, 0);
        atomic_store(&slot->use[i].owned, 0);
        atomic_store(&slot->use[i].pace, 0);
        atomic_store(&slot->use[i].out, 0);
        atomic_store(&slot->use[i].in, 0);
    }
}

static bool board_map(struct board *board)
{
    struct stat status;
    size_t size = sizeof(struct board_slot) * BOARD_SLOTS;
    if (fstat(board->fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid())
        return false;
    if ((size_t)status.st_size < size && file_grow(board->fd, size) != 0) /* by posix_fallocate() it may be a SIGXFSZ */
        return false;
    if ((errno = posix_fallocate(board->fd, 0, (off_t)size)) != 0) /* a store into a hole of a full disk is a SIGBUS */
        return false;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, board->fd, 0);
    board->slots = base == MAP_FAILED ? NULL : base;
    return board->slots;
}

static void board_unmap(struct board *board)
{
    if (board->slots)
        munmap(board->slots, sizeof *board->slots * BOARD_SLOTS);
    if (board->fd >= 0)
        close(board->fd);
    *board = (struct board){.fd = -1};
}

void board_path(uint64_t host, char out[BOARD_PATH])
{
    snprintf(out, BOARD_PATH, FOLDER "tutti-board-%u-%016llx", geteuid(), (unsigned long long)(host ^ BOARD_MAGIC));
}

static bool board_is_at(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

static void board_remove_unused(int fd, const char *path)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &whole) == 0 && board_is_at(fd, path))
        unlink(path);
}

/* Boards of hosts that have no process any more: hosts may be containers, or differ by TUTTI_HOSTID. */
static void board_remove_others(const char *mine)
{
    char prefix[32], path[sizeof FOLDER + NAME_MAX];
    struct dirent *entry;
    DIR *folder = opendir(FOLDER);
    snprintf(prefix, sizeof prefix, "tutti-board-%u-", geteuid());
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, FOLDER "%s", entry->d_name);
        bool other = strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && strcmp(path, mine) != 0;
        int fd = other ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
        if (fd < 0)
            continue;
        board_remove_unused(fd, path);
        close(fd);
    }
    if (folder)
        closedir(folder);
}

static bool board_take_slot(struct board *board)
{
    bool taken = false;
    board_be_alone(board);
    for (int slot = 0; !taken && slot < BOARD_SLOTS; slot++) {
        taken = board_try_lock(board, slot, F_WRLCK);
        board->mine = slot;
    }
    if (taken) {
        board_clear(&board->slots[board->mine]); /* of whoever had it before, and is gone: he owns nothing */
        atomic_store(&board->slots[board->mine].taken, (uint32_t)getpid());
    }
    board_try_lock(board, BOARD_SLOTS, F_UNLCK);
    return taken;
}

static bool board_begin(struct board *board, uint64_t host)
{
    char path[BOARD_PATH];
    const char *why = "others remove it each time";
    board_path(host, path);
    board_remove_others(path);
    for (int i = 0; i < TRIES; i++, board_unmap(board)) {
        board->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        bool open = board->fd >= 0 && board_map(board);
        if (!open || !board_take_slot(board)) {
            why = open ? "it is full" : strerror(errno);
            if (board->fd >= 0)
                board_remove_unused(board->fd, path); /* made here, perhaps */
            break;
        }
        if (!board_is_at(board->fd, path))
            continue;
        board->host = host;
        return true;
    }
    log_info("no board of this host's interfaces at %s (%s): what other processes do is not known here", path, why);
    board_unmap(board);
    return false;
}

struct board *board_open(uint64_t host)
{
    struct board *board = &the_board;
    pthread_mutex_lock(&board_lock);
    bool open = board->users ? board->host == host : board_begin(board, host);
    board->users += open;
    pthread_mutex_unlock(&board_lock);
    return open ? board : NULL;
}

void board_close(struct board *board)
{
    if (!board)
        return;
    pthread_mutex_lock(&board_lock);
    if (board->users && --board->users == 0) {
        char path[BOARD_PATH];
        board_path(board->host, path);
        board_clear(&board->slots[board->mine]);
        atomic_store(&board->slots[board->mine].taken, 0);
        board_remove_unused(board->fd, path);
        board_unmap(board);
    }
    pthread_mutex_unlock(&board_lock);
}

struct board_use *board_use(struct board *board, uint64_t nic)
{
    for (int i = 0; i < BOARD_NICS; i++) {
        struct board_use *use = &board->slots[board->mine].use[i];
        uint64_t none = 0;
        if (atomic_load(&use->nic) == nic || atomic_compare_exchange_strong(&use->nic, &none, nic) || none == nic)
            return use;
    }
    return NULL;
}

static void board_ask_who_lives(struct board *board, uint64_t now)
{
    uint64_t before = atomic_load(&board->looked);
    if (before && now - before < LOOK_AGAIN)
        return;
    if (!atomic_compare_exchange_strong(&board->looked, &before, now)) /* another thread does */
        return;
    int end = 0;
    for (int slot = 0; slot < BOARD_SLOTS; slot++) {
        bool lives = slot != board->mine && board_lives(board, slot);
        end = lives ? slot + 1 : end;
        atomic_store_explicit(&board->lives[slot], lives, memory_order_relaxed);
    }
    atomic_store_explicit(&board->end, end, memory_order_relaxed);
}

/* How many living processes but this one own it. */
static int board_owners(const struct board *board, uint64_t nic)
{
    int owners = 0;
    for (int slot = 0; slot < BOARD_SLOTS; slot++)
        for (int i = 0; i < BOARD_NICS; i++) {
            const struct board_use *use = &board->slots[slot].use[i];
            owners += atomic_load(&use->nic) == nic && atomic_load(&use->owned) && slot != board->mine &&
                      board_lives(board, slot);
        }
    return owners;
}

static int board_choose(struct board *board, const uint64_t *nics, int count)
{
    int chosen = 0, least = BOARD_SLOTS;
    for (int i = 0; i < count; i++) {
        struct board_use *use = board_use(board, nics[i]);
        int owners = use ? board_owners(board, nics[i]) : BOARD_SLOTS;
        if (use && atomic_load(&use->owned))
            return i;
        if (owners < least) {
            chosen = i;
            least = owners;
        }
    }
    struct board_use *use = board_use(board, nics[chosen]);
    if (use)
        atomic_store(&use->owned, 1);
    return chosen;
}

int board_own(struct board *board, const uint64_t *nics, int count)
{
    pthread_mutex_lock(&board_lock);
    board_be_alone(board);
    int chosen = board_choose(board, nics, count);
    board_try_lock(board, BOARD_SLOTS, F_UNLCK);
    pthread_mutex_unlock(&board_lock);
    return chosen;
}

static uint64_t latest(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static void board_add(struct board_sum *sum, const struct board_slot *slot, const struct board_use *use, uint64_t now)
{
    uint64_t told = atomic_load_explicit(&use->told, memory_order_relaxed);
    uint64_t outstanding = atomic_load_explicit(&use->outstanding, memory_order_relaxed);
    bool owned = atomic_load_explicit(&use->owned, memory_order_relaxed);
    sum->outstanding += outstanding;
    if (now < told || now - told < STILL)
        sum->waiting += atomic_load_explicit(&use->waiting, memory_order_relaxed);
    sum->out = latest(sum->out, atomic_load_explicit(&use->out, memory_order_relaxed));
    sum->in = latest(sum->in, atomic_load_explicit(&use->in, memory_order_relaxed));
    sum->processes++;
    uint64_t pace = owned ? atomic_load_explicit(&use->pace, memory_order_relaxed) : 0;
    sum->pace = pace && (!sum->pace || pace < sum->pace) ? pace : sum->pace;
    sum->owners += owned;
    sum->owner = owned ? atomic_load_explicit(&slot->taken, memory_order_relaxed) : sum->owner;
}

struct board_sum board_look(struct board *board, uint64_t nic, uint64_t now)
{
    struct board_sum sum = {0};
    board_ask_who_lives(board, now);
    int end = atomic_load_explicit(&board->end, memory_order_relaxed);
    for (int slot = 0; slot < end; slot++) {
        const struct board_slot *one = &board->slots[slot];
        if (!atomic_load_explicit(&board->lives[slot], memory_order_relaxed))
            continue;
        for (int i = 0; i < BOARD_NICS; i++) { /* filled from the first on, each with another one */
            uint64_t name = atomic_load_explicit(&one->use[i].nic, memory_order_relaxed);
            if (name == nic)
                board_add(&sum, one, &one->use[i], now);
            if (name == nic || !name)
                break;
        }
    }
    return sum;
}

uint64_t board_gpu(const uint8_t uuid[16])
{
    return hash_bytes(BOARD_NICS, uuid, 16) | 1;
}

uint64_t board_ask_back(uint64_t gpu, uint64_t now, uint64_t until)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&board_lock);
    struct board_use *use = the_board.users ? board_use(&the_board, gpu) : NULL;
    if (use) {
        atomic_store_explicit(&use->out, until, memory_order_relaxed);
        bytes = board_look(&the_board, gpu, now).outstanding +
                atomic_load_explicit(&use->outstanding, memory_order_relaxed);
    }
    pthread_mutex_unlock(&board_lock);
    return bytes;
}
