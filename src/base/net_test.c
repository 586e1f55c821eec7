/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, the choice of an interface by name, and the keyed hash against its published vectors. */
#include "base/error.h"
#include "base/net.h"
#include "base/param.h"
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void parse_and_format(void **state)
{
    static const struct {
        const char *text, *back;
    } rows[] = {
        {"10.0.0.1:4711", "10.0.0.1:4711"}, {"[fd00::1]:80", "[fd00::1]:80"}, {"127.0.0.1:0", "127.0.0.1:0"},
        {"[::1]:65535", "[::1]:65535"},     {"[10.1.2.3]:5", "10.1.2.3:5"},
    };
    struct net_address address;
    char text[NET_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(net_parse("X", rows[i].text, &address), TUTTI_SUCCESS);
        assert_string_equal(net_format(&address, text), rows[i].back);
        assert_true(net_is_numeric(rows[i].text));
    }
    assert_int_equal(net_parse("X", "localhost:12", &address), TUTTI_SUCCESS);
    assert_true(net_is_loopback(&address));
    assert_int_equal(net_port(&address), 12);
    assert_false(net_is_numeric("localhost:12"));
}

static void nonsense_is_refused(void **state)
{
    static const char *const rows[] = {"",        ":",       "host",       "host:", ":80",     "host:65536",
                                       "host:-1", "host:1x", "fd00::1:80", "[]:1",  "[::1:80", "host:123456789"};
    char longest[600];
    struct net_address address;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(net_parse("X", rows[i], &address), TUTTI_INVALID_ARGUMENT);
    memset(longest, 'a', sizeof longest);
    strcpy(longest + 500, ":80");
    assert_int_equal(net_parse("X", longest, &address), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(net_parse("X", "no..such..host:80", &address), TUTTI_SYSTEM_ERROR);
    assert_non_null(strstr(error_last(), "no..such..host"));
    assert_int_equal(net_parse("X", "[fe80::1%lo]:80", &address), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "link-local"));
}

static void wishes(void **state)
{
    static const struct {
        const char *wish, *name;
        bool wanted;
    } rows[] = {
        {"eth,ib", "eth0", true},     {"eth,ib", "ib3", true},
        {"eth,ib", "eno1", false},    {"=eth0", "eth0", true},
        {"=eth0", "eth01", false},    {"=eth0,eth1", "eth1", true},
        {"^docker,lo", "eth0", true}, {"^docker,lo", "docker0", false},
        {"^docker,lo", "lo", false},  {"^=eth0", "eth01", true},
        {"^=eth0", "eth0", false},    {"eth0", "eth01", true},
        {",,eth", "eth0", true},      {"eth,", "x", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(net_name_wanted(rows[i].wish, rows[i].name), rows[i].wanted);
}

static void classes(void **state)
{
    assert_true(net_name_class("ib0", false) < net_name_class("eth0", false));
    assert_true(net_name_class("eth0", false) < net_name_class("docker0", false));
    assert_true(net_name_class("br-1a2b", false) < net_name_class("lo", true));
}

static tutti_result_t interfaces_for(const char *wish, struct net_interface *out, int *count)
{
    setenv("TUTTI_SOCKET_IFNAME", wish, 1);
    param_reload();
    tutti_result_t result = net_interfaces(out, 8, count);
    unsetenv("TUTTI_SOCKET_IFNAME");
    param_reload();
    return result;
}

static void interfaces(void **state)
{
    struct net_interface found[8];
    int count;
    assert_int_equal(interfaces_for("=lo", found, &count), TUTTI_SUCCESS);
    for (int i = 0; i < count; i++) {
        assert_string_equal(found[i].name, "lo");
        assert_true(net_is_loopback(&found[i].address));
    }
    assert_int_equal(interfaces_for("nosuch", found, &count), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "TUTTI_SOCKET_IFNAME=\"nosuch\""));
    assert_non_null(strstr(error_last(), " lo"));
    assert_int_equal(interfaces_for("", found, &count), TUTTI_SUCCESS);
    assert_true(count > 0);
}

static void reserve_then_listen(void **state)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}}, none, local;
    int reserved, listener, refused;
    assert_int_equal(net_reserve(&at, &reserved), TUTTI_SUCCESS);
    assert_int_not_equal(net_port(&at), 0);
    assert_int_equal(net_listen(&at, 1, &listener), TUTTI_SUCCESS);
    assert_int_not_equal(net_listen(&at, 1, &refused), TUTTI_SUCCESS);
    int fd = net_connect(&at);
    assert_true(fd >= 0);
    assert_true(net_local(fd, &local));
    assert_true(net_same_host(&local, &at));
    close(fd);
    close(listener);
    close(reserved);
    none = at;
    none.v4.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, for documentation only */
    assert_int_equal(net_listen(&none, 1, &refused), TUTTI_SYSTEM_ERROR);
}

/* From the reference: key 00..0f, message 00..(n-1). The 16-byte results for n = 0 and 1. */
static void siphash_vectors(void **state)
{
    static const uint8_t want[2][16] = {
        {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
        {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45},
    };
    uint8_t key[16], text[64], out[16], other[16];
    for (int i = 0; i < 16; i++)
        key[i] = (uint8_t)i;
    for (int i = 0; i < 64; i++)
        text[i] = (uint8_t)i;
    for (size_t n = 0; n < 2; n++) {
        siphash(key, text, n, out);
        assert_memory_equal(out, want[n], 16);
    }
    siphash(key, text, 63, out);
    text[62] ^= 1;
    siphash(key, text, 63, other);
    assert_false(siphash_equal(out, other));
    assert_true(siphash_equal(out, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_and_format), cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(wishes),           cmocka_unit_test(classes),
        cmocka_unit_test(interfaces),       cmocka_unit_test(reserve_then_listen),
        cmocka_unit_test(siphash_vectors),
    };
    setenv("TUTTI_DEBUG", "none", 0);
    param_reload();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
