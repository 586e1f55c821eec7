/* SPDX-License-Identifier: Apache-2.0 */
/* What programs find when they choose: which device comes first, and which way a datagram takes. */
#include "verbs/verbs_testing.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* An interface that is up and has no address comes behind the loopback device, though it is older than one that has. */
static void usable_devices_come_first(void **state)
{
    int n;
    if (system("ip link add bare0 type veth peer name full0 && ip link set bare0 addrgenmode none up && "
               "ip link set full0 addrgenmode none up && ip address add 10.85.0.1/24 dev full0") != 0)
        skip();
    struct ibv_device **list = ibv_get_device_list(&n);
    assert_non_null(list);
    assert_int_equal(n, 3);
    assert_string_equal(ibv_get_device_name(list[0]), "soft_full0");
    assert_string_equal(ibv_get_device_name(list[1]), "soft_lo");
    assert_string_equal(ibv_get_device_name(list[2]), "soft_bare0");
    ibv_free_device_list(list);
    assert_int_equal(system("ip link del bare0"), 0);
}

/* The source port of the next datagram to RoCE's port on the loopback interface. */
static int next_port(int fd)
{
    uint8_t frame[2048];
    for (time_t end = time(NULL) + PATIENCE; time(NULL) < end;) {
        ssize_t n = recv(fd, frame, sizeof(frame), 0);
        const uint8_t *udp = frame + 14 + 20;
        if (n > 14 + 20 + 8 && frame[23] == IPPROTO_UDP && (udp[2] << 8 | udp[3]) == 4791)
            return udp[0] << 8 | udp[1];
    }
    return -1;
}

/* With the flow label of an address handle a prober chooses the way of each datagram. */
static void labels_choose_the_port_of_a_datagram(void **state)
{
    struct pair pair;
    struct timeval wait = {.tv_sec = 1};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = 1};
    union ibv_gid gid;
    setup(&pair, IBV_QPT_UD, 14, 7, 7);
    assert_int_equal(ibv_query_gid(pair.context, 1, 0, &gid), 0);
    for (uint32_t label = 1; label < 0x100000; label = label * 5 + 7) {
        struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .flow_label = label}};
        struct ibv_ah *ah = ibv_create_ah(pair.pd, &attr);
        struct ibv_sge sge = {(uintptr_t)pair.memory, 8, pair.mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
        assert_non_null(ah);
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = pair.qp[1]->qp_num;
        wr.wr.ud.remote_qkey = 0x1234;
        int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
        assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
        assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), 0);
        assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
        assert_int_equal(next_port(fd), ((label & 0x3fff) ^ (label >> 14 & 0x3f)) | 0xc000);
        close(fd);
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    teardown(&pair);
}

struct member {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t bytes[128];
};

static void join(struct member *member, const char *device, const union ibv_gid *group)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), device))
            member->context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(member->context);
    member->pd = ibv_alloc_pd(member->context);
    member->cq = ibv_create_cq(member->context, 8, NULL, NULL, 0);
    member->mr = ibv_reg_mr(member->pd, member->bytes, sizeof(member->bytes), ALL);
    struct ibv_qp_init_attr init = {.send_cq = member->cq, .recv_cq = member->cq, .qp_type = IBV_QPT_UD};
    init.cap = (struct ibv_qp_cap){4, 4, 1, 1, 0};
    assert_non_null(member->qp = ibv_create_qp(member->pd, &init));
    to_init(member->qp);
    assert_int_equal(to_rtr(member->qp, 0, group), 0);
    assert_int_equal(to_rts(member->qp, 0, 0, 0), 0);
    struct ibv_sge sge = {(uintptr_t)member->bytes, sizeof(member->bytes), member->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(member->qp, &wr, &bad), 0);
    assert_int_equal(ibv_attach_mcast(member->qp, group, 0), 0);
}

static void leave(struct member *member, const union ibv_gid *group)
{
    assert_int_equal(ibv_detach_mcast(member->qp, group, 0), 0);
    assert_int_equal(ibv_destroy_qp(member->qp), 0);
    assert_int_equal(ibv_destroy_cq(member->cq), 0);
    assert_int_equal(ibv_dereg_mr(member->mr), 0);
    assert_int_equal(ibv_dealloc_pd(member->pd), 0);
    assert_int_equal(ibv_close_device(member->context), 0);
}

/* What a device sends to a group comes back to it, as on adapters, and to no other device of the host. */
static void a_group_has_members_at_home(void **state)
{
    static const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 84, 0, 7}};
    struct member near = {0}, other = {0};
    struct ibv_wc wc;
    if (system("for i in 0 1; do ip link add full$i type veth peer name bare$i && ip link set full$i up && "
               "ip link set bare$i up && ip address add 10.85.$i.1/24 dev full$i || exit; done") != 0)
        skip();
    join(&near, "soft_full0", &group);
    join(&other, "soft_full1", &group);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
    struct ibv_ah *ah = ibv_create_ah(near.pd, &attr);
    struct ibv_sge sge = {(uintptr_t)near.bytes, 8, near.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = 0x1234;
    assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
    assert_int_equal(wait_for(near.cq).byte_len, 40 + 8);
    assert_int_equal(ibv_poll_cq(near.cq, 1, &wc), 0);
    assert_int_equal(ibv_poll_cq(other.cq, 1, &wc), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    leave(&near, &group);
    leave(&other, &group);
    assert_int_equal(system("ip link del full0 && ip link del full1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(usable_devices_come_first),
                                       cmocka_unit_test(labels_choose_the_port_of_a_datagram),
                                       cmocka_unit_test(a_group_has_members_at_home)};
    struct ibv_context *context = open_loopback();
    if (!context) {
        fprintf(stderr, "program_test: SKIPPED: %s\n", strerror(errno));
        return 77;
    }
    ibv_close_device(context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
