/* SPDX-License-Identifier: Apache-2.0 */
#include "base/known.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char memory[1000];

static void ranges_within_ranges(void **state)
{
    struct known found;
    (void)state;
    uint64_t all = known_add(memory, 900), part = known_add(memory + 100, 10), next = known_add(memory + 200, 100);
    assert_true(known_find(memory + 105, 5, &found) && found.id == part && found.base == memory + 100);
    assert_true(known_find(memory + 105, 6, &found) && found.id == all);
    assert_true(known_find(memory + 250, 650, &found) && found.id == all && found.size == 900);
    assert_true(known_find(memory, 900, &found) && known_find(memory + 900, 0, &found));
    assert_false(known_find(memory + 250, 651, &found));
    assert_false(known_find(memory + 250, SIZE_MAX, &found)); /* round the end of all addresses */
    assert_false(known_find(memory + 901, 0, &found));
    known_remove(all);
    assert_false(known_lives(all));
    assert_true(known_lives(part));
    assert_false(known_find(memory + 105, 6, &found));
    assert_true(known_find(memory + 299, 1, &found) && found.id == next);
    assert_true(known_next(0, &found) && found.id == part);
    assert_true(known_next(part, &found) && found.id == next);
    assert_false(known_next(next, &found));
    known_remove(part);
    known_remove(next);
    known_remove(next);
    known_remove(0);
    assert_false(known_next(0, &found));
    assert_int_equal(known_add(memory, 0), 0);
}

/* What each of many random ranges answers, against a look at all of them. */
static void against_a_list(void **state)
{
    struct known all[200], found;
    int count = 0;
    (void)state;
    srand(7);
    for (int step = 0; step < 5000; step++) {
        size_t from = (size_t)rand() % 900, length = 1 + (size_t)rand() % 100;
        if (count == 200 || (count && rand() % 2)) {
            int gone = rand() % count;
            known_remove(all[gone].id);
            all[gone] = all[--count];
        } else {
            all[count++] = (struct known){known_add(memory + from, length), memory + from, length};
        }
        const char *at = memory + (size_t)rand() % 1000;
        size_t bytes = (size_t)rand() % 60;
        bool holds = false;
        for (int i = 0; i < count; i++)
            holds |= all[i].base <= at && at + bytes <= all[i].base + all[i].size;
        assert_int_equal(known_find(at, bytes, &found), holds);
        assert_true(!holds || (found.base <= at && at + bytes <= found.base + found.size && known_lives(found.id)));
    }
    while (count)
        known_remove(all[--count].id);
}

static void watchers_hear(void **state)
{
    struct known_watcher watcher;
    uint64_t rung;
    int bell = eventfd(0, EFD_NONBLOCK);
    (void)state;
    known_watch(&watcher, bell);
    uint64_t id = known_add(memory, 1);
    assert_int_equal(read(bell, &rung, sizeof rung), sizeof rung);
    known_remove(id);
    assert_int_equal(read(bell, &rung, sizeof rung), sizeof rung);
    known_remove(id);
    assert_int_equal(read(bell, &rung, sizeof rung), -1);
    known_unwatch(&watcher);
    known_remove(known_add(memory, 1));
    assert_int_equal(read(bell, &rung, sizeof rung), -1);
    close(bell);
}

/* Each asks for a descriptor of its own; that of the table goes with the memory, and is not a child's. */
static void descriptors_of_devices(void **state)
{
    const struct known memory = {.base = (char *)state, .size = 100, .device = 3, .ordered = true};
    struct known found;
    bool ordered = false;
    int fd = dup(0), status;
    (void)state;
    uint64_t id = known_add_device(&memory, fd), host = known_add((char *)state + 100, 100);
    assert_true(known_find((char *)state + 50, 50, &found) && found.id == id && found.device == 3);
    int copy = known_descriptor(id, &ordered);
    assert_true(copy >= 0 && copy != fd && ordered);
    assert_int_equal(close(copy), 0);
    assert_int_equal(known_descriptor(host, &ordered), -1);
    assert_false(ordered);
    assert_false(known_is_refused(id));
    assert_true(known_refuse(id) && !known_refuse(id) && known_is_refused(id));
    pid_t child = fork();
    if (!child)
        _exit(fcntl(fd, F_GETFD) != -1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    known_remove(id);
    known_remove(host);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(known_descriptor(id, &ordered), -1);
    assert_false(known_refuse(id) || known_is_refused(id));
    struct known none = {.base = (char *)state};
    fd = dup(0);
    assert_int_equal(known_add_device(&none, fd), 0); /* no bytes: the descriptor is not kept */
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void children_know_nothing(void **state)
{
    struct known found;
    int status;
    (void)state;
    uint64_t id = known_add(memory, 10);
    pid_t child = fork();
    if (child == 0)
        _exit(known_find(memory, 1, &found) || known_lives(id) || known_add(memory, 10) <= id);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(known_find(memory, 1, &found));
    known_remove(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_within_ranges),  cmocka_unit_test(against_a_list),
        cmocka_unit_test(watchers_hear),         cmocka_unit_test(descriptors_of_devices),
        cmocka_unit_test(children_know_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
