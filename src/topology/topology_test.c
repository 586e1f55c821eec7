/* SPDX-License-Identifier: Apache-2.0 */
/* Topology of a made-up host below a temporary folder, and of this host. */
#include "topology/topology.h"

#include "base/error.h"

#include <ftw.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_cpu(int cpu, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
    put(path, text);
}

/* Two packages, each one NUMA node, of two cores with two threads each; L3 a package, L2 a core. */
static void put_host(void)
{
    static const char *const packages[] = {"0-3\n", "4-7\n"}, *const cores[] = {"0-1\n", "2-3\n", "4-5\n", "6-7\n"};
    put("/sys/devices/system/cpu/online", "0-7\n");
    put("/proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU 3000\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        put_cpu(cpu, "topology/physical_package_id", cpu < 4 ? "0\n" : "1\n");
        put_cpu(cpu, "topology/core_id", cpu / 2 % 2 ? "1\n" : "0\n");
        put_cpu(cpu, "topology/package_cpus_list", packages[cpu / 4]);
        put_cpu(cpu, "topology/core_cpus_list", cores[cpu / 2]);
        put_cpu(cpu, "cache/index0/level", "1\n");
        put_cpu(cpu, "cache/index0/type", "Instruction\n");
        put_cpu(cpu, "cache/index0/shared_cpu_list", cores[cpu / 2]);
        put_cpu(cpu, "cache/index2/level", "2\n");
        put_cpu(cpu, "cache/index2/type", "Unified\n");
        put_cpu(cpu, "cache/index2/size", "1024K\n");
        put_cpu(cpu, "cache/index2/shared_cpu_list", cores[cpu / 2]);
        put_cpu(cpu, "cache/index3/level", "3\n");
        put_cpu(cpu, "cache/index3/type", "Unified\n");
        put_cpu(cpu, "cache/index3/size", "32M\n");
        put_cpu(cpu, "cache/index3/shared_cpu_list", packages[cpu / 4]);
    }
    put("/sys/devices/system/node/online", "0-1\n");
    put("/sys/devices/system/node/node0/cpulist", "0-3\n");
    put("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       524288 kB\n");
    put("/sys/devices/system/node/node1/cpulist", "4-7\n");
    put("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       524288 kB\n");
}

static void put_devices(void)
{
    put("/sys/class/net/eth7/operstate", "up\n");
    put("/sys/class/net/eth7/speed", "100000\n");
    put("/sys/class/net/eth7/device/numa_node", "1\n");
    put("/sys/class/net/down0/operstate", "down\n");
    put("/sys/class/net/down0/speed", "-1\n");
    put("/sys/class/infiniband/mlx5_3/ports/1/state", "4: ACTIVE\n");
    put("/sys/class/infiniband/mlx5_3/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("/sys/class/infiniband/mlx5_3/device/numa_node", "0\n");
    put("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
    put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
    put("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
    put("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
    put("/proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 5\n");
}

static int setup(void **state)
{
    snprintf(root, sizeof root, "/tmp/tutti-topology-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    return remove(path);
}

static int teardown(void **state)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int count(const struct topology *topology, enum topology_kind kind)
{
    int found = 0;
    for (int i = 0; i < topology->count; i++)
        found += topology->nodes[i].kind == kind;
    return found;
}

static const struct topology_node *named(const struct topology *topology, const char *name)
{
    for (int i = 0; i < topology->count; i++)
        if (strcmp(topology->nodes[i].name, name) == 0)
            return &topology->nodes[i];
    fail_msg("no node %s", name);
    return NULL;
}

static void counts_of_a_host(void **state)
{
    struct topology *topology;
    put_host();
    assert_int_equal(topology_load_from(root, &topology), TUTTI_SUCCESS);
    assert_string_equal(topology->source, "sysfs");
    assert_int_equal(count(topology, TOPOLOGY_PACKAGE), 2);
    assert_int_equal(count(topology, TOPOLOGY_NUMA), 2);
    assert_int_equal(count(topology, TOPOLOGY_L3), 2);
    assert_int_equal(count(topology, TOPOLOGY_L2), 4);
    assert_int_equal(count(topology, TOPOLOGY_L1), 0);
    assert_int_equal(count(topology, TOPOLOGY_CORE), 4);
    assert_int_equal(count(topology, TOPOLOGY_PU), 8);
    assert_int_equal(topology->nodes[0].bytes, 1ull << 30);
    assert_string_equal(topology->nodes[0].detail, "Test CPU 3000");
    topology_free(topology);
}

/* PU, core, L2, L3, NUMA node, package, machine. */
static void nesting(void **state)
{
    static const enum topology_kind up[] = {TOPOLOGY_PU,   TOPOLOGY_CORE,    TOPOLOGY_L2,     TOPOLOGY_L3,
                                            TOPOLOGY_NUMA, TOPOLOGY_PACKAGE, TOPOLOGY_MACHINE};
    struct topology *topology;
    put_host();
    assert_int_equal(topology_load_from(root, &topology), TUTTI_SUCCESS);
    for (int i = 0; i < topology->count; i++) {
        assert_true(topology->nodes[i].parent < i);
        if (topology->nodes[i].kind != TOPOLOGY_PU)
            continue;
        int at = i;
        for (size_t k = 0; k < sizeof up / sizeof *up; k++, at = topology->nodes[at].parent)
            assert_int_equal(topology->nodes[at].kind, up[k]);
        assert_int_equal(at, -1);
    }
    topology_free(topology);
}

static void devices_at_their_numa_node(void **state)
{
    struct topology *topology;
    put_host();
    put_devices();
    assert_int_equal(topology_load_from(root, &topology), TUTTI_SUCCESS);
    const struct topology_node *net = named(topology, "eth7"), *rdma = named(topology, "mlx5_3:1"),
                               *gpu = named(topology, "0000:3b:00.0"), *down = named(topology, "down0");
    assert_true(net->up && rdma->up && !down->up);
    assert_int_equal(net->mbits, 100000);
    assert_int_equal(down->mbits, 0);
    assert_int_equal(rdma->mbits, 400000);
    assert_int_equal(topology->nodes[net->parent].index, 1);
    assert_int_equal(topology->nodes[rdma->parent].index, 0);
    assert_int_equal(topology->nodes[rdma->parent].kind, TOPOLOGY_NUMA);
    assert_int_equal(topology->nodes[gpu->parent].index, 1);
    assert_int_equal(down->parent, 0);
    assert_string_equal(gpu->detail, "NVIDIA H200");
    assert_int_equal(count(topology, TOPOLOGY_GPU), 1);
    topology_free(topology);
}

static void no_sysfs_is_an_error(void **state)
{
    struct topology *topology = NULL;
    assert_int_equal(topology_load_from(root, &topology), TUTTI_SYSTEM_ERROR);
    assert_null(topology);
    assert_non_null(strstr(error_last(), "sysfs"));
}

static void lists_of_cpus(void **state)
{
    static const struct {
        const char *text;
        int count;
    } cases[] = {{"0", 1}, {"0-3,8", 5}, {"", 0}, {"x", 0}, {"5-4", 0}, {"1,", 1}, {"1023,1024,99999", 1}, {"-4", 0}};
    struct topology_cpus cpus;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        topology_parse_cpus(cases[i].text, &cpus);
        assert_int_equal(topology_cpu_count(&cpus), cases[i].count);
    }
}

static void this_host(void **state)
{
    struct topology *topology;
    assert_int_equal(topology_load(&topology), TUTTI_SUCCESS);
    assert_true(count(topology, TOPOLOGY_PU) >= 1);
    assert_true(count(topology, TOPOLOGY_NET) >= 1);
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_of_a_host, setup, teardown),
        cmocka_unit_test_setup_teardown(nesting, setup, teardown),
        cmocka_unit_test_setup_teardown(devices_at_their_numa_node, setup, teardown),
        cmocka_unit_test_setup_teardown(no_sysfs_is_an_error, setup, teardown),
        cmocka_unit_test(lists_of_cpus),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
