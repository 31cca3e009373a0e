"""``qops-batsim engine --as 5`` and its ``--install`` as a user runs them."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_run
from qops_batsim.cli.engine import run_engine
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster, write_platform
from qops_batsim.protocol.v5.components import LibraryComponent
from qops_batsim.running.processes import ChildProcess
from support.live_engines import COMMAND

Cli = Callable[..., Any]

WORKLOAD = {
    "nb_res": 4,
    "jobs": [
        {"id": str(n), "subtime": n, "res": 1 + n % 3, "profile": "d", "walltime": 20}
        for n in range(6)
    ],
    "profiles": {"d": {"type": "DelayProfile", "delay": 10}},
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    write_platform(make_cluster(4), tmp_path / "p.xml")
    (tmp_path / "w.json").write_text(json.dumps(WORKLOAD))
    return ["--as", "5", "-p", "p.xml", "-w", "w.json", "-q"]


def test_our_scheduler_decides_for_our_engine(tmp_path: Path, inputs: list[str]) -> None:
    endpoint = f"ipc://{tmp_path}/e.sock"
    with ChildProcess([*COMMAND, "serve", "easy", "-s", endpoint, "-q"]) as peer:
        run_engine([*inputs, "-s", endpoint, "", "--trace-machine-state", "--timeout", "240"])
        assert peer.wait(240) == 0, peer.last_words()
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "easy_qos.csv",
        "jobs.csv",
        "machine_states.csv",
        "schedule.json",
    ]
    result = read_run("out/jobs.csv")
    assert result.hosts == 4
    assert len(result.executed) == 6


def test_a_byte_order_mark_is_passed_over(inputs: list[str], library: Path) -> None:
    """As in any workload; here the types of profiles are looked at as they are written."""
    Path("w.json").write_text(json.dumps(WORKLOAD), encoding="utf-8-sig")
    run_engine([*inputs, "-l", str(library), "text!!"])
    assert len(read_run("out").table.states) == 6
    old = json.dumps(WORKLOAD).replace("DelayProfile", "delay")
    Path("w.json").write_text(old, encoding="utf-8-sig")
    with pytest.raises(InputError, match="profile 'd': type is 'delay'"):
        run_engine([*inputs, "-l", str(library), "text!!"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "0 decision components are given"),
        (["-s", "tcp://localhost:1", "", "-l", "x.so", ""], "2 decision components are given"),
        (["-l", "x.so", ""], "batsim_edc_take_decisions"),
        (["-s", "tcp://localhost:1"], "expected 2 arguments"),
        (["-E"], "-E is not supported"),
        (["--mmax", "-1", "-s", "tcp://localhost:1", ""], "--mmax is -1"),
        (["-m", "nobody", "-s", "tcp://localhost:1", ""], "there is no host 'nobody'"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_options(inputs: list[str], arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_engine([*inputs, *arguments])
    with pytest.raises(InputError, match="--as is '6'"):
        run_engine(["--as", "6"])


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_engine(["--as", "5", "--version"]) == 0
    assert run_engine(["--as=5", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("5.0.0-rc2")
    assert "--edc-library-str" in out


def test_the_installed_engine_says_which_batsim_it_is(cli: Cli, tmp_path: Path) -> None:
    assert cli("engine", "--as", "5", "--install", tmp_path / "batsim").exit_code == 0
    said = subprocess.run([tmp_path / "batsim", "--version"], capture_output=True, text=True)
    assert said.stdout.startswith("5.0.0-rc2")
    assert cli("engine", "--as", "3", "--install", tmp_path / "batsim").exit_code == 2


EDC = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static char text[100000];
static int number = 0;
static char * from(const char * what, const char * end, char * to) {
    (void) end; char * p = strstr(what, "\"job_id\":\""); if (!p) return 0;
    p += 10; char * q = strchr(p, '"'); memcpy(to, p, q - p); to[q - p] = 0; return q;
}
uint8_t batsim_edc_init(const uint8_t * data, uint32_t size, uint32_t * flags, uint8_t ** reply,
                        uint32_t * reply_size) {
    (void) data;
    *flags = size == 5 ? 1 : 2;
    strcpy(text, "{\"now\":0.0,\"events\":[{\"timestamp\":0.0,\"event_type\":\"EDCHelloEvent\","
        "\"event\":{\"batprotocol_version\":\"1\",\"decision_component_name\":\"c\","
        "\"decision_component_version\":\"1\",\"decision_component_commit\":\"\","
        "\"requested_simulation_features\":{}}}]}");
    *reply = (uint8_t *) text; *reply_size = strlen(text);
    return 0;
}
uint8_t batsim_edc_deinit(void) { return 0; }
uint8_t batsim_edc_take_decisions(const uint8_t * told, uint32_t size, uint8_t ** reply,
                                  uint32_t * reply_size) {
    (void) size; double now; char id[100]; const char * place = (const char *) told;
    if (++number == 20) return 7;
    sscanf(place, "{\"now\":%lf", &now);
    char * end = text + sprintf(text, "{\"now\":%.12f,\"events\":[", now);
    const char * first = "";
    if (strstr(place, "JobSubmittedEvent"))
        while ((place = from(place, 0, id))) {
            end += sprintf(end, "%s{\"timestamp\":%.12f,\"event_type\":\"RejectJobEvent\","
                "\"event\":{\"job_id\":\"%s\"}}", first, now, id);
            first = ",";
        }
    end += sprintf(end, "]}");
    *reply = (uint8_t *) text; *reply_size = end - text;
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decision component in C that rejects all jobs."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    directory = tmp_path_factory.mktemp("edc")
    (directory / "edc.c").write_text(EDC)
    made = directory / "libedc.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, directory / "edc.c"], check=True)
    return made


def test_a_decision_component_in_a_library(
    tmp_path: Path, inputs: list[str], library: Path
) -> None:
    run_engine([*inputs, "-l", str(library), "text!!", "-e", f"{tmp_path}/lib/"])
    states = read_run(tmp_path / "lib").table.states
    assert len(states) == 6
    with pytest.raises(SimulationError, match="flags are 1; 2, for JSON, is expected"):
        run_engine([*inputs, "-l", str(library), "five!"])


def test_batsims_own_components_decide_as_for_batsim_5(shared: Path, tmp_path: Path) -> None:
    bundle = shared / "batsim5"
    if not (bundle / "real" / "lib" / "edc" / "libeasy.so").is_file():
        pytest.skip("no decision components of Batsim 5 in the shared directory")
    try:
        ctypes.CDLL(str(bundle / "real" / "lib" / "libflatbuffers.so.2"))
    except OSError as error:
        pytest.skip(f"its libraries cannot be loaded ({error})")
    session = bundle / "sessions" / "share_random"
    real = bundle / "real" / "bin" / "batsim"
    files = ["-p", str(session / "platform.xml"), "-w", str(session / "workload.json")]
    component = ["-l", str(bundle / "real" / "lib" / "edc" / "libeasy.so"), '{"format_json": true}']
    run_engine(["--as", "5", *files, "-e", f"{tmp_path}/ours/", "-q", *component])
    theirs = ["-e", f"{tmp_path}/theirs/", "-q", *component]
    subprocess.run([real, *files, *theirs], check=True, capture_output=True, timeout=240)
    ours, other = (tmp_path / name / "jobs.csv" for name in ("ours", "theirs"))
    assert ours.read_bytes() == other.read_bytes()


def test_a_library_is_told_the_end_once(library: Path) -> None:
    side: Any = None
    component, ends = LibraryComponent(str(library), side), []
    component._deinit = lambda: ends.append(True)
    component.ask(b"")
    component.close()
    component.close()
    assert ends == [True]
