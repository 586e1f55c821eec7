/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of devices on hosts that are files. */
#include "base/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DEVICE "/sys/class/infiniband/mlx5_0/device"
#define NODE   "/sys/devices/system/node/node"

static char root[64];

static void put(const char *path, const char *text)
{
    char full[300];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Nodes 0, 1 and 4: two processors each. */
static int put_host(void **state)
{
    snprintf(root, sizeof root, "/tmp/tutti-near-XXXXXX");
    assert_non_null(mkdtemp(root));
    put(NODE "0/cpulist", "0,8\n");
    put(NODE "1/cpulist", "1-2\n");
    put(NODE "4/cpulist", "3-4,9\n");
    put(NODE "0/distance", "10 21 32\n");
    put(NODE "1/distance", "21 10 28\n");
    put(NODE "4/distance", "32 28 10\n");
    return 0;
}

static int remove_host(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static int from(const char *node, int cpu, int other)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (other >= 0)
        CPU_SET((size_t)other, &set);
    put(DEVICE "/numa_node", node);
    return near_distance(root, DEVICE, &set);
}

static void the_nearest_processor_counts(void **state)
{
    assert_int_equal(from("0\n", 8, -1), 10);
    assert_int_equal(from("0\n", 2, -1), 21);
    assert_int_equal(from("0\n", 9, -1), 32);
    assert_int_equal(from("4\n", 0, -1), 32);
    assert_int_equal(from("4\n", 0, 1), 28);
    assert_int_equal(from("4\n", 0, 4), 10);
}

static void what_is_not_known(void **state)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    assert_int_equal(from("-1\n", 0, -1), 0);
    assert_int_equal(from("x\n", 0, -1), 0);
    assert_int_equal(from("7\n", 0, -1), 0);
    assert_int_equal(from("0\n", 77, -1), 0);
    assert_int_equal(near_distance(root, DEVICE, &set), 0);
    assert_int_equal(near_distance(root, "/sys/class/infiniband/mlx5_9/device", &set), 0);
    put(NODE "0/distance", "\n");
    assert_int_equal(from("0\n", 0, -1), 0);
    put(NODE "0/distance", "10 x\n");
    assert_int_equal(from("0\n", 1, -1), 0);
    put(NODE "0/distance", "10 21 32\n");
    put(NODE "1/cpulist", "-,1\n");
    assert_int_equal(from("0\n", 1, -1), 0);
}

static void folders_in_common(void **state)
{
    const char *bridge = "/sys/devices/pci0000:00/0000:00:01.0";
    char gpu[200], nic[200];
    snprintf(gpu, sizeof gpu, "%s/0000:01:00.0/numa_node", bridge);
    put(gpu, "0\n");
    snprintf(nic, sizeof nic, "%s/0000:02:00.0/numa_node", bridge);
    put(nic, "0\n");
    put("/sys/devices/pci0000:80/0000:81:00.0/numa_node", "1\n");
    gpu[strlen(gpu) - strlen("/numa_node")] = nic[strlen(nic) - strlen("/numa_node")] = 0;
    int near = near_shared(root, gpu, nic), far = near_shared(root, gpu, "/sys/devices/pci0000:80/0000:81:00.0");
    assert_int_equal(near - far, 2);
    assert_int_equal(near_shared(root, gpu, gpu), near + 1);
    assert_int_equal(near_shared(root, gpu, bridge), near); /* which ends where the GPU's path goes on */
    assert_int_equal(near_shared(root, gpu, "/sys/devices/none"), 0);
}

/* Two switches behind ports of one root, and a device of another root. */
#define ROOT   "/sys/devices/pci0000:10/0000:10:01.0/"
#define SWITCH ROOT "0000:11:00.0/0000:12:0"
#define GPU    SWITCH "1.0/0000:13:00.0"

static enum near_level level_to(const char *other)
{
    char path[200];
    snprintf(path, sizeof path, "%s/numa_node", other);
    put(path, strstr(other, "pci0000:20") ? "0\n" : strstr(other, "pci0000:30") ? "1\n" : "0\n");
    return near_level(root, GPU, other);
}

static void levels_of_adapters(void **state)
{
    put(GPU "/numa_node", "0\n");
    assert_int_equal(level_to(SWITCH "2.0/0000:14:00.0"), NEAR_BRIDGE);
    assert_int_equal(level_to(SWITCH "2.0/0000:14:00.0/0000:15:00.0/0000:16:00.0"), NEAR_BRIDGES);
    assert_int_equal(level_to("/sys/devices/pci0000:10/0000:10:02.0/0000:18:00.0"), NEAR_HOST);
    assert_int_equal(level_to("/sys/devices/pci0000:20/0000:20:01.0/0000:21:00.0"), NEAR_HOST);
    assert_int_equal(level_to("/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0"), NEAR_SYSTEM);
    assert_int_equal(near_level(root, GPU, "/sys/devices/pci0000:40"), NEAR_UNKNOWN);
    char folder[NEAR_FOLDER];
    assert_false(near_gpu(3, folder));
    near_note(3, "0000:13:00.0");
    assert_true(near_gpu(3, folder));
    assert_string_equal(folder, "/sys/bus/pci/devices/0000:13:00.0");
}

static void gpus_in_use(void **state)
{
    assert_true(near_used() == 0 && near_relays() == 0);
    near_use(3);
    near_use(64); /* has no bit */
    assert_true(near_used() == 8);
    near_relay(5, true);
    near_relay(5, true); /* by two communicators */
    near_relay(5, false);
    assert_true(near_relays() == 32);
    near_relay(5, false);
    assert_true(near_relays() == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_nearest_processor_counts),
                                       cmocka_unit_test(what_is_not_known), cmocka_unit_test(folders_in_common),
                                       cmocka_unit_test(levels_of_adapters), cmocka_unit_test(gpus_in_use)};
    return cmocka_run_group_tests(tests, put_host, remove_host);
}
