#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of tutti master: who may read it, and, where a browser is installed, what it shows of a job of 1,024 ranks
that agents tell of, and of a real one.

    page_test.py TUTTI FAULTY

With TUTTI_TEST_PICTURES=FOLDER it leaves pictures there; with TUTTI_TEST_PAGE_RANKS=16384 it measures what the page
does with so many.
"""
import base64
import http.client
import json
import os
import re
import signal
import threading
import time
import unittest

import browser
from hosts import TOKEN, HostsTest
from reports import Training, report, process, comm, op

LONG = 120  # seconds until what must happen has happened
MEASURED = int(os.environ.get("TUTTI_TEST_PAGE_RANKS", 0))
NASTY = "<img src=x onerror=\"bad=1\">\"'</script><script>bad=1</script>"


def basic(password):
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


class PageTest(HostsTest):
    def setUp(self):
        super().setUp()
        self.over, self.teller, self.browser = threading.Event(), None, None

    def tearDown(self):
        self.over.set()
        if self.teller:
            self.teller.join()
        if self.browser:
            self.browser.close()
        super().tearDown()

    def fetch(self, url, method="GET", body=None, authorization=None, source="127.0.0.1"):
        """Status, all heads, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG, source_address=(source, 0))
        connection.request(method, url, body, {"Authorization": authorization} if authorization else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, text.decode("latin-1")

    def tell(self, url, body, **more):
        status, _, text = self.fetch(url, "POST", body, f"Bearer {TOKEN}", **more)
        self.assertEqual(status, 200, text)

    def test_doors(self):
        """The token opens, as a password, too, but that lets nobody report; and what is read is guarded."""
        self.start_master()
        for authorization in (None, "Bearer x", "Basic", "Basic x", basic("x"), basic(""), basic(TOKEN[:-1]),
                              "Basic " + base64.b64encode(b"no-colon").decode()):
            for url in ("/page", "/page/main.js", "/picture"):
                status, heads, _ = self.fetch(url, authorization=authorization)
                self.assertEqual(status, 401, (authorization, url))
                self.assertEqual([head.split()[0] for head in heads.get_all("WWW-Authenticate")], ["Bearer", "Basic"])
        self.assertEqual(self.fetch("/report", "POST", report("a"), basic(TOKEN))[0], 401)
        for authorization in (f"Bearer {TOKEN}", basic(TOKEN)):
            status, heads, text = self.fetch("/page", authorization=authorization)
            self.assertEqual((status, heads["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("default-src 'none'; script-src 'self';", heads["Content-Security-Policy"])
            self.assertEqual((heads["X-Content-Type-Options"], heads["Cache-Control"]), ("nosniff", "no-store"))
        for name, kind in (*((name, "javascript") for name in self.scripts(text)), ("style.css", "css")):
            status, heads, text = self.fetch(f"/page/{name}", authorization=basic(TOKEN))
            self.assertEqual((status, heads["Content-Type"]), (200, f"text/{kind}; charset=utf-8"), name)
            self.assertNotRegex(text, r"https?://(?!www.w3.org/)")
            self.assertNotRegex(text, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(")
        self.assertEqual(self.fetch("/page/nothing.js", authorization=basic(TOKEN))[0], 404)
        picture = json.loads(self.fetch("/picture", authorization=basic(TOKEN))[2])
        self.assertEqual((picture["version"], picture["hosts"], picture["comms"]), (1, [], []))

    def scripts(self, page):
        """All that the page loads, and what these load."""
        found = re.findall(r'src="page/(\w+\.js)"', page)
        for name in found:
            text = self.fetch(f"/page/{name}", authorization=basic(TOKEN))[2]
            found += [one for one in re.findall(r'from "\./(\w+\.js)"', text) if one not in found]
        self.assertIn("picture.js", found)
        return found

    def test_picture(self):
        """Garbage for names is a text like others; numbers beyond all bounds draw nothing wrong."""
        self.start_master()
        huge = 2 ** 62
        for number in (1, 2):
            self.tell("/report", report("a", number, processes=process(7, 10 ** 12, [
                comm(1, b"\xff\xfe", 0, 2 ** 24,
                     [op(2 ** 40 - 1, 1, waits_for=2 ** 31 - 1, since=1, round_=2 ** 32 - 1)]),
                comm(2, NASTY, 1, 2, [op(huge % 2 ** 40, huge // 2 - 1, collective=255)])], command=NASTY)))
        for url in ("/lanes/nobody/1", "/lanes/a/7", "/calls/0000000000000001"):
            self.assertEqual(json.loads(self.page(url))["version"], 1)
        for url in ("/lanes/a", "/lanes//7", "/lanes/a/x", "/lanes/a/7/", "/lanes/a/99999999999", "/calls/", "/calls/1",
                    "/calls/000000000000000g", "/calls/00000000000000001", "/pictures"):
            self.assertEqual(self.ask(url)[0], 404, url)
        picture = json.loads(self.page("/picture"))
        self.assertEqual([comm["name"] for comm in picture["comms"]][1][:20], NASTY[:20])
        self.assertEqual(picture["comms"][0]["ranks"], 2 ** 24)
        self.assertEqual(picture["hosts"][0]["processes"][0][:3], [7, "waits", 0])

    def look(self, path="/page"):
        self.browser = browser.Browser()
        self.browser.open(f"http://any:{TOKEN}@127.0.0.1:{self.port}{path}")
        return self.browser

    def keep(self, name):
        folder = os.environ.get("TUTTI_TEST_PICTURES")
        if folder:
            self.browser.picture(os.path.join(folder, f"{name}.png"))

    def training(self, ranks, **options):
        """A job that is told of once a second, until the test is over."""
        job = Training(ranks, json.loads(self.page("/picture"))["collectives"], **options)

        def tell():  # of one address, a master hears of 1,024 hosts
            for number, body in enumerate(job.tells(512), 1):
                self.tell("/bundle", body, source=f"127.0.0.{number}")

        def go_on():
            while not self.over.wait(1):
                tell()
        tell()
        self.teller = threading.Thread(target=go_on)
        self.teller.start()

    def end_well(self):
        """Nothing failed in the page, and nothing of a name ran."""
        self.assertEqual(self.browser.ask("typeof bad"), "undefined")
        self.assertEqual(self.browser.complaints, [])

    @unittest.skipUnless(browser.program(), "no browser")
    def test_many_ranks(self):
        """1,024 ranks with hostile names: the verdict, the map, and the matrix; by pointer and by key."""
        self.start_master()
        self.training(1024, stopped=77, slow=(5, 6), names=(NASTY, "pipeline"))
        page = self.look()
        page.until("document.querySelectorAll('.rank').length === 1024")
        page.until("document.querySelectorAll('.verdict.hang').length === 1")
        self.assertRegex(page.ask("document.querySelector('.verdict strong').textContent"),
                         r"^rank 77 \(process 1077 on node9\) is stopped and is waited for by ")
        page.until("document.querySelectorAll('.rank.stopped').length === 1 &&"
                   "document.querySelectorAll('.rank.waits').length === 1023")
        self.assertEqual(page.ask("document.querySelector('.rank.stopped').ariaLabel"),
                         "rank 77 on node9, stopped, to blame: stopped")
        page.ask("document.querySelector('.rank.stopped').focus()")
        page.press("ArrowRight")
        page.until("document.querySelector('.detail h2')?.textContent.startsWith("
                   "'rank 78, process 1078 on node9: waits, waits for rank 77 on node9, ')")
        self.assertIn(NASTY[:40], page.ask("document.querySelector('.detail table').textContent"))
        self.keep("job")
        self.graph(page)
        self.matrix(page)
        self.order(page)
        self.timeline(page)
        page.colours("dark")
        self.keep("delays-dark")
        self.end_well()

    @unittest.skipUnless(browser.program() and MEASURED, "TUTTI_TEST_PAGE_RANKS does not say how many to measure")
    def test_measure(self):
        """How large the picture is, how long it takes to make, and for how long the page does nothing else."""
        self.start_master()
        self.training(MEASURED, stopped=77, slow=(5, 6))
        took = []
        for _ in range(5):
            begun = time.monotonic()
            text = self.page("/picture")
            took.append(time.monotonic() - begun)
            time.sleep(1)
        print(f"{MEASURED} ranks: a picture of {len(text) / 1e6:.1f} MB after {min(took):.2f} to {max(took):.2f} s")
        page = self.look()
        begun = time.monotonic()
        page.until(f"document.querySelectorAll('.rank').length === {MEASURED}")
        page.until("document.querySelectorAll('.rank.stopped').length === 1")
        print(f"shown after {time.monotonic() - begun:.1f} s")
        page.ask("window.gaps = []; window.beat = performance.now(); setInterval(() => {const now = performance.now();"
                 "gaps.push(now - beat); beat = now}, 20); 1")
        for view in ("job", "waits", "delays", "timeline"):
            self.turn(page, view)
            page.ask("window.gaps.length = window.seen = 0; window.heard?.disconnect(); window.heard = "
                     "new MutationObserver(() => seen++); heard.observe(document.getElementById('link'), "
                     "{childList: true}); 1")
            time.sleep(15)
            longest, seen = page.ask("[Math.max(...gaps), seen]")
            print(f"{view}: a new picture every {15 / max(seen, 1):.1f} s, busy for {longest:.0f} ms at most",
                  flush=True)
            self.assertGreater(seen, 0)
            self.keep(f"{view}-{MEASURED}")
        self.end_well()

    def graph(self, page):
        """Each waits for its neighbour, all for one: the first, the last, and the row between them."""
        self.turn(page, "waits")
        page.until("document.querySelector('.tree h2')?.textContent ==="
                   "'1023 processes wait for rank 77 on node9, which is stopped.'")
        self.assertEqual(page.ask("[...document.querySelectorAll('.node .name')].map((one) => one.textContent).join()"),
                         "rank 77  S,rank 78  W,1021 in a row,rank 76  W")
        self.keep("waits")

    def timeline(self, page):
        """From all ranks to the round of one."""
        self.turn(page, "timeline")
        page.until("document.querySelector('#timeline [role=status]').textContent === '13311 calls of 1024 ranks'")
        self.keep("timeline")
        box = self.box(page, "timeline")
        x, y = box["x"] + box["width"] * 0.9, box["y"] + 26 + 78.5 * 560 / 1024
        page.mouse("mouseMoved", x, y)
        page.until("/^rank 78 on node9: allreduce #12, running, 4 KiB\\nfor \\d.* so far\\nwaits for rank 77 for "
                   "\\d.*, in round 7 of 2046$/.test(document.getElementById('hint').textContent)")
        for kind in ("mousePressed", "mouseReleased"):
            page.mouse(kind, x, y, button="left", clickCount=1)
        page.until("document.querySelector('#timeline [role=status]').textContent.startsWith('rank 78 on node9: ')")
        page.ask("document.querySelector('#timeline canvas').focus()")
        for key in "]" * 20:
            page.press(key)
        page.mouse("mouseMoved", x, box["y"] + 26 + 60)
        page.until("/^rank (7[6-9]|80) on node/.test(document.getElementById('hint').textContent)")
        self.keep("timeline-close")

    def turn(self, page, view):
        page.ask(f"document.getElementById('tab-{view}').click()")

    def box(self, page, view):
        return page.ask(f"document.querySelector('#{view} .drawing canvas').getBoundingClientRect().toJSON()")

    def matrix(self, page):
        self.turn(page, "delays")
        page.until("/^The highest of 1023 cells in \\d+ looks?$/.test("
                   "document.querySelector('#delays .side h2')?.textContent)")
        self.choose(page, "pipeline", "messages")
        self.assertEqual(page.ask("document.querySelectorAll('#delays .side tr')[1].textContent"), "5640.0 ms, slow")
        self.assertIn("2048 cells", page.ask("document.querySelector('#delays .side h2').textContent"))
        box = self.box(page, "delays")
        page.mouse("mouseMoved", box["x"] + 68, box["y"] + 38)
        page.until("document.getElementById('hint').textContent.startsWith("
                   "'from rank 5 to rank 6: median 40.0 ms of 6 messages of 4 KiB: slow, ')")
        self.keep("delays")
        page.mouse("mouseWheel", box["x"] + 68, box["y"] + 38, deltaX=0, deltaY=-100)
        page.ask("document.querySelector('#delays .drawing canvas').focus()")
        page.press("+")
        page.press("ArrowRight")
        page.until("/^from rank \\d+ to rank \\d+: /.test(document.querySelector('#delays [role=status]').textContent)")

    def order(self, page):
        """Who is to blame stands above its victims, although one of them was waited for in more looks."""
        rows = page.ask("""import(location.origin + "/page/matrix.js").then(({makeMatrix}) => {
            const members = (waits) => waits.map((awaited, rank) => ({rank, process: rank, op: {awaited}}));
            const picture = (waits) => ({processes: [0, 1, 2, 3].map((at) => ({blamed: at === 2})),
              comms: [{id: "1", name: "few", open: true, ranks: 4, delays: [], members: members(waits)}]});
            const page = {picture: picture([1, -1, -1, 2])}, view = makeMatrix(page);
            document.body.append(view.panel);
            [picture([1, -1, -1, -1]), picture([1, -1, -1, -1]), page.picture].forEach(view.note);
            view.show(page.picture);
            view.panel.remove();
            return [...view.list.querySelectorAll("tr")].slice(1).map((row) =>
              [...row.children].map((one) => one.textContent));
          })""")
        self.assertEqual(rows, [["3", "2, to blame", "33 %"], ["0", "1", "100 %"]])

    def choose(self, page, comm_name, mode):
        page.ask("((name, mode) => {const [comm, show] = document.querySelectorAll('#delays select');"
                 "comm.value = [...comm.options].find((one) => one.text.startsWith(name)).value; show.value = mode;"
                 f"comm.onchange()}})('{comm_name}', '{mode}')")

    def lanes(self, page):
        """A click on a rank: its agent is asked for what its lanes carry, and tells."""
        box = self.box(page, "timeline")
        for kind in ("mousePressed", "mouseReleased"):
            page.mouse(kind, box["x"] + 200, box["y"] + 26 + 2.5 * 36, button="left", clickCount=1)
        page.until("document.querySelector('#timeline .lanes h2').textContent === 'Lanes of rank 2 on b'")
        comms = {comm["id"] for comm in json.loads(self.page("/picture"))["comms"]}
        lanes = json.loads(self.page(f"/lanes/b/{self.ranks[2].pid}"))["lanes"]
        segments = [segment for lane in lanes for segment in lane["segments"]]
        self.assertTrue(segments)
        for comm, _, peer, _, _, length, status, _, _, posted, completed in segments:
            self.assertIn(comm, comms)
            self.assertTrue(0 <= peer < 4 and length > 0 and 1 <= status <= 4)
            self.assertTrue(-LONG < posted <= (0 if completed is None else completed) <= 0)

    @unittest.skipUnless(browser.program(), "no browser")
    def test_slow_job(self):
        """A rank that is slow is framed in the job and in the delays, above its victims; and the history has its
        verdict and what the job did."""
        late_ms = 200  # longer than others are late when processors are few
        self.settings = {**self.settings, "TUTTI_TRANSPORT": "tcp", "TUTTI_ALGO": "ring"}  # who waits waits in a chain
        self.start_all("--stuck", "5s", job=("slow", "2", "2", str(late_ms)))
        page = self.look()
        page.until("[...document.querySelectorAll('.verdict.slow strong')].some("
                   "(one) => /^rank 2 /.test(one.textContent))")
        page.until("document.querySelectorAll('.rank.blamed').length === 1")
        self.assertRegex(page.ask("document.querySelector('.rank.blamed').ariaLabel"),
                         "^rank 2 on b, .*, to blame: slow$")
        self.assertIn("to blame by a verdict: 1", page.ask("document.querySelector('#job .bar').textContent"))
        self.keep("job-slow")
        self.turn(page, "delays")
        # one look may meet the moment in which the culprit waits for others
        page.until("/ in [1-9]\\d looks$/.test(document.querySelector('#delays .side h2')?.textContent)")
        cells = page.ask("[...document.querySelectorAll('#delays .side tr')].slice(1).map("
                         "(one) => [one.children[1].textContent, parseInt(one.children[2].textContent)])")
        self.assertEqual(cells[0][0], "2, to blame", cells)
        self.assertEqual(sum(awaited == "2, to blame" for awaited, _ in cells), 3, cells)  # in the end all wait for it
        self.assertEqual(sorted(cells, key=lambda one: one[0] != "2, to blame"), cells)
        sums = {}
        for awaited, share in cells:
            sums[awaited] = sums.get(awaited, 0) + share
        self.assertEqual(max(sums, key=sums.get), "2, to blame", cells)
        self.keep("delays-slow")
        self.turn(page, "history")
        page.until("/^Now \\d+\\.\\d calls and about .* a second of each rank; \\d+ verdicts? since /.test("
                   "document.querySelector('#history [role=status]').textContent)")
        slow = ("[...document.querySelectorAll('#history tr')].some((one) => one.children[2].textContent === 'slow' &&"
                "/^rank 2 /.test(one.children[3].textContent) && ")
        page.until(slow + "one.children[1].textContent === 'stands')")
        self.keep("history-slow")
        past = json.loads(self.page("/past"))
        self.assertTrue(all(calls > 0 for _, calls, _, _ in past["samples"][1:]), past)
        for rank in self.ranks:
            rank.kill()
        page.until(slow + "one.children[1].textContent !== 'stands')")
        self.end_well()

    @unittest.skipUnless(browser.program(), "no browser")
    def test_real_job(self):
        """Four ranks, of which one is stopped, goes on, and then the master goes: the page follows."""
        self.settings = {"TUTTI_TRANSPORT": "tcp", "TUTTI_EAGER": "1K"}  # so that lanes carry segments
        master = self.start_all("--stuck", "1s")
        page = self.look()
        page.until("document.querySelectorAll('.rank').length === 4")
        self.assertEqual(page.ask("document.querySelectorAll('.host').length"), 2)
        self.assertIn("4 processes on 2 hosts", page.ask("document.getElementById('summary').textContent"))
        self.ranks[2].send_signal(signal.SIGSTOP)
        page.until("document.querySelector('.rank.stopped')?.textContent === '2S'")
        stopped = ("[...document.querySelectorAll('.verdict.hang strong')].some((one) => "
                   "/^rank 2 .* is stopped and is waited for by /.test(one.textContent))")
        page.until(stopped)
        self.turn(page, "waits")
        page.until("document.querySelector('.tree h2')?.textContent === "
                   "'3 processes wait for rank 2 on b, which is stopped.'")
        self.turn(page, "timeline")
        page.until("/^\\d+ calls of 4 ranks$/.test(document.querySelector('#timeline [role=status]').textContent)")
        self.lanes(page)
        self.keep("timeline-real")
        self.turn(page, "job")
        self.ranks[2].send_signal(signal.SIGCONT)
        page.until(f"!({stopped}) && !document.querySelector('.rank.stopped')")
        self.end_well()
        master.process.kill()
        page.until("document.querySelector('#link.lost')?.textContent.startsWith('No answer for ')")


if __name__ == "__main__":
    unittest.main(verbosity=2)
