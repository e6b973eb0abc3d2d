"""A stand-in for the W&B server on the loopback interface: what a sweep, runs and queries need."""

import base64
import gzip
import itertools
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

KEY = "a" * 40
PROJECT = {"id": "p", "name": "ablations", "entity": {"id": "e", "name": "me"}}


class WandbServer:
    """Keeps runs by id and sweeps by name; `with` starts and stops it.

    Attributes:
        runs: `config`, `summary`, `history`, `files`, `state` and what else a run was told.
        sweeps: the arguments that wait, and the runs handed out.
        unknown: what was asked for and isn't answered here.
        key: any other is refused.
        dead: nothing is answered any more.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.sweeps: dict[str, dict[str, Any]] = {}
        self.unknown: list[str] = []
        self.key, self.dead = KEY, False
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"to": self}))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.environment = {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY}

    def __enter__(self) -> "WandbServer":
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def wait(self, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Return once the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.05)

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of a GraphQL operation."""
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        name = found[1] if found else query
        operation = getattr(self, f"do_{name.lower()}", None)
        if operation is None:
            self.unknown.append(f"{name} {query} {variables}")
            return {}
        return operation(variables)

    def stream(self, run_id: str, body: dict[str, Any]) -> None:
        """Lines of a run's files, from an offset on."""
        run = self.runs[run_id]
        for name, part in body.get("files", {}).items():
            lines = [json.loads(line) for line in part["content"] if name.endswith(".jsonl")]
            if name == "wandb-history.jsonl":
                run["history"][part["offset"] :] = lines
            elif name == "wandb-summary.json":
                run["summary"] = json.loads(part["content"][-1])
        if body.get("complete"):
            run["state"] = "finished" if body.get("exitcode") == 0 else "failed"

    def do_viewer(self, _: dict[str, Any]) -> dict[str, Any]:
        teams = {"edges": [{"node": {"name": "me"}}]}
        return {"viewer": {"id": "u", "entity": "me", "username": "me", "teams": teams}}

    def do_getdefaultentity(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": {"id": "u", "entity": "me"}}

    def do_serverfeaturesquery(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def do_organizationcoreweaveorganizationid(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"entity": None}

    def do_runresumestatus(self, asked: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(asked["name"])
        if run is None:
            return {"model": {"id": "p", "name": "ablations", "entity": None, "bucket": None}}
        tail = json.dumps([json.dumps(row) for row in run["history"][-1:]])
        bucket = {"id": asked["name"], "name": asked["name"], "displayName": run.get("displayName")}
        bucket |= {
            "summaryMetrics": json.dumps(run["summary"]),
            "config": json.dumps(run["config"]),
        }
        bucket |= {"logLineCount": 0, "historyLineCount": len(run["history"]), "eventsLineCount": 0}
        bucket |= {"historyTail": tail, "eventsTail": "[]", "tags": run.get("tags"), "notes": None}
        bucket |= {"wandbConfig": json.dumps({"t": 1})}
        return {"model": {"id": "p", "name": "ablations", "entity": None, "bucket": bucket}}

    def do_artifacttype(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def do_createartifact(self, _: dict[str, Any]) -> dict[str, Any]:
        sequence = {"latestArtifact": None}
        artifact = {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}
        return {"createArtifact": {"artifact": artifact}}

    def do_createrunfiles(self, asked: dict[str, Any]) -> dict[str, Any]:
        files = [
            {"name": name, "uploadUrl": f"{self.url}/upload/{asked['run']}/{name}"}
            for name in asked["files"]
        ]
        return {"createRunFiles": {"runID": asked["run"], "uploadHeaders": [], "files": files}}

    def do_upsertbucket(self, asked: dict[str, Any]) -> dict[str, Any]:
        new = asked["name"] not in self.runs
        blank = {"config": {}, "summary": {}, "history": [], "files": {}, "state": "running"}
        run = self.runs.setdefault(asked["name"], blank)
        for key, value in asked.items():
            if value is not None:
                run[key] = value
        if asked.get("config"):
            run["config"] = json.loads(asked["config"])
        run["state"] = "running"
        bucket = {"id": asked["name"], "name": asked["name"], "displayName": run.get("displayName")}
        bucket |= {"config": json.dumps(run["config"]), "sweepName": run.get("sweep")}
        bucket |= {"project": PROJECT, "historyLineCount": len(run["history"])}
        return {"upsertBucket": {"bucket": bucket, "inserted": new}}

    def do_upsertsweep(self, asked: dict[str, Any]) -> dict[str, Any]:
        content = yaml.safe_load(asked["config"])
        grid = content["parameters"]
        levels = [part.get("values", [part.get("value")]) for part in grid.values()]
        cells = [dict(zip(grid, values, strict=True)) for values in itertools.product(*levels)]
        self.sweeps["sweep1"] = {"config": asked["config"], "program": content["program"]}
        self.sweeps["sweep1"] |= {"waiting": cells, "handed_out": []}
        sweep = {"name": "sweep1", "project": PROJECT}
        return {"upsertSweep": {"sweep": sweep, "configValidationWarnings": []}}

    def do_sweepwithruns(self, asked: dict[str, Any]) -> dict[str, Any]:
        config = self.sweeps[asked["sweep"]]["config"]
        sweep = {"id": "s", "name": asked["sweep"], "method": "grid", "state": "RUNNING"}
        return {"project": {"sweep": {**sweep, "config": config, "runs": {"edges": []}}}}

    def do_createagent(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"createAgent": {"agent": {"id": "agent"}}}

    def do_heartbeat(self, asked: dict[str, Any]) -> dict[str, Any]:
        sweep, commands = self.sweeps["sweep1"], []
        if not json.loads(asked["runState"]):
            commands = [{"type": "exit"}]
            if sweep["waiting"]:
                run = f"run{len(sweep['handed_out'])}"
                sweep["handed_out"].append(run)
                values = sweep["waiting"].pop(0)
                commands = [{"type": "run", "run_id": run, "program": sweep["program"]}]
                commands[0]["args"] = {name: {"value": value} for name, value in values.items()}
        answer = {"agent": {"id": "agent"}, "commands": json.dumps(commands)}
        return {"agentHeartbeat": answer}

    def do_runs(self, _: dict[str, Any]) -> dict[str, Any]:
        edges = [{"node": self._node(name), "cursor": name} for name in self.runs]
        page = {"endCursor": None, "hasNextPage": False}
        found = {"internalId": "1", "runCount": len(edges), "readOnly": False}
        return {"project": {**found, "runs": {"edges": edges, "pageInfo": page}}}

    def do_runfiles(self, asked: dict[str, Any]) -> dict[str, Any]:
        names = asked.get("fileNames") or []
        files = [
            {"node": {"id": n, "name": n, "url": f"{self.url}/upload/{asked['name']}/{n}"}}
            for n in names
            if n in self.runs[asked["name"]]["files"]
        ]
        for file in files:
            size = len(self.runs[asked["name"]]["files"][file["node"]["name"]])
            file["node"] |= {"sizeBytes": size, "mimetype": "", "updatedAt": "", "md5": ""}
        page = {"endCursor": None, "hasNextPage": False}
        run = {"fileCount": len(files), "files": {"edges": files, "pageInfo": page}}
        return {"project": {"internalId": "1", "run": run}}

    def _node(self, name: str) -> dict[str, Any]:
        run = self.runs[name]
        node = {"id": name, "name": name, "state": run["state"], "tags": run.get("tags", [])}
        node |= {"displayName": run.get("displayName"), "group": run.get("groupName")}
        node |= {"jobType": run.get("jobType"), "projectId": "1", "sweepName": run.get("sweep")}
        node |= {"config": json.dumps(run["config"]), "systemMetrics": "{}", "readOnly": False}
        node |= {"summaryMetrics": json.dumps(run["summary"]), "user": {"name": "me"}}
        node |= {"createdAt": "2026-01-01T00:00:00", "heartbeatAt": "2026-01-01T00:00:00"}
        return node | {"historyKeys": {}, "commit": None, "description": "", "notes": ""}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    to: WandbServer

    def log_message(self, *_: Any) -> None:
        pass

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _send(self, content: Any, status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        body = self._body()
        given = base64.b64decode(self.headers.get("Authorization", "").rpartition(" ")[2] or "")
        with self.to.lock:
            if self.to.dead:
                self._send({}, 503)
            elif given.decode() != f"api:{self.to.key}":
                self._send({"errors": [{"message": "invalid key"}]}, 401)
            elif self.path == "/graphql":
                asked = json.loads(body)
                self._send({"data": self.to.answer(asked["query"], asked.get("variables") or {})})
            elif self.path.endswith("/file_stream"):
                self.to.stream(self.path.split("/")[-2], json.loads(body))
                self._send({"exitcode": None, "limits": {}})
            else:
                self._send({})

    def do_GET(self) -> None:
        _, _, run, name = urllib.parse.unquote(self.path).split("/", 3)
        with self.to.lock:
            content = self.to.runs[run]["files"][name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_PUT(self) -> None:
        _, _, run, name = urllib.parse.unquote(self.path).split("/", 3)
        with self.to.lock:
            self.to.runs[run]["files"][name] = self._body()
        self._send({})
