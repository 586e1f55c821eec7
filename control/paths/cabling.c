/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/cabling.h"

#include "base/error.h"
#include "model/fabric.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"host", "leaf", "spine", "other"};
const char *const cabling_addresses[2] = {"IPv4 address", "IPv6 address"};
const char *const cabling_nexts[2] = {"IPv4 next hop", "IPv6 next hop"};

tutti_result_t cabling_open(struct cabling *c)
{
    *c = (struct cabling){.devices = json_object(), .port_names = json_object(), .label = ""};
    return c->devices && c->port_names ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "no memory to import files");
}

void cabling_close(struct cabling *c)
{
    json_decref(c->devices);
    free(c->cables);
    json_decref(c->port_names);
    *c = (struct cabling){0};
}

static tutti_result_t full(const struct cabling *c)
{
    return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for what is in it", c->label);
}

/* ---- names ---- */

static bool good_name(const char *text, size_t most, const char *marks)
{
    if (!text || !*text || strlen(text) > most || !isalnum((unsigned char)*text))
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr(marks, *text))
            return false;
    return true;
}

/* What another program wrote may hold control characters: they are not repeated. */
tutti_result_t cabling_bad_word(const struct cabling *c, const char *name, const char *why)
{
    char shown[FABRIC_NAME * 2];
    size_t n = 0;
    for (; name && name[n] && n + 1 < sizeof shown; n++)
        shown[n] = isprint((unsigned char)name[n]) ? name[n] : '?';
    shown[n] = 0;
    return error_note(TUTTI_INVALID_ARGUMENT, "%s: \"%s\" %s", c->label, shown, why);
}

/* A member of an object, made where it is missing. */
static json_t *member(const struct cabling *c, json_t *object, const char *name, json_t *(*make)(void))
{
    json_t *found = json_object_get(object, name);
    if (!found && json_object_set_new(object, name, make()) == 0)
        found = json_object_get(object, name);
    if (!found)
        full(c);
    return found;
}

json_t *cabling_device(struct cabling *c, const char *name)
{
    if (!good_name(name, FABRIC_NAME - 1, "-_.:")) {
        cabling_bad_word(c, name, "cannot be the name of a device");
        return NULL;
    }
    return member(c, c->devices, name, json_object);
}

static bool good_port(const char *port)
{
    return good_name(port, 2 * FABRIC_NAME - 1, "-_.:/@");
}

static tutti_result_t bad_port(const struct cabling *c, const char *port)
{
    return cabling_bad_word(c, port, "cannot be the name of a port");
}

json_t *cabling_port(struct cabling *c, const char *device, const char *port)
{
    if (!good_port(port)) {
        bad_port(c, port);
        return NULL;
    }
    json_t *of = cabling_device(c, device), *ports = of ? member(c, of, "ports", json_object) : NULL;
    return ports ? member(c, ports, port, json_object) : NULL;
}

/* ---- what is known of them ---- */

/* Sets a text, unless another one is there. */
static tutti_result_t tell(const struct cabling *c, json_t *object, const char *of, const char *key, const char *value)
{
    const char *is = json_string_value(json_object_get(object, key));
    if (is && strcmp(is, value) != 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: the %s of %s is %s here, and was %s before", c->label, key, of,
                          value, is);
    return is || json_object_set_new(object, key, json_string(value)) == 0 ? TUTTI_SUCCESS : full(c);
}

static tutti_result_t tell_port(struct cabling *c, const char *device, const char *port, const char *key,
                                const char *value)
{
    char name[4 * FABRIC_NAME];
    json_t *of = cabling_port(c, device, port);
    snprintf(name, sizeof name, "%s %s", device, port);
    return of ? tell(c, of, name, key, value) : TUTTI_INVALID_ARGUMENT;
}

tutti_result_t cabling_once(const struct cabling *c, json_t *rows, const char *row, const char *key, const char *value)
{
    char why[80];
    json_t *at = member(c, rows, row, json_object);
    const char *is = json_string_value(json_object_get(at, key));
    snprintf(why, sizeof why, "stands there twice, each time with another %s", key);
    if (!at)
        return TUTTI_SYSTEM_ERROR;
    if (is)
        return strcmp(is, value) == 0 ? TUTTI_SUCCESS : cabling_bad_word(c, row, why);
    return json_object_set_new(at, key, json_string(value)) == 0 ? TUTTI_SUCCESS : full(c);
}

tutti_result_t cabling_kind(struct cabling *c, const char *device, enum cabling_kind kind)
{
    json_t *of = cabling_device(c, device);
    return of ? tell(c, of, device, "kind", kinds[kind]) : TUTTI_INVALID_ARGUMENT;
}

/* ---- cables ---- */

tutti_result_t cabling_alias(struct cabling *c, const char *device, const char *port, const char *alias)
{
    json_t *of = cabling_device(c, device), *aliases = of ? member(c, of, "aliases", json_object) : NULL;
    const json_t *is = json_object_get(aliases, alias);
    if (!good_port(port))
        return bad_port(c, port);
    if (!aliases)
        return TUTTI_INVALID_ARGUMENT;
    if (is && json_is_string(is) && strcmp(json_string_value(is), port) == 0)
        return TUTTI_SUCCESS;
    return json_object_set_new(aliases, alias, is ? json_null() : json_string(port)) == 0 ? TUTTI_SUCCESS : full(c);
}

/* What a device itself calls a port. */
static const char *name_of(const struct cabling *c, const char *device, const char *port)
{
    const json_t *aliases = json_object_get(json_object_get(c->devices, device), "aliases");
    const char *name = json_string_value(json_object_get(aliases, port));
    return name ? name : port;
}

static tutti_result_t one_end(struct cabling *c, const char *device, const char *port, const char *far,
                              const char *far_port)
{
    char end[4 * FABRIC_NAME];
    snprintf(end, sizeof end, "%s %s", far, far_port);
    return tell_port(c, device, port, "far end", end);
}

tutti_result_t cabling_cable(struct cabling *c, const char *device, const char *port, const char *far,
                             const char *far_port, bool own)
{
    if (!cabling_device(c, device) || !cabling_device(c, far) || (own && !cabling_port(c, device, port)))
        return TUTTI_INVALID_ARGUMENT;
    if (!*port || !*far_port || strlen(port) >= 2 * FABRIC_NAME || strlen(far_port) >= 2 * FABRIC_NAME)
        return bad_port(c, *port && strlen(port) < 2 * FABRIC_NAME ? far_port : port);
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct cabling_told *more = realloc(c->cables, room * sizeof *more);
        if (!more)
            return full(c);
        c->cables = more;
        c->room = room;
    }
    struct cabling_told *told = &c->cables[c->count++];
    *told = (struct cabling_told){.own = own, .label = c->label};
    strcpy(told->device, device);
    strcpy(told->port, port);
    strcpy(told->far, far);
    strcpy(told->far_port, far_port);
    return TUTTI_SUCCESS;
}

tutti_result_t cabling_join(struct cabling *c)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *label = c->label;
    for (size_t i = 0; !result && i < c->count; i++) {
        const struct cabling_told *told = &c->cables[i];
        const char *port = told->own ? told->port : name_of(c, told->device, told->port);
        const char *far_port = name_of(c, told->far, told->far_port);
        c->label = told->label;
        if (!cabling_port(c, told->device, port) || !cabling_port(c, told->far, far_port))
            return TUTTI_INVALID_ARGUMENT;
        result = one_end(c, told->device, port, told->far, far_port);
        if (!result)
            result = one_end(c, told->far, far_port, told->device, port);
    }
    c->label = label;
    return result;
}

/* ---- addresses ---- */

int cabling_family(const char *text, int *bits)
{
    char only[FABRIC_ADDRESS], *end;
    uint8_t address[16];
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof only)
        return -1;
    memcpy(only, text, length);
    only[length] = 0;
    int family = inet_pton(AF_INET, only, address) == 1 ? 0 : inet_pton(AF_INET6, only, address) == 1 ? 1 : -1;
    int most = family == 1 ? 128 : 32;
    long said = slash && isdigit((unsigned char)slash[1]) ? strtol(slash + 1, &end, 10) : slash ? -1 : most;
    if (family < 0 || said < 0 || said > most || (slash && *end))
        return -1;
    *bits = (int)said;
    return family;
}

int cabling_usual(const char *address, char out[FABRIC_ADDRESS])
{
    uint8_t bytes[16];
    int bits, family = cabling_family(address, &bits), kind = family ? AF_INET6 : AF_INET;
    snprintf(out, FABRIC_ADDRESS, "%.*s", (int)strcspn(address, "/"), address);
    if (family >= 0 && inet_pton(kind, out, bytes) == 1)
        inet_ntop(kind, bytes, out, FABRIC_ADDRESS);
    return family;
}

static tutti_result_t tell_address(struct cabling *c, const char *device, const char *port, const char *const *keys,
                                   const char *address)
{
    char usual[FABRIC_ADDRESS];
    char whole[FABRIC_ADDRESS + 8];
    const char *slash = strchr(address, '/');
    int bits, family = cabling_usual(address, usual);
    if (family < 0)
        return cabling_bad_word(c, address, "is no address");
    cabling_family(address, &bits);
    snprintf(whole, sizeof whole, slash ? "%s/%d" : "%s", usual, bits);
    return tell_port(c, device, port, keys[family], whole);
}

tutti_result_t cabling_address(struct cabling *c, const char *device, const char *port, const char *address)
{
    return tell_address(c, device, port, cabling_addresses, address);
}

tutti_result_t cabling_next(struct cabling *c, const char *device, const char *port, const char *address)
{
    return tell_address(c, device, port, cabling_nexts, address);
}

tutti_result_t cabling_vrf(struct cabling *c, const char *device, const char *port, const char *vrf)
{
    return good_name(vrf, FABRIC_NAME - 1, "-_.:") ? tell_port(c, device, port, "vrf", vrf)
                                                   : cabling_bad_word(c, vrf, "cannot be the name of a VRF");
}

tutti_result_t cabling_bundle(struct cabling *c, const char *device, const char *port, const char *bundle)
{
    tutti_result_t result = cabling_port(c, device, bundle) ? TUTTI_SUCCESS : TUTTI_INVALID_ARGUMENT;
    return result ? result : tell_port(c, device, port, "bundle", bundle);
}

tutti_result_t cabling_rate(struct cabling *c, const char *device, const char *port, uint64_t rate)
{
    char text[32];
    snprintf(text, sizeof text, "%llumbit", (unsigned long long)(rate / 1000000));
    return rate >= 1000000
               ? tell_port(c, device, port, "rate", text)
               : error_note(TUTTI_INVALID_ARGUMENT, "%s: %s %s: a rate below 1 Mbit/s", c->label, device, port);
}

tutti_result_t cabling_apart(struct cabling *c, const char *device, const char *port)
{
    return tell_port(c, device, port, "network", "another");
}
