/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers and groups share one table of numbers, as they share one space of them for the program. */
#include "rdmacm/id.h"

#include <stdlib.h>
#include <string.h>

static struct {
    void **at;
    uint32_t size;
} table;

/* The lowest free number, as the kernel gives; 0 when there is no memory. */
static uint32_t enter(void *thing)
{
    uint32_t number = 1;
    while (number < table.size && table.at[number])
        number++;
    if (number >= table.size) {
        uint32_t size = table.size ? table.size * 2 : 64;
        void **at = realloc(table.at, size * sizeof(*at));
        if (!at)
            return 0;
        memset(at + table.size, 0, (size - table.size) * sizeof(*at));
        table.at = at;
        table.size = size;
    }
    table.at[number] = thing;
    return number;
}

struct cm_id *id_make(struct cm_channel *channel, uint16_t space, uint8_t qp_type)
{
    struct cm_id *id = calloc(1, sizeof(*id));
    uint32_t number = id ? enter(id) : 0;
    if (!number) {
        free(id);
        return NULL;
    }
    id->number = number;
    id->channel = channel;
    id->space = space;
    id->qp_type = qp_type;
    id->door = (struct cm_door){-1, -1};
    stream_init(&id->stream);
    list_init(&id->groups);
    list_push(&channel->ids, &id->node);
    return id;
}

struct cm_id *id_find(const struct cm_channel *channel, uint32_t number)
{
    list_each(node, &channel->ids)
    {
        struct cm_id *id = list_entry(node, struct cm_id, node);
        if (id->number == number)
            return id;
    }
    return NULL;
}

void group_free(struct cm_id *id, struct cm_group *group)
{
    channel_drop(id->channel, group, NULL);
    list_remove(&group->node);
    table.at[group->number] = NULL;
    free(group);
}

void id_free(struct cm_id *id, void (*dropped)(struct cm_id *child))
{
    list_each_safe(node, &id->groups) group_free(id, list_entry(node, struct cm_group, node));
    list_remove(&id->node);
    channel_drop(id->channel, id, dropped);
    table.at[id->number] = NULL;
    free(id);
}

struct cm_group *group_make(struct cm_id *id, uint64_t uid)
{
    struct cm_group *group = calloc(1, sizeof(*group));
    uint32_t number = group ? enter(group) : 0;
    if (!number) {
        free(group);
        return NULL;
    }
    group->number = number;
    group->uid = uid;
    list_push(&id->groups, &group->node);
    return group;
}

static struct cm_group *group_of(const struct cm_id *id, uint32_t number)
{
    list_each(node, &id->groups)
    {
        struct cm_group *group = list_entry(node, struct cm_group, node);
        if (group->number == number)
            return group;
    }
    return NULL;
}

struct cm_group *group_find(const struct cm_channel *channel, uint32_t number, struct cm_id **id)
{
    list_each(node, &channel->ids)
    {
        *id = list_entry(node, struct cm_id, node);
        struct cm_group *group = group_of(*id, number);
        if (group)
            return group;
    }
    return NULL;
}

bool id_is_datagram(const struct cm_id *id)
{
    return id->qp_type == IBV_QPT_UD;
}

static uint8_t room_of(enum cm_event_kind kind, bool datagram)
{
    switch (kind) {
    case CM_CONNECT_REQUEST:
        return datagram ? ROOM_SIDR_REQ : ROOM_REQ;
    case CM_CONNECT_RESPONSE:
        return ROOM_REP;
    case CM_ESTABLISHED:
        return datagram ? ROOM_SIDR_REP : 0;
    case CM_REJECTED:
        return ROOM_REJ;
    default:
        return 0;
    }
}

/* The other side's name for what it gives is ours for what we take. */
static void fill_connected(struct rdma_ucm_conn_param *param, const struct cm_message *message, uint8_t room)
{
    *param = (struct rdma_ucm_conn_param){
        .qp_num = message->qpn,
        .private_data_len = room,
        .srq = message->srq,
        .responder_resources = message->initiator_depth,
        .initiator_depth = message->responder_resources,
        .flow_control = message->flow_control,
        .retry_count = message->retry_count,
        .rnr_retry_count = message->rnr_retry_count,
    };
    memcpy(param->private_data, message->private_data, room < message->private_size ? room : message->private_size);
}

static void fill_datagram(struct rdma_ucm_ud_param *param, const struct cm_message *message, uint8_t room)
{
    param->qp_num = message->qpn;
    param->qkey = message->qkey;
    param->private_data_len = room;
    memcpy(param->private_data, message->private_data, room < message->private_size ? room : message->private_size);
}

void id_fill_address(const struct cm_id *id, struct ib_uverbs_ah_attr *attr)
{
    union ibv_gid gid = address_gid(&id->to);
    uint32_t low = address_port(&id->from) ^ address_port(&id->to), high = address_port(&id->from) + 1u;
    *attr = (struct ib_uverbs_ah_attr){
        .grh = {.flow_label = (low ^ high << 7) & 0xfffff, /* differs from connection to connection */
                .sgid_index = id->place.gid_index,
                .hop_limit = 64,
                .traffic_class = id->tos},
        .sl = id->tos >> 5,
        .is_global = 1,
        .port_num = 1,
    };
    memcpy(attr->grh.dgid, gid.raw, sizeof(attr->grh.dgid));
}

static void fill(struct cm_id *id, enum cm_event_kind kind, const struct cm_message *message,
                 struct rdma_ucm_event_resp *answer)
{
    uint8_t room = room_of(kind, id_is_datagram(id));
    answer->event = kind;
    if (id_is_datagram(id)) {
        fill_datagram(&answer->param.ud, message, room);
        id_fill_address(id, &answer->param.ud.ah_attr);
    } else {
        fill_connected(&answer->param.conn, message, room);
    }
}

void id_post(struct cm_id *id, enum cm_event_kind kind, int status, const struct cm_message *message)
{
    struct cm_event event = {.id = id, .of = id, .reported = &id->reported};
    event.answer =
        (struct rdma_ucm_event_resp){.uid = id->uid, .id = id->number, .event = kind, .status = (uint32_t)status};
    if (!id->uid)
        return;
    if (message)
        fill(id, kind, message, &event.answer);
    channel_post(id->channel, &event);
}

int id_post_request(struct cm_id *listener, struct cm_id *child, const struct cm_message *message)
{
    struct cm_event event = {.id = listener, .child = child, .of = listener, .reported = &listener->reported};
    event.answer = (struct rdma_ucm_event_resp){.uid = listener->uid, .id = child->number};
    fill(child, CM_CONNECT_REQUEST, message, &event.answer);
    return channel_post(listener->channel, &event);
}
