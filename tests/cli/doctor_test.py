#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti doctor on machines that lack something: namespaces, limits and control groups make them of this one.

doctor_test.py TUTTI [FOLDER OF THE STAND-IN DRIVER [SOFTWARE RDMA LIBRARY]]; "" for one that was not built
"""

import ctypes
import json
import os
import platform
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = ""
DRIVER = ""
DEVICES = ""
DEADLINE = 60
UNSHARE = ["unshare"] if os.geteuid() == 0 else ["unshare", "-r"]
CALLS = {
    "x86_64": {"memfd_create": 319, "process_vm_readv": 310},
    "aarch64": {"memfd_create": 279, "process_vm_readv": 270},
}
STATUS = {"ok": 0, "wrong": 5, "warn": 6}


def can(*options):
    return (
        shutil.which("unshare")
        and subprocess.run([*UNSHARE, *options, "true"], capture_output=True, check=False).returncode == 0
    )


def refuse(*names):
    """For preexec_fn: these system calls fail with EPERM, as the seccomp profiles of containers let them."""
    numbers = [CALLS[platform.machine()][name] for name in names]

    def install():
        code = [(0x20, 0, 0, 0)]  # the number of the call
        for number in numbers:
            code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
        code.append((0x06, 0, 0, 0x7FFF0000))
        text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

        program, libc = Program(len(code), ctypes.addressof(text)), ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")

    return install


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-doctor-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.folder)

    def doctor(self, *args, before=(), env=None, **more):
        """Exit status and the lines, as {check: (state, found, costs, mend)}."""
        done = subprocess.run(
            [*before, TUTTI, "doctor", *args],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            env={**os.environ, "TUTTI_TRACE_DIR": self.folder, **(env or {})},
            **more,
        )
        self.assertEqual(done.stderr, "")
        lines = {}
        for line in done.stdout.splitlines()[:-1]:
            what, *rest = line.split(" | ")
            state, check, found = what.split(None, 2)
            self.assertEqual([part.split(": ")[0] for part in rest], [] if state == "ok" else ["costs", "mend"], line)
            lines[check] = (state, found, *[part.split(": ", 1)[1] for part in rest])
        return done.returncode, lines

    def inside(self, check, *args, files=None, setup="true", options=("-m",), **more):
        """The same of one check in namespaces of its own, where `files` stand in place of others: folder: {path:
        text}."""
        if not can(*options):
            self.skipTest("namespaces may not be made here")
        script = "set -e\n"
        for folder, texts in (files or {}).items():
            made = tempfile.mkdtemp(dir=self.folder)
            os.chmod(made, 0o755)
            for path, text in texts.items():
                os.makedirs(os.path.dirname(os.path.join(made, path)), exist_ok=True)
                with open(os.path.join(made, path), "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            self.assertTrue(os.path.isdir(folder), folder)
            script += f"mount --bind {made} {folder}\n"
        before = [*UNSHARE, *options, "sh", "-c", script + setup + '\nexec "$@"', "sh"]
        code, lines = self.doctor(*args, check, before=before, **more)
        self.assertEqual(list(lines), [check])
        return code, lines[check]

    def expect(self, result, state, found, mend=None):
        self.assertEqual((result[0], result[1][0]), (STATUS[state], state), result)
        self.assertRegex(result[1][1], found)
        if mend:
            self.assertRegex(result[1][3], mend)

    def job(self, *options):
        """One rank that writes its box into the folder, in namespaces of its own."""
        before = [*UNSHARE, "--fork", "--kill-child", *options] if options else []
        job = subprocess.Popen(
            [*before, TUTTI, "perf", "allreduce", "-b", "8", "-e", "8", "-n", "1000000000", "-c", "0"],
            env={**os.environ, "TUTTI_TRACE_DIR": self.folder, "TUTTI_SOCKET_IFNAME": "", "TUTTI_TRANSPORT": "auto"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.addCleanup(job.wait, DEADLINE)
        self.addCleanup(lambda: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        return job

    def one(self, check, *args, **more):
        code, lines = self.doctor(*args, check, **more)
        return code, lines[check]


class Memory(Doctor):
    def test_boxes(self):
        self.expect(self.one("boxes", "-n", "2"), "ok", r"has .* free of .*; boxes of 2 ranks take \d+ KiB")
        self.expect(
            self.one("boxes", env={"TUTTI_TRACE_DIR": "/nonexistent"}),
            "wrong",
            "/nonexistent: No such file",
            "TUTTI_TRACE_DIR=",
        )
        self.expect(self.one("boxes", env={"TUTTI_TRACE": "0"}), "warn", "TUTTI_TRACE=0", "unset TUTTI_TRACE")
        limit = limited("--fsize=1048576")
        self.expect(self.one("boxes", before=limit), "wrong", r"files may have 1.0 MiB", "ulimit -f unlimited")

    def test_more_than_any_disk(self):
        code, (state, _, _, mend) = self.one("boxes", "-n", "1048576")
        self.assertEqual((code, state), (STATUS["warn"], "warn"))
        self.assertRegex(mend, "^(mount .*, or |export )TUTTI_TRACE_DIR=a folder with room$")

    def test_little_room(self):
        for size, state in (("64k", "wrong"), ("400k", "warn")):
            self.expect(
                self.inside(
                    "boxes",
                    "-n",
                    "4",
                    setup=f"mount -t tmpfs -o size={size} none /dev/shm",
                    env={"TUTTI_TRACE_DIR": "/dev/shm"},
                ),
                state,
                "/dev/shm has .* free of",
                "mount -o remount,size=.*M /dev/shm",
            )

    def disk(self):
        """A folder that is not in memory."""
        for folder in ("/var/tmp", "/tmp", os.getcwd()):
            kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout
            if kind.strip() not in ("tmpfs", "ramfs"):
                made = tempfile.mkdtemp(prefix="tutti-doctor-", dir=folder)
                self.addCleanup(shutil.rmtree, made)
                return made
        return self.skipTest("all folders here are in memory")

    def test_boxes_on_a_disk(self):
        disk = self.disk()
        self.expect(
            self.one("boxes", "-n", "2", env={"TUTTI_TRACE_DIR": disk}),
            "warn",
            f"; {disk} is not in memory but on a disk ",
            "^export TUTTI_TRACE_DIR=/dev/shm$",
        )
        more = {"setup": f"mount --bind {disk} /dev/shm", "env": {"TUTTI_TRACE_DIR": "/dev/shm"}}
        self.expect(
            self.inside("boxes", "-n", "2", **more),
            "warn",
            "; /dev/shm is not in memory but on a disk ",
            "^mount -t tmpfs none /dev/shm .docker: --shm-size",
        )
        self.expect(
            self.inside("shared", "-n", "2", preexec_fn=refuse("memfd_create"), **more),
            "wrong",
            "; /dev/shm is not in memory but on a disk ",
            "^mount -t tmpfs none /dev/shm .docker: --shm-size=96m",
        )

    def test_the_dead_take_the_room(self):
        job = self.job()
        self.assertTrue(wait_for(lambda: "; 1 processes" in self.one("namespaces")[1][1]))
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(DEADLINE)
        room, (box,) = os.path.join(self.folder, "room"), os.listdir(self.folder)
        box, copy = os.path.join(self.folder, box), os.path.join(self.folder, "copy")
        subprocess.run(["cp", "--sparse=always", box, copy], check=True)
        # A box of a process that ended early has a page or two: as many of them as one box that is whole.
        with open(copy, "rb") as file:
            taken = 4096 * sum(any(page) for page in iter(lambda: file.read(4096), b""))
        (whole,) = re.findall(r"boxes of 1 ranks take (\d+) KiB", self.one("boxes", "-n", "1")[1][1])
        count = int(whole) * 1024 // taken + 1
        os.mkdir(room)
        setup = f"mount -t tmpfs -o size={count * taken + 65536} none {room}\n" + "".join(
            f"cp --sparse=always {copy} {box.replace(self.folder, room)[:-4]}.{number}.box\n" for number in range(count)
        )
        self.expect(
            self.inside("boxes", "-n", "1", setup=setup, env={"TUTTI_TRACE_DIR": room}),
            "wrong",
            room,
            "^tutti trace --clean$",
        )

    def test_shared(self):
        self.expect(self.one("shared"), "ok", "memfd_create works")
        self.expect(
            self.inside(
                "shared",
                "-n",
                "2",
                preexec_fn=refuse("memfd_create"),
                setup="mount -t tmpfs -o size=1g none /dev/shm",
            ),
            "warn",
            "memfd_create: Operation not permitted",
            "seccomp",
        )
        self.expect(
            self.inside(
                "shared",
                "-n",
                "2",
                preexec_fn=refuse("memfd_create"),
                setup="mount -t tmpfs -o size=1m none /dev/shm",
            ),
            "wrong",
            "2 ranks fill up to 32.0 MiB",
            "mount -o remount,size=96M /dev/shm",
        )

    def test_attach(self):
        self.expect(
            self.one("attach", preexec_fn=refuse("process_vm_readv")),
            "warn",
            "process_vm_readv between ranks: Operation not permitted",
            "CAP|sysctl|seccomp",
        )
        self.expect(
            self.inside("attach", files={"/proc/sys/kernel": {"yama/ptrace_scope": "0"}}),
            "ok",
            "process_vm_readv works; kernel.yama.ptrace_scope is 0",
        )
        for scope, mend in (("0", "SYS_PTRACE"), ("1", "ptrace_scope=0$"), ("3", "next boot")):
            self.expect(
                self.inside(
                    "attach",
                    files={"/proc/sys/kernel": {"yama/ptrace_scope": scope}},
                    preexec_fn=refuse("process_vm_readv"),
                ),
                "warn",
                "not permitted",
                mend,
            )
        self.expect(
            self.one("attach", env={"TUTTI_SHM_CMA": "0"}),
            "warn",
            "switched off by TUTTI_SHM_CMA",
            "unset TUTTI_SHM_CMA",
        )

    RDMA = {"infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)"}

    def test_memlock(self):
        small = limited("--memlock=65536")
        self.expect(self.one("memlock", before=small), "ok", "64.0 KiB may be locked .*there is none")
        self.expect(
            self.inside("memlock", files={"/sys/class": self.RDMA}, setup="ulimit -l 64"),
            "warn",
            "64.0 KiB may be locked",
            "ulimit -l unlimited",
        )
        if (
            subprocess.run(limited("--memlock=unlimited", "true"), stderr=subprocess.DEVNULL, check=False).returncode
            == 0
        ):
            self.expect(self.one("memlock", before=limited("--memlock=unlimited")), "ok", "any memory")

    def test_pages(self):
        def huge(text):
            return self.inside("pages", files={"/sys/kernel": {"mm/transparent_hugepage/enabled": text}})

        self.expect(huge("always [madvise] never"), "ok", "pages: madvise$")
        self.expect(huge("always madvise [never]"), "warn", "pages: never$", "echo madvise >/sys")
        self.expect(self.inside("pages", files={"/sys/kernel": {"other": ""}}), "ok", "hides them")


def limited(*options):
    return ["prlimit", *options]


class Processors(Doctor):
    def test_processors(self):
        self.expect(
            self.one("processors", "-n", "1", before=["taskset", "-c", str(min(os.sched_getaffinity(0)))]),
            "warn" if os.cpu_count() > 1 else "ok",
            r"1 of \d+ may be used, by 1 rank$",
        )
        self.expect(self.one("processors", "-n", "2000"), "warn", "by 2000 ranks", "^start [0-9]+ ranks here")
        if len(os.sched_getaffinity(0)) > 1:
            self.expect(self.one("processors"), "ok", "may be used")
        self.expect(self.one("processors", env={"TUTTI_LOCAL_SIZE": "3000"}), "warn", "by 3000 ranks")

    def quota(self, groups, files, ranks="2"):
        """In a mount namespace where /sys/fs/cgroup and this process's groups are others."""
        self.assertTrue(os.path.isdir("/sys/fs/cgroup"))
        with open(os.path.join(self.folder, "groups"), "w", encoding="utf-8") as file:
            file.write(groups)
        return self.inside(
            "quota",
            "-n",
            ranks,
            files={"/sys/fs/cgroup": files},
            setup=f"mount --bind {self.folder}/groups /proc/$$/cgroup",
        )

    def test_quota(self):
        self.expect(
            self.quota("0::/a/b\n", {"a/b/cpu.max": "max 100000", "cpu.max": "max 100000"}), "ok", "no control group"
        )
        self.expect(
            self.quota(
                "0::/a/b\n",
                {
                    "a/b/cpu.max": "max 100000",
                    "a/cpu.max": "150000 100000",
                    "a/cpu.stat": "nr_periods 9\nnr_throttled 7",
                },
            ),
            "warn",
            "1.50 processors in each 100 ms by /sys/fs/cgroup/a, stopped for it 7 times",
            "CPUQuota=200%",
        )
        self.expect(
            self.quota("0::/not/here\n", {"cpu.max": "20000 50000"}), "wrong", "0.40 processors in each 50 ms"
        )
        self.expect(
            self.quota(
                "4:cpu,cpuacct:/x\n1:name=systemd:/y\n",
                {"cpu,cpuacct/x/cpu.cfs_quota_us": "300000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            ),
            "ok",
            "3.00 processors in each 100 ms",
        )
        self.expect(
            self.quota(
                "3:cpu:/x\n",
                {
                    "cpu/x/cpu.cfs_quota_us": "-1",
                    "cpu/x/cpu.cfs_period_us": "100000",
                    "cpu/cpu.cfs_quota_us": "nonsense",
                    "cpu/cpu.cfs_period_us": "0",
                },
            ),
            "ok",
            "no control group",
        )
        self.expect(self.quota("garbage\n\n::\n", {"cpu.max": "nonsense"}), "ok", "no control group")

    def test_a_real_group(self):
        group = f"/sys/fs/cgroup/cpu/tutti-doctor-{os.getpid()}"
        try:
            os.mkdir(group)
        except OSError:
            self.skipTest("no control group can be made here (of version 1, as root)")
        self.addCleanup(os.rmdir, group)
        with open(f"{group}/cpu.cfs_quota_us", "w", encoding="utf-8") as file:
            file.write("50000")
        join = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]
        self.expect(
            self.one("quota", before=join), "wrong", f"0.50 processors in each 100 ms by {group}, stopped for it"
        )

    def test_clock(self):
        def clock(current, others):
            return self.inside(
                "clock",
                files={
                    "/sys/devices/system/clocksource": {
                        "clocksource0/current_clocksource": current,
                        "clocksource0/available_clocksource": others,
                    }
                },
            )

        self.expect(clock("hpet", "tsc hpet acpi_pm"), "warn", r"source hpet, \d+ ns a reading", "^echo tsc >/sys")
        self.expect(clock("acpi_pm", "acpi_pm"), "warn", "source acpi_pm", "tsc=reliable")
        self.assertRegex(self.one("clock")[1][1], r"^source \S.*, \d+ ns a reading; the processor's counter")

    def test_files(self):
        self.expect(
            self.one("files", "-n", "2", before=limited("--nofile=500:500")), "ok", "500 may be open .* for 76 peers"
        )
        self.expect(
            self.one("files", "-n", "64", before=limited("--nofile=60:4096")),
            "wrong",
            "^60 may be open",
            "^ulimit -n 4096$",
        )
        self.expect(
            self.one("files", "-n", "64", before=limited("--nofile=30:60")), "wrong", "for 0 peers", "limits.conf"
        )

    def test_parameters(self):
        self.expect(self.one("parameters"), "ok", r"\d+ of \d+ are set")
        self.expect(self.one("parameters", env={"TUTTI_SPIN": "fast"}), "wrong", "TUTTI_SPIN=fast", "tutti env")
        self.expect(
            self.one("parameters", env={"TUTTI_TRANSPROT": "tcp"}),
            "warn",
            "; TUTTI_TRANSPROT is no parameter$",
            "^TUTTI_TRANSPORT in the place of TUTTI_TRANSPROT$",
        )
        self.expect(
            self.one("parameters", env={"TUTTI_XYZZYXYZZY": "1"}),
            "warn",
            "is no parameter$",
            "^unset TUTTI_XYZZYXYZZY$",
        )
        self.expect(self.one("parameters", env={"NCCL_NET_GDR_LEVEL": "1"}), "ok", "can be read$")


class Network(Doctor):
    OPTIONS = ("-m", "-n")
    PAIR = "ip link set lo up; ip link add {0} type veth peer name {1}; ip link set {0} up; ip link set {1} up; "

    def net(self, check, setup, **more):
        return self.inside(check, setup=setup, options=self.OPTIONS, **more)

    def test_interfaces(self):
        self.expect(
            self.net("interfaces", "true"), "wrong", "no interface fits .* this host has: none", "ip link set lo up"
        )
        self.expect(
            self.net("interfaces", "ip link set lo up"), "warn", "meet at lo 127.0.0.1", "TUTTI_SOCKET_IFNAME"
        )
        pair = self.PAIR.format("docker0", "peer0") + "ip address add 10.9.0.1/24 dev docker0"
        self.expect(self.net("interfaces", pair), "warn", r"docker0 10\.9\.0\.1", "the interface that does")
        pair = (
            self.PAIR.format("eth7", "peer0")
            + "ip address add 10.9.0.1/24 dev eth7; ip -6 address add fd00::7/64 dev eth7 nodad"
        )
        self.expect(
            self.net("interfaces", pair, files={"/sys/class": {"net/eth7/speed": "25000"}}),
            "ok",
            r"^ranks meet at eth7 10\.9\.0\.1 \(25 Gb/s\), eth7 \[fd00::7\] \(25 Gb/s\)$",
        )

    def test_mtu(self):
        pair = self.PAIR.format("eth7", "eth8") + "ip address add 10.9.0.1/24 dev eth7; "
        self.expect(self.net("mtu", "ip link set lo up"), "ok", "no interface to other hosts")
        self.expect(
            self.net("mtu", pair, files={"/sys/class": {"net/eth7/speed": "1000"}}), "ok", "packet: eth7 1500$"
        )
        self.expect(
            self.net("mtu", pair, files={"/sys/class": {"net/eth7/speed": "25000"}}),
            "warn",
            "eth7 1500",
            "ip link set eth7 mtu 9000",
        )
        self.expect(
            self.net("mtu", pair + "ip link set eth7 mtu 900", files={"/sys/class": {"net/none": ""}}),
            "warn",
            "eth7 900",
            "mtu 1500",
        )
        self.expect(
            self.net(
                "mtu",
                pair + "ip address add 10.8.0.1/24 dev eth8; ip link set eth8 mtu 1400",
                files={"/sys/class": {"net/none": ""}},
            ),
            "warn",
            "eth7 1500, eth8 1400|eth8 1400, eth7 1500",
            "ip link set eth. mtu 1[45]00",
        )

    def test_tcp(self):
        def tcp(most, queue, **more):
            return self.inside(
                "tcp", files={"/proc/sys/net/core": {"wmem_max": most, "rmem_max": most, "somaxconn": queue}}, **more
            )

        self.expect(
            tcp("8388608", "4096"), "ok", "wmem_max 8388608.*, net.core.rmem_max 8388608.*, net.core.somaxconn 4096"
        )
        self.expect(tcp("8388608", "128"), "warn", "somaxconn 128", "somaxconn=4096")
        # without the right to any size; root of a user namespace has none either
        drop = (
            "true" if os.geteuid() else 'exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"'
        )
        os.chmod(self.folder, 0o755)
        self.expect(tcp("212992", "4096", setup=drop), "warn", "wmem_max 212992", "wmem_max=4194304")
        self.expect(self.inside("tcp", files={"/proc/sys/net/core": {"none": ""}}), "ok", "somaxconn is not told")


class Devices(Doctor):
    def rdma(self, device=True, env=None, **port):
        """The system shows a port, and the software device, where this build has it, one of the same name."""
        soft = {"TUTTI_IBVERBS_LIBRARY": DEVICES, "SOFTVERBS_DEVICES": "mlx5_0=lo", "TUTTI_IB_HCA": "mlx5_0"}
        files = {
            "infiniband/mlx5_0/ports/1/" + path.replace("__", "/"): text
            for path, text in {
                "state": "4: ACTIVE",
                "rate": "400 Gb/sec (4X NDR)",
                "link_layer": "Ethernet",
                **port,
            }.items()
        }
        return self.inside(
            "rdma",
            files={"/sys/class": files},
            setup="mount -t tmpfs none /dev; : >/dev/null; "
            + ("mkdir /dev/infiniband; : >/dev/infiniband/uverbs0" if device else "true"),
            env={**(soft if DEVICES else {"TUTTI_NET": "Socket"}), **(env or {})},
        )

    def test_rdma(self):
        gids = {
            "gids__0": "fe80:0000:0000:0000:0000:0000:0000:0001",
            "gid_attrs__types__0": "IB/RoCE v1",
            "gids__1": "fe80:0000:0000:0000:0000:0000:0000:0001",
            "gid_attrs__types__1": "RoCE v2",
            "gids__2": "0000:0000:0000:0000:0000:ffff:0a00:0001",
            "gid_attrs__types__2": "RoCE v2",
            "gids__3": "0000:0000:0000:0000:0000:0000:0000:0000",
        }
        without = self.inside("rdma", files={"/sys/class": {"net/none": ""}},
                              env={"TUTTI_IBVERBS_LIBRARY": "libnone.so"})
        self.expect(without, "ok", "^no device in /sys; hosts talk by TCP: cannot load libibverbs: libnone.so")
        self.expect(
            self.rdma(**gids),
            "ok",
            r"^mlx5_0:1 up, 400 Gb/s, Ethernet, 3 GIDs, 2 is RoCE v2 0000:0000:0000:0000:0000:ffff:0a00:0001; ",
        )
        self.expect(self.rdma(), "warn", "Ethernet, 0 GIDs", "ip address add")
        self.expect(self.rdma(state="1: DOWN", **gids), "warn", "mlx5_0:1 down", "rdma link")
        self.expect(self.rdma(device=False, **gids), "warn", "up, 400", "--device=/dev/infiniband")
        self.expect(self.rdma(link_layer="InfiniBand", gids__0=gids["gids__0"]), "ok", "InfiniBand, 1 GIDs; ")
        self.expect(self.rdma(env={"NCCL_NET": "Socket"}, **gids), "ok",
                    "; no RDMA between hosts: TUTTI_TRANSPORT=auto, TUTTI_NET=Socket$")
        if not DEVICES:
            return
        self.expect(self.rdma(env={"TUTTI_IBVERBS_LIBRARY": "libnone.so"}, **gids), "warn",
                    "; hosts talk by TCP: cannot load libibverbs: libnone.so", "^`apt install libibverbs1")
        self.expect(self.rdma(**gids), "ok", "; hosts talk by RDMA, through mlx5_0:1, where a first exchange")
        self.expect(self.rdma(env={"SOFTVERBS_DEVICES": "none0"}, **gids), "warn",
                    "hosts talk by TCP: the kernel has RDMA devices that libibverbs does not show$",
                    "ibverbs-providers")
        self.expect(self.rdma(env={"SOFTVERBS_FAULT": "fail-qp=1"}, **gids), "warn",
                    "RDMA device mlx5_0:1 cannot make a reliable queue pair")
        self.expect(self.rdma(env={"TUTTI_IB_DISABLE": "1"}, **gids), "ok", "by TCP: RDMA is switched off")
        self.expect(self.rdma(env={"TUTTI_IB_HCA": ""}, **gids), "ok", "RDMA device mlx5_0:1 reaches only this host$")

    def test_rdma_that_is_asked_for(self):
        """Nothing falls back to TCP then, so what is missing is an error."""
        nothing = {"/sys/class": {"net/none": ""}}
        asked = {"TUTTI_TRANSPORT": "verbs"}
        lacking = self.inside("rdma", files=nothing, env={**asked, "TUTTI_IBVERBS_LIBRARY": "libnone.so"})
        self.expect(lacking, "wrong", "TUTTI_TRANSPORT=verbs: hosts talk by RDMA; libnone.so cannot be loaded",
                    "apt install libibverbs1")
        forbidden = self.inside("rdma", files=nothing, env={**asked, "TUTTI_IB_DISABLE": "1"})
        self.expect(forbidden, "wrong", "^no device in /sys; ", "unset TUTTI_IB_DISABLE")
        if DEVICES:
            none = self.inside("rdma", files=nothing,
                               env={**asked, "TUTTI_IBVERBS_LIBRARY": DEVICES, "SOFTVERBS_DEVICES": "none0"})
            self.expect(none, "wrong", "hosts talk by RDMA$", "export TUTTI_TRANSPORT=auto")
            some = self.inside("rdma", files=nothing, env={**asked, "TUTTI_IBVERBS_LIBRARY": DEVICES})
            self.expect(some, "ok", "^no device in /sys; [1-9][0-9]* of .*; TUTTI_TRANSPORT=verbs: hosts talk by RDMA$")

    def test_gpus(self):
        nothing = {"TUTTI_NVML_LIBRARY": "libnone.so"}
        bus = {"/sys/bus/pci/devices": {"0000:17:00.0/class": "0x030200", "0000:17:00.0/vendor": "0x10de"}}
        self.expect(self.one("gpus", env=nothing), "ok", "^none$") if not os.path.exists("/dev/nvidia0") else None
        self.expect(
            self.inside("gpus", files=bus, env=nothing),
            "wrong",
            "^1 of NVIDIA on the bus, but no driver: load NVIDIA's",
            "modprobe nvidia",
        )

    def test_gpus_of_the_stand_in(self):
        if not DRIVER:
            self.skipTest("this build has no stand-in driver")
        env = {"LD_LIBRARY_PATH": DRIVER, "TUTTI_EMULATED_GPUS": "3"}
        self.expect(
            self.one("gpus", env=env),
            "ok",
            r"^3 \(.*, 18 NVLinks\), driver .*; pairs by NVLink 3, by PCI Express 0, by neither 0$",
        )
        self.expect(
            self.one("gpus", env={**env, "TUTTI_EMULATED_P2P": "0"}),
            "warn",
            r"by neither 3 \(first 0 and 1\)",
            "nvidia-smi topo",
        )
        self.expect(
            self.one("gpus", env={**env, "TUTTI_CUDA_LIBRARY": "libnone.so"}),
            "wrong",
            "libnone.so cannot be loaded",
            "compute,utility",
        )


class Namespaces(Doctor):
    """Two jobs with boxes in one folder, the second in a namespace of its own."""

    def look(self, *options):
        if not can(*options):
            self.skipTest("namespaces may not be made here")
        self.job()
        self.job(*options)
        self.assertTrue(wait_for(lambda: "; 2 processes" in self.one("namespaces")[1][1]))
        return self.one("namespaces")

    def test_alike(self):
        self.job()
        self.assertTrue(wait_for(lambda: "; 1 processes" in self.one("namespaces")[1][1]))
        self.expect(self.one("namespaces"), "ok", "1 processes with boxes run$")

    def test_pid(self):
        self.expect(
            self.look("--pid"),
            "warn",
            r"2 processes with boxes run; 1 of them \(one is \d+\) and 1 \(one is \d+\) are in different pid namesp",
            "--pid=host",
        )

    def test_net(self):
        setup = ["--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
        if not can("--net"):
            self.skipTest("namespaces may not be made here")
        self.expect(self.look(*setup), "warn", "different net namespaces", "--network=host")

    def test_user(self):
        self.expect(self.look("--user", "--map-root-user"), "warn", "different user namespaces", "--userns=host")

    def test_of_this_shell(self):
        self.expect(
            self.inside("namespaces", options=("-m", "--pid", "--fork", "--ipc"), setup="mount -t proc none /proc"),
            "ok",
            "its own PID.* its own IPC namespace; 0 processes",
        )


class Telling(Doctor):
    def test_json(self):
        text = self.run_plain("--json")
        told, (_, lines) = json.loads(text), self.doctor()
        self.assertEqual(
            {one["check"]: one["state"] for one in told["checks"]}, {check: line[0] for check, line in lines.items()}
        )
        self.assertIn(told["state"], ("ok", "warn", "wrong"))
        self.assertGreaterEqual(len(lines), 16)
        self.assertEqual(set(told["checks"][0]), {"check", "subject", "state", "found", "costs", "mend"})

    def run_plain(self, *args):
        done = subprocess.run(
            [TUTTI, "doctor", *args],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            env={**os.environ, "TUTTI_TRACE_DIR": self.folder},
        )
        self.assertEqual(done.stderr, "")
        return done.stdout

    def on_terminal(self, **env):
        ours, theirs = pty.openpty()
        done = subprocess.run(
            [TUTTI, "doctor", "parameters"],
            stdout=theirs,
            timeout=DEADLINE,
            check=False,
            env={**os.environ, "TERM": "xterm", "TUTTI_SPIN": "fast", **env},
        )
        os.close(theirs)
        text = os.read(ours, 65536).decode()
        os.close(ours)
        self.assertEqual(done.returncode, STATUS["wrong"])
        return text

    def test_colour_on_a_terminal_alone(self):
        text = self.on_terminal(NO_COLOR="")
        self.assertRegex(text, "^\033\\[1;31mwrong \033\\[0m parameters  .*\r\n {19}costs: .*\r\n {19}mend: ")
        self.assertNotIn("\033", self.on_terminal(NO_COLOR="1"))
        self.assertNotIn("\033", self.on_terminal(NO_COLOR="", TERM="dumb"))
        self.assertNotIn("\033", self.run_plain())

    def test_sum(self):
        self.assertTrue(self.run_plain("parameters").endswith("\n1 check: all is well\n"))
        self.assertRegex(
            self.run_plain("parameters", "processors", "-n", "9999"),
            r"\n2 checks: 0 wrong, 1 could be better, 1 well\n$",
        )

    def test_wrong_usage(self):
        for args, sentence in (
            (["--what"], "there is no option --what"),
            (["-n"], "lacks its value"),
            (["-n", "0"], '-n, --ranks wants a whole number from 1 to 1048576, got "0"'),
            (["boxs"], 'Did you mean "boxes"'),
            (["qqqqqqqqq"], 'there is no check "qqqqqqqqq"\n'),
        ):
            done = subprocess.run(
                [TUTTI, "doctor", *args], capture_output=True, text=True, timeout=DEADLINE, check=False
            )
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(sentence, done.stderr)

    def test_full_device(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for args in (["--json"], []):
                done = subprocess.run(
                    [TUTTI, "doctor", *args],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=DEADLINE,
                    check=False,
                    env={**os.environ, "TUTTI_TRACE_DIR": self.folder},
                )
                self.assertEqual(
                    (done.returncode, done.stderr),
                    (1, "tutti doctor: cannot write the output: No space left on device\n"),
                )


if __name__ == "__main__":
    TUTTI, DRIVER, DEVICES = os.path.abspath(sys.argv[1]), *(sys.argv[2:4] + ["", ""])[:2]
    if "MESON_EXE_WRAPPER" in os.environ:
        sys.exit(77)  # the machine of an emulated processor is another one
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
