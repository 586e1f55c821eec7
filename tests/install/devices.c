/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows of RDMA devices, and nothing of the stand-in for them. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
    int n = 0;
    struct ibv_device **devices = ibv_get_device_list(&n);
    for (int i = 0; i < n; i++)
        printf("%s\n", ibv_get_device_name(devices[i]));
    if (devices)
        ibv_free_device_list(devices);
    return n == 0;
}
