# SPDX-License-Identifier: Apache-2.0
"""As much of the API of Kubernetes as `kubectl cordon` and `kubectl delete pods` ask for: nodes and pods that are lists
in memory. What it answers is what the API's reference says; no scheduler or kubelet does anything, so a pod that is
deleted is gone at once."""
import http.server
import json
import re
import threading
import urllib.parse

RESOURCES = [{"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get", "patch"]},
             {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["list", "delete"]}]
CODES = {403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed"}


def pod(name, node, namespace="default", **labels):
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"nodeName": node}}


def fits(one, labels, fields):
    """Selectors of `key=value`, joined by commas."""
    def pairs(text):
        return [word.split("=", 1) for word in text.split(",") if word]
    return (all(one["metadata"]["labels"].get(key) == value for key, value in pairs(labels)) and
            all(key == "spec.nodeName" and one["spec"]["nodeName"] == value for key, value in pairs(fields)))


class Cluster:
    def __init__(self, nodes, pods, protected=()):
        self.nodes = {name: {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}}
                      for name in nodes}
        self.pods, self.protected = list(pods), protected  # the latter may not be deleted
        self.deleted = []  # (namespace, name, seconds of grace)
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, said = cluster.answer(self.command, self.path, json.loads(body) if body else None,
                                            self.headers.get("Content-Type"))
                text = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PATCH = do_DELETE = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def cordoned(self):
        return sorted(name for name, node in self.nodes.items() if node["spec"].get("unschedulable"))

    def names(self):
        return sorted(one["metadata"]["name"] for one in self.pods)

    def refuse(self, code, what):
        return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": CODES[code],
                      "message": f"{what}: {CODES[code]}"}

    def answer(self, method, url, body, kind):
        path, _, query = url.partition("?")
        words = {key: values[0] for key, values in urllib.parse.parse_qs(query).items()}
        fixed = {"/version": {"major": "1", "minor": "30", "gitVersion": "v1.30.0"},
                 "/api": {"kind": "APIVersions", "versions": ["v1"]},
                 "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
                 "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES}}
        if path in fixed and method == "GET":
            return 200, fixed[path]
        if found := re.fullmatch(r"/api/v1/nodes/([^/]+)", path):
            return self.node(method, found.group(1), body, kind)
        if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods(?:/([^/]+))?", path):
            return self.pod(method, *found.groups(), body, words)
        return self.refuse(404, url)

    def node(self, method, name, body, kind):
        node = self.nodes.get(name)
        if not node:
            return self.refuse(404, f'nodes "{name}"')
        if method == "PATCH" and kind in ("application/strategic-merge-patch+json", "application/merge-patch+json"):
            node["spec"].update(body["spec"])
        elif method != "GET":
            return self.refuse(405, f"{method} of {kind}")
        return 200, node

    def pod(self, method, namespace, name, body, words):
        here = [one for one in self.pods if one["metadata"]["namespace"] == namespace]
        if method == "GET" and not name:
            items = [one for one in here if fits(one, words.get("labelSelector", ""), words.get("fieldSelector", ""))]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        one = next((one for one in here if one["metadata"]["name"] == name), None)
        if not one or method != "DELETE":
            return self.refuse(404 if not one else 405, f'{method} of pods "{name}"')
        if name in self.protected:
            return self.refuse(403, f'pods "{name}"')
        self.pods.remove(one)
        self.deleted.append((namespace, name, body["gracePeriodSeconds"]))
        return 200, one
