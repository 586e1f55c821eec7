/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shared-memory lane does with any content of its memory. The input is a list of commands of the hostile side:
 * post a slot with these bytes, scribble over the control lines, send a packet on the socket.
 */
#include "base/random.h"
#include "transport/shm/region.h"
#include "transport/shm/packet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AREA 100000

struct side {
    struct poller *poller;
    struct transport *transport;
    struct wire_process self;
    struct lane *lane;
    bool up, is_down;
};

static struct side good, bad;
static unsigned char *area;
static uint64_t sum;

static bool on_accepted(void *context, struct lane *lane, const struct wire_hello *hello)
{
    struct side *side = context;
    sum += hello->epoch;
    lane->user = side;
    side->lane = lane;
    side->up = true;
    side->is_down = false;
    return true;
}
static void on_up(struct lane *lane)
{
    ((struct side *)lane->user)->up = true;
}
static void on_down(struct lane *lane, tutti_result_t why)
{
    (void)why;
    ((struct side *)lane->user)->is_down = true;
}
static void on_message(struct lane *lane, const void *bytes, size_t length)
{
    (void)lane;
    for (size_t i = 0; i < length; i++)
        sum += ((const unsigned char *)bytes)[i];
}
static struct place on_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)lane;
    (void)imm;
    return place_host(offset <= AREA && length <= AREA - offset ? area + offset : NULL);
}
static void on_arrived(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)lane;
    sum += imm + offset + length;
}
static void on_sent(struct lane *lane, uint64_t token)
{
    (void)lane;
    sum += token;
}
static void on_writable(struct lane *lane)
{
    (void)lane;
}
static void on_shared(struct lane *lane, uint64_t key, int fd)
{
    (void)lane;
    sum += key;
    close(fd);
}

static void open_side(struct side *side, uint8_t name)
{
    struct transport_owner owner = {side,      on_accepted, on_up,   on_down,     on_message,
                                    on_target, on_arrived,  on_sent, on_writable, on_shared};
    if (random_bytes(side->self.uuid, sizeof side->self.uuid))
        abort();
    side->self.uid = geteuid();
    side->self.secret[0] = name;
    if (poller_open(&side->poller) ||
        transport_shm.open(&transport_shm, &owner, side->poller, &side->self, &side->transport))
        abort();
}

static void steps(int count)
{
    for (int i = 0; i < count; i++) {
        transport_shm.poll(good.transport);
        transport_look(good.transport);
        transport_shm.poll(bad.transport);
        transport_look(bad.transport);
    }
}

static void drop_lanes(void)
{
    if (bad.lane)
        transport_shm.lane_close(bad.lane);
    if (good.lane)
        transport_shm.lane_close(good.lane);
    bad.lane = good.lane = NULL;
    bad.up = good.up = false;
    steps(2);
}

static void make_lanes(void)
{
    if (good.lane && bad.lane && !good.is_down && !bad.is_down)
        return;
    drop_lanes();
    if (transport_shm.lane_open(bad.transport, &good.self, 0, 1, 0, 0, &bad, &bad.lane))
        abort();
    bad.is_down = false;
    for (int i = 0; i < 100 && !(bad.up && good.up); i++)
        steps(1);
    if (!bad.up || !good.up)
        abort();
}

static void start(void)
{
    setenv("TUTTI_DEBUG", "none", 1);
    area = malloc(AREA);
    open_side(&good, 1);
    open_side(&bad, 2);
    if (!area)
        abort();
}

/* One command; returns the bytes it took. */
static size_t command(const uint8_t *data, size_t size)
{
    struct shm_lane *lane = shm_lane_of(bad.lane);
    struct shm_notice notice = {.magic = SHM_MAGIC};
    static const uint8_t source[5000];
    struct put put = {.source = place_host(source), .length = sizeof source};
    size_t take = size - 1 < RING_INLINE ? size - 1 : RING_INLINE;
    switch (data[0] % 6) {
    case 0:
    case 1:
        memcpy(ring_next_slot(&lane->out)->payload, data + 1, take);
        ring_publish(&lane->out, data[0] / 6 % 8, data[0] & 64 ? take : 32);
        return 1 + take;
    case 2: /* what we have consumed, says the enemy */
        take = take < 16 ? take : 16;
        memcpy((void *)lane->in.control, data + 1, take);
        return 1 + take;
    case 3:
        take = take < sizeof notice - 4 ? take : sizeof notice - 4;
        memcpy((char *)&notice + 4, data + 1, take);
        notice.type %= 6;
        shm_packet_send(lane->source.fd, &notice, sizeof notice, NULL, 0);
        return 1 + take;
    case 4: /* the good side sends meanwhile */
        if (data[0] & 64)
            transport_shm.give_up(good.lane, 0);
        else
            transport_shm.put(good.lane, &put);
        return 1;
    default:
        steps(1);
        return 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!area)
        start();
    make_lanes();
    for (size_t done = 0; done < size && good.lane && !good.is_down && !bad.is_down;)
        done += command(data + done, size - done);
    steps(3);
    drop_lanes(); /* each input starts alike */
    return 0;
}
