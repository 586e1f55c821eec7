/* SPDX-License-Identifier: Apache-2.0 */
/* Run by `softverbs run` with places for two adapters and two GPUs: each GPU has its adapter behind the same bridge.
 * And a call of an adapter's own library, as programs of Debian 13 are linked to it. */
#include "base/near.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GPU_0 "/sys/bus/pci/devices/0000:11:00.0"
#define GPU_1 "/sys/bus/pci/devices/0000:21:00.0"
#define NIC_0 "/sys/class/infiniband/mlx5_0/device"
#define NIC_1 "/sys/class/infiniband/mlx5_1/device"

static int failed;

static void check(int good, const char *what)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failed |= !good;
}

static int registers_by_mlx5(struct ibv_device *device)
{
    typedef struct ibv_mr *(*register_fn)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int, int);
    void *library = dlopen("libmlx5.so.1", RTLD_NOW);
    register_fn reg = library ? (register_fn)dlvsym(library, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25") : NULL;
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    int fd = memfd_create("device0", MFD_CLOEXEC);
    if (!reg || !pd || fd < 0 || ftruncate(fd, 8192))
        return 0;
    struct ibv_mr *mr = reg(pd, 0, 8192, 0, fd, IBV_ACCESS_LOCAL_WRITE, 0);
    errno = 0;
    int refused = !reg(pd, 0, 8192, 0, fd, IBV_ACCESS_LOCAL_WRITE, 1) && errno == EOPNOTSUPP;
    return mr && mr->length == 8192 && refused && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) &&
           !ibv_close_device(context) && !close(fd);
}

int main(void)
{
    char path[PATH_MAX], line[64] = "";
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    check(n == 2 && !strcmp(ibv_get_device_name(list[0]), "mlx5_0"), "two devices with the names of the table");
    check(realpath(NIC_0, path) && !strcmp(path, "/sys/devices/pci0000:10/0000:10:01.0/0000:12:00.0"), "where one is");
    check(realpath("/sys/class/infiniband/mlx5_0/../..", path) &&
              !strcmp(path, "/sys/devices/pci0000:10/0000:10:01.0/0000:12:00.0"),
          "the folder above a device");
    check(near_shared("", GPU_0, NIC_0) > near_shared("", GPU_0, NIC_1), "GPU 0 is nearer to its own");
    check(near_shared("", GPU_1, NIC_1) > near_shared("", GPU_1, NIC_0), "GPU 1 is nearer to its own");
    check(near_shared("", GPU_1, NIC_0) > 0, "all are of one machine");
    check(!realpath("/sys/bus/pci/devices/00ff:ff:1f.7", path), "an address that nobody has is nowhere");
    ssize_t length = readlink(NIC_1, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = 0;
    check(!strcmp(path + (length > 12 ? length - 12 : 0), "0000:22:00.0"), "the link ends with the address");
    FILE *file = fopen(NIC_1 "/uevent", "r");
    while (file && fgets(line, sizeof(line), file) && strncmp(line, "PCI_SLOT_NAME", 13))
        ;
    check(!strcmp(line, "PCI_SLOT_NAME=0000:22:00.0\n"), "a file in its folder");
    if (file)
        fclose(file);
    check(n && registers_by_mlx5(list[0]), "memory of a descriptor, by mlx5dv_reg_dmabuf_mr");
    ibv_free_device_list(list);
    return failed;
}
