/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and conversions of the bootstrap protocol's frames. */
#include "wire/bootstrap.h"
#include "base/error.h"
#include "base/siphash.h"

#include <string.h>

#define DATA_MAX ((uint64_t)1 << 40)
#define ID_MAGIC 0x74754944u

static const struct {
    uint64_t least, most;
} sizes[BOOT_TYPES] = {
    [BOOT_CHALLENGE] = {sizeof(struct boot_challenge), sizeof(struct boot_challenge)},
    [BOOT_HELLO] = {sizeof(struct boot_hello), sizeof(struct boot_hello)},
    [BOOT_JOINED] = {sizeof(struct boot_joined), sizeof(struct boot_joined)},
    [BOOT_LATER] = {sizeof(struct boot_later), sizeof(struct boot_later)},
    [BOOT_PEERS] = {offsetof(struct boot_peers, peer), sizeof(struct boot_peers)},
    [BOOT_WELCOME] = {sizeof(struct boot_welcome), sizeof(struct boot_welcome)},
    [BOOT_READY] = {0, 0},
    [BOOT_FAILED] = {sizeof(struct boot_failed), sizeof(struct boot_failed)},
    [BOOT_DATA] = {sizeof(struct boot_data), DATA_MAX},
};

struct boot_header boot_header_of(enum boot_type type, uint64_t size)
{
    return (struct boot_header){BOOT_MAGIC, BOOT_VERSION, (uint16_t)type, size};
}

enum boot_fault boot_check_header(const struct boot_header *header)
{
    if (header->magic == __builtin_bswap32(BOOT_MAGIC))
        return BOOT_OTHER_ORDER;
    if (header->magic != BOOT_MAGIC)
        return BOOT_STRANGE;
    if (header->version != BOOT_VERSION)
        return BOOT_OTHER_VERSION;
    if (header->type < BOOT_CHALLENGE || header->type >= BOOT_TYPES)
        return BOOT_STRANGE;
    return header->size >= sizes[header->type].least && header->size <= sizes[header->type].most ? BOOT_FINE
                                                                                                 : BOOT_STRANGE;
}

static bool address_fine(const struct boot_address *address)
{
    return (address->family == 4 || address->family == 6) && address->port && !address->zero;
}

static bool hello_fine(const struct boot_hello *hello)
{
    return hello->nranks >= 1 && hello->nranks <= BOOT_RANKS_MAX && hello->step < BOOT_STEPS_MAX &&
           hello->rank != BOOT_NOBODY && address_fine(&hello->listener);
}

static bool peers_fine(const struct boot_peers *peers, uint64_t size)
{
    if (peers->count > BOOT_STEPS_MAX || peers->stay > 1 ||
        size != offsetof(struct boot_peers, peer) + peers->count * sizeof peers->peer[0])
        return false;
    for (uint32_t i = 0; i < peers->count; i++)
        if (!address_fine(&peers->peer[i]))
            return false;
    return true;
}

bool boot_check_body(const struct boot_header *header, const void *body)
{
    switch (header->type) {
    case BOOT_HELLO:
        return hello_fine(body);
    case BOOT_PEERS:
        return peers_fine(body, header->size);
    case BOOT_FAILED: {
        const struct boot_failed *failed = body;
        return failed->reason >= BOOT_BAD_PROOF && failed->reason < BOOT_REASONS;
    }
    default:
        return true;
    }
}

/* One buffer, so that no two different inputs give the same bytes: the type and the two numbers have fixed places. */
static void bootstrap_tag_of(const uint8_t nonce[BOOT_NONCE], enum boot_type type, const uint8_t server[16],
                             const uint8_t client[16], const void *body, size_t size, uint8_t out[16])
{
    uint8_t text[8 + 16 + 16 + BOOT_BODY_MAX] = {'t', 'u', 't', 't', 'i', BOOT_VERSION, (uint8_t)type};
    size_t rest = size - 16;
    memcpy(text + 8, server, 16);
    memcpy(text + 24, client, 16);
    memcpy(text + 40, (const uint8_t *)body + 16, rest);
    siphash(nonce, text, 40 + rest, out);
}

void boot_seal(const uint8_t nonce[BOOT_NONCE], enum boot_type type, const uint8_t server[16], const uint8_t client[16],
               void *body, size_t size)
{
    uint8_t tag[16];
    bootstrap_tag_of(nonce, type, server, client, body, size, tag);
    memcpy(body, tag, sizeof tag);
}

bool boot_proven(const uint8_t nonce[BOOT_NONCE], enum boot_type type, const uint8_t server[16],
                 const uint8_t client[16], const void *body, size_t size)
{
    uint8_t tag[16];
    if (size < sizeof tag || size > BOOT_BODY_MAX)
        return false;
    bootstrap_tag_of(nonce, type, server, client, body, size, tag);
    return siphash_equal(tag, body);
}

void boot_address_put(struct boot_address *out, const struct net_address *address)
{
    *out = (struct boot_address){.family = address->any.sa_family == AF_INET6 ? 6 : 4, .port = net_port(address)};
    if (out->family == 6)
        memcpy(out->host, &address->v6.sin6_addr, 16);
    else
        memcpy(out->host, &address->v4.sin_addr, 4);
}

bool boot_address_get(const struct boot_address *from, struct net_address *out)
{
    memset(out, 0, sizeof *out);
    if (!address_fine(from))
        return false;
    out->any.sa_family = from->family == 6 ? AF_INET6 : AF_INET;
    if (from->family == 6)
        memcpy(&out->v6.sin6_addr, from->host, 16);
    else
        memcpy(&out->v4.sin_addr, from->host, 4);
    net_set_port(out, from->port);
    return true;
}

void boot_id_put(tutti_unique_id_t *out, const struct net_address *root, const uint8_t nonce[BOOT_NONCE])
{
    struct boot_id id = {.magic = ID_MAGIC, .version = BOOT_VERSION};
    boot_address_put(&id.root, root);
    memcpy(id.nonce, nonce, BOOT_NONCE);
    memcpy(out, &id, sizeof id);
}

void boot_id_set_listening(tutti_unique_id_t *id)
{
    uint16_t yes = 1;
    memcpy(id->bytes + offsetof(struct boot_id, listening), &yes, sizeof yes);
}

bool boot_id_listening(const tutti_unique_id_t *id)
{
    uint16_t listening;
    memcpy(&listening, id->bytes + offsetof(struct boot_id, listening), sizeof listening);
    return listening == 1;
}

void boot_id_set_opener(tutti_unique_id_t *id, int rank)
{
    uint32_t opener = (uint32_t)rank + 1;
    memcpy(id->bytes + offsetof(struct boot_id, opener), &opener, sizeof opener);
}

int boot_id_opener(const tutti_unique_id_t *id)
{
    uint32_t opener;
    memcpy(&opener, id->bytes + offsetof(struct boot_id, opener), sizeof opener);
    return opener <= BOOT_RANKS_MAX ? (int)opener - 1 : -1;
}

tutti_result_t boot_id_get(const tutti_unique_id_t *from, struct net_address *root, uint8_t nonce[BOOT_NONCE])
{
    struct boot_id id;
    memcpy(&id, from, sizeof id);
    if (id.magic == __builtin_bswap32(ID_MAGIC))
        return error_set(TUTTI_INVALID_ARGUMENT, "the unique id comes from a machine with the other byte order");
    if (id.magic != ID_MAGIC)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "these 128 bytes are not a unique id; make one with tutti_get_unique_id and give all "
                         "ranks a copy");
    if (id.version != BOOT_VERSION)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "the unique id has version %u, this library speaks version %u: use one tutti "
                         "version for all ranks",
                         id.version, BOOT_VERSION);
    if (!boot_address_get(&id.root, root))
        return error_set(TUTTI_INVALID_ARGUMENT, "the unique id holds no valid address: it was damaged on its way");
    memcpy(nonce, id.nonce, BOOT_NONCE);
    return TUTTI_SUCCESS;
}
