"""The shipped cli_filter, which asks for the start of a job with sbatch, on a real Slurm."""

from __future__ import annotations

import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("slurm")]

SHIPPED = Path(__file__).resolve().parents[2] / "docs" / "forecast" / "cli_filter.lua"
ANSWER = b'{"now":1000.0,"jobs":[{"median":2800.0,"half":[1900.0,2801.5],"late":261000.0}]}'


class Server(BaseHTTPRequestHandler):
    """Answers with a forecast: half within 30 minutes, nine of ten within three days."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *told: object) -> None:
        """Say nothing."""


def test_sbatch_tells_when_such_a_job_will_start() -> None:
    if not SHIPPED.is_file():
        pytest.skip("no docs beside the tests")
    asks = {
        ("-n", "4", "-t", "30"): "processors=4&time=1800",
        ("-N", "2", "--ntasks-per-node=3", "-t", "1-12"): "processors=6&time=129600",
        ("-n", "2", "-c", "2", "-t", "2:00:00"): "processors=4&time=7200",
        ("-N", "2", "--exclusive", "-t", "10:30"): "processors=8&time=660",
        ("-n", "1"): "",
    }
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base:
        text = SHIPPED.read_text().replace(":8080", f":{server.server_port}")
        (Path(base) / "cli_filter.lua").write_text(text.replace("of_a_node = 1", "of_a_node = 4"))
        settings = ["CliFilterPlugins=cli_filter/lua"]
        with SlurmCluster(Path(base), 2, settings, cpus=4) as cluster:

            def submitted(*options: str) -> str:
                done = subprocess.run(
                    ["sbatch", "-o/dev/null", "--wrap=true", *options],
                    env=cluster.env | {"USER": "ann'; echo"},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert done.stdout.startswith("Submitted batch job")
                return done.stderr

            for options, query in asks.items():
                Server.asked.clear()
                told = submitted(*options)
                assert Server.asked == ([f"/starts?{query}&user=annecho"] if query else [])
                sentence = "half of such jobs start within 30 min, nine of ten within 3.0 days"
                assert (sentence in told) == bool(query)
            server.shutdown()
            server.server_close()
            assert submitted("-n", "1", "-t", "1") == ""
