/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices NCCL sees: from folders as the kernel makes them. */
#include "nccl-net/driver.h"
#include "nccl-net/net.h"

#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

static void put(const char *folder, const char *name, const char *file, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    if (!text) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

/* An adapter that is up. */
static void put_adapter(const char *folder, const char *name, const char *speed)
{
    put(folder, name, "operstate", "up\n");
    put(folder, name, "speed", speed);
    put(folder, name, "device", NULL);
}

static void take_away(const char *folder)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* Of the fast one that is down, the bridge, the guest's port, the adapter and two faster ones they are the last. */
static void test_devices(void **state)
{
    char folder[] = "/tmp/nccl-net-XXXXXX", place[PATH_MAX];
    struct net_devices found;
    assert_non_null(mkdtemp(folder));
    devices_look(folder, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.speed, 10000);
    assert_null(found.device[0].pci_path);
    put(folder, "bridge", "operstate", "up\n");
    put(folder, "bridge", "speed", "400000\n");
    put_adapter(folder, "virtual", "-1\n");
    devices_look(folder, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.speed, 10000);
    assert_non_null(found.device[0].pci_path);
    devices_free(&found);
    put_adapter(folder, "down", "800000\n");
    put(folder, "down", "operstate", "down\n");
    put_adapter(folder, "guest", "100000\n");
    put(folder, "guest", "phys_port_name", "pf0vf3\n");
    put_adapter(folder, "fast10", "100000\n");
    put(folder, "fast10", "phys_port_name", "p0\n");
    devices_look(folder, &found);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.device[0].name, "tutti");
    devices_free(&found);
    put_adapter(folder, "fast9", "100000\n");
    devices_look(folder, &found);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.speed, 100000);
    for (int i = 0; i < 2; i++) {
        snprintf(place, sizeof place, "%s/fast%d/device", folder, 9 + i);
        assert_string_equal(found.device[i].pci_path, place);
    }
    assert_string_equal(found.device[0].name, "tutti:fast9");
    assert_string_equal(found.device[1].name, "tutti:fast10");
    devices_free(&found);
    for (char name[] = "more_a"; name[5] < 'z'; name[5]++)
        put_adapter(folder, name, "100000\n");
    devices_look(folder, &found);
    assert_int_equal(found.count, NET_DEVICES);
    devices_free(&found);
    take_away(folder);
    devices_look(folder, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.speed, 10000);
}

/* Names, places and speeds are those of a folder of ours. */
static unsigned char data[3];
static char class_net[] = "/tmp/nccl-net-XXXXXX";

static void use_two(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *listener, *ends[2] = {NULL, NULL}, *requests[2];
    struct net *net = &end->net;
    struct net_properties_11 first, second;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        fprintf(stderr, "two devices: not tried, as this user may not mount\n");
        exit(0);
    }
    CHECK(mount(class_net, "/sys/class/net", NULL, MS_BIND, NULL) == 0);
    net_load(net, 11);
    CHECK_CALL(net_init(net));
    CHECK(net_check_devices(net) == 2);
    CHECK_CALL(net->v11->properties(0, &first));
    CHECK_CALL(net->v11->properties(1, &second));
    CHECK(!strcmp(first.common.name, "tutti:a0") && !strcmp(second.common.name, "tutti:a1"));
    CHECK(first.common.speed == 400000 && first.common.guid != second.common.guid);
    CHECK(strstr(first.common.pci_path, "a0/device") && strstr(second.common.pci_path, "a1/device"));
    CHECK(net_listen(net, 2, handle, &listener) == NET_INTERNAL_ERROR);
    CHECK_CALL(net_listen(net, 1, handle, &listener));
    while (!ends[0] || !ends[1]) {
        if (!ends[0])
            CHECK_CALL(net->memory->accept(listener, &ends[0], &(void *){NULL}));
        if (!ends[1])
            CHECK_CALL(net_connect(net, 0, handle, &ends[1]));
    }
    CHECK_CALL(net->end->close_listen(listener));
    CHECK_CALL(net_receive(net, ends[0], data, 3, NULL, &requests[0]));
    CHECK_CALL(net_send(net, ends[1], "ok", 3, NULL, &requests[1]));
    CHECK_CALL(end_wait(end, requests[0], NULL));
    CHECK_CALL(end_wait(end, requests[1], NULL));
    CHECK(!memcmp(data, "ok", 3));
    CHECK_CALL(net->end->close_send(ends[1]));
    CHECK_CALL(net->end->close_receive(ends[0]));
    net_unload(net);
}

static void test_two_devices(void **state)
{
    assert_non_null(mkdtemp(class_net));
    put_adapter(class_net, "a0", "400000\n");
    put_adapter(class_net, "a1", "400000\n");
    bool well = driver_alone(0, use_two);
    take_away(class_net);
    assert_true(well);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices), cmocka_unit_test(test_two_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
