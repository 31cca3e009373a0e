from __future__ import annotations

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread, Timer

import pytest
import zmq

from qops_batsim import InputError, read_platform, read_workload
from qops_batsim.engine import EngineOptions, Simulation, write_outputs
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.protocol import ModuleDriver, make_scheduler
from qops_batsim.protocol.zeromq import ConnectionLost, RemoteDecisionSide, connect, listen
from qops_batsim.workload import Workload
from support.decision_process import Engine, decision_process, recorded_process, scheduler_process
from support.recordings import Case, cases, engine_options, platform_of

TIMEOUT = 240.0
EMPTY = b'{"now":0,"events":[]}'


# Both sides of the wire against the same in process


def files(simulation: Simulation, directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in write_outputs(simulation, directory / "run")}


def same_in_process_and_over_the_wire(
    platform: Platform,
    workloads: list[Workload],
    scheduler: str,
    options: EngineOptions,
    directory: Path,
) -> None:
    module = make_scheduler(scheduler)
    here = Simulation(platform, workloads, ModuleDriver(module), options)
    here.run()
    with (
        decision_process(scheduler_process(scheduler)) as endpoint,
        RemoteDecisionSide(endpoint, timeout=TIMEOUT) as peer,
    ):
        there = Simulation(platform, workloads, peer, options)
        there.run()
    assert files(there, directory) == files(here, directory)


def is_delays(case: Case) -> bool:
    profiles = [
        profile["type"]
        for name in case.workloads
        for profile in read_workload(case.directory / name).profiles.values()
    ]
    return set(profiles) <= {"delay"}


def test_recorded_delay_workloads_give_the_same_files(shared: Path, tmp_path: Path) -> None:
    done = set()
    for case in cases(shared):
        key = (*case.workloads, case.compute_sharing)
        # Our modules register no jobs by themselves; some sessions are theirs already.
        registers = case.config["dynamic-jobs-enabled"]
        if case.scheduler or key in done or not is_delays(case) or registers:
            continue
        if case.name == "schedcfg":  # its configuration is no option of ours
            continue
        done.add(key)
        workloads = [read_workload(case.directory / name) for name in case.workloads]
        for scheduler in ("fcfs", "easy", "conservative"):
            same_in_process_and_over_the_wire(
                platform_of(case), workloads, scheduler, engine_options(case), tmp_path
            )
    assert len(done) >= 12


@pytest.mark.parametrize(
    ("log", "hosts"), [("kth_delay.json.gz", 100), ("sdsc5k_delay.json.gz", 128)]
)
def test_real_logs_give_the_same_files(shared: Path, tmp_path: Path, log: str, hosts: int) -> None:
    workload = read_workload(shared / "batsim" / "inputs" / log)
    workload.jobs = workload.jobs[:2000]
    same_in_process_and_over_the_wire(
        make_cluster(hosts), [workload], "easy", EngineOptions(), tmp_path
    )


def test_recorded_decisions_over_the_wire_give_the_recorded_files(
    shared: Path, tmp_path: Path
) -> None:
    (case,) = [case for case in cases(shared) if case.name == "batsched_filler_ties"]
    workloads = [read_workload(case.directory / name) for name in case.workloads]
    with (
        decision_process(recorded_process(case), f"ipc://{tmp_path}/socket") as endpoint,
        RemoteDecisionSide(endpoint, timeout=TIMEOUT) as peer,
    ):
        simulation = Simulation(platform_of(case), workloads, peer, engine_options(case))
        simulation.run()
    assert files(simulation, tmp_path)["run_jobs.csv"] == case.output("jobs")


# What can go wrong on the engine's side


@pytest.fixture
def small(shared: Path) -> tuple[Platform, list[Workload]]:
    inputs = shared / "batsim" / "inputs"
    return read_platform(inputs / "p4_nonet.xml"), [read_workload(inputs / "one.json")]


def error_of_simulation(small, answer, **settings) -> str:
    platform, workloads = small
    with (
        decision_process(answer) as endpoint,
        RemoteDecisionSide(endpoint, **{"timeout": TIMEOUT, **settings}) as peer,
    ):
        with pytest.raises(SimulationError) as caught:
            Simulation(platform, workloads, peer).run()
        return str(caught.value).replace(endpoint, "HERE")


def answering(*answers):
    """Answer so, one after the other; then leave."""
    rest = iter(answers)
    return lambda _: next(rest, None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"hello", "message: not JSON"),
        (b"qops-batsim serve: wrong option", "it says 'qops-batsim serve: wrong option'"),
        (b'{"now":1e300,"events":[]}', "now is 1e+300; a number of seconds up to 1e+12 is"),
        (b'{"now":0}', "field events is missing"),
        (b'{"now":0,"events":[{"timestamp":0,"type":"EXECUTE"}]}', "unknown type 'EXECUTE'"),
        (
            b'{"now":0,"events":[{"timestamp":0,"type":"KILL_JOB","data":{"job_ids":3}}]}',
            "event 0 (KILL_JOB): field job_ids is 3; a list is expected",
        ),
        ([b'{"now":0,"events":[]}', b"more"], "the message has several ZeroMQ frames"),
        (b"\xff\xfe", "message: "),
    ],
)
def test_a_wrong_answer_is_one_error_with_its_date(small, answer, said):
    message = error_of_simulation(small, answering(EMPTY, answer))
    assert message.startswith(
        "at 0.000000 s: the decision process at HERE sent an invalid answer: "
    )
    assert said in message


def test_a_decision_process_that_leaves_is_noticed(small):
    message = error_of_simulation(small, answering(EMPTY), timeout=None)
    assert message.startswith(
        "at 0.000000 s: the decision process at HERE has closed the connection"
    )


def test_an_answer_that_is_too_long_is_not_read(small):
    message = error_of_simulation(
        small, answering(EMPTY, b" " * 2000), timeout=None, max_message_bytes=1000
    )
    assert "sends more than 1000 bytes" in message


def test_a_silent_decision_process_is_given_up(small):
    def silent(_: bytes) -> bytes:
        time.sleep(0.5)
        return EMPTY

    message = error_of_simulation(small, silent, timeout=0.2)
    assert message == "at 0.000000 s: the decision process at HERE has said nothing for 0.2 s"


def test_no_process_at_the_other_end(small):
    platform, workloads = small
    with (
        RemoteDecisionSide("ipc:///nonexistent/socket", timeout=0.2) as peer,
        pytest.raises(SimulationError, match="has said nothing for 0.2 s"),
    ):
        Simulation(platform, workloads, peer).run()


BROKEN_GREETINGS = (
    b"GET / HTTP/1.0\r\n\r\n",
    b"\xff" + bytes(8) + b"\x7f\3\0PLAIN" + bytes(47),
    b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48) + b"\4\0" + bytes(100),
)


@pytest.mark.parametrize("wait", [0, 0.3])
@pytest.mark.parametrize("greeting", BROKEN_GREETINGS, ids=["http", "plain", "no command"])
def test_what_is_no_decision_process_is_noticed_or_given_up(small, greeting, wait):
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:

        def answer():
            with server.accept()[0] as connection:
                connection.sendall(greeting)
                time.sleep(0.5)

        answering = pool.submit(answer)
        endpoint = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        platform, workloads = small
        with RemoteDecisionSide(endpoint, timeout=1) as peer:
            time.sleep(wait)
            said = "does not speak ZeroMQ|has said nothing for 1 s"
            with pytest.raises(SimulationError, match=said):
                Simulation(platform, workloads, peer).run()
        answering.result()


def test_a_decision_process_need_not_answer_the_farewell(small):
    platform, workloads = small
    answer = scheduler_process("fcfs")

    def leaves_at_the_end(text: bytes) -> bytes | list[bytes] | None:
        return None if b"SIMULATION_ENDS" in text else answer(text)

    with (
        decision_process(leaves_at_the_end) as endpoint,
        RemoteDecisionSide(endpoint) as peer,
    ):
        simulation = Simulation(platform, workloads, peer)
        simulation.run()
    assert len(simulation.ended) == 1


def test_a_decision_process_may_start_late(small, tmp_path):
    platform, workloads = small
    endpoint = f"ipc://{tmp_path}/socket"
    with RemoteDecisionSide(endpoint, timeout=TIMEOUT) as peer:
        time.sleep(0.2)
        with decision_process(scheduler_process("fcfs"), endpoint):
            simulation = Simulation(platform, workloads, peer)
            simulation.run()
    assert len(simulation.ended) == 1


# Sockets


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://127.0.0.1:*", "tcp://localhost:*", "tcp://127.0.0.3:*", "ipc://{}/socket"],
)
def test_this_machine_only_is_served_without_further_ado(endpoint, tmp_path):
    listening, bound = listen(endpoint.format(tmp_path))
    listening.close()
    assert bound.startswith(("tcp://127.0.0.", "ipc://"))
    assert not bound.endswith("*")


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]", "eth0", "192.168.1.1", "example.org"])
def test_other_machines_are_served_only_on_request(host):
    with pytest.raises(InputError, match=r"anyone on other machines connect.*--any-interface"):
        listen(f"tcp://{host}:*")


def test_any_interface_on_request():
    listening, bound = listen("tcp://*:*", any_interface=True)
    listening.close()
    assert bound.startswith("tcp://0.0.0.0:")


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "28000",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://:28000",
        "tcp://127.0.0.1:http",
        "tcp://127.0.0.1:65536",
        "udp://127.0.0.1:1",
        "inproc://a",
        "ipc://",
        "ipc://a\x00b",
    ],
)
@pytest.mark.parametrize("opening", [listen, connect])
def test_what_is_no_endpoint_is_refused(opening, endpoint):
    with pytest.raises(InputError, match=r"endpoint is '.*'; tcp://HOST:PORT"):
        opening(endpoint)


def test_a_port_that_is_taken_is_named():
    listening, endpoint = listen("tcp://127.0.0.1:*")
    try:
        with pytest.raises(InputError, match=f"cannot listen at '{endpoint}': Address already"):
            listen(endpoint)
    finally:
        listening.close()


def test_a_file_is_not_replaced_by_a_socket(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists and is no socket"):
        listen(f"ipc://{path}")
    assert path.read_text() == "precious"


def visit(endpoint, *greetings):
    for greeting in greetings:
        address = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
        with socket.create_connection(address, timeout=5) as visitor:
            visitor.sendall(greeting)
            time.sleep(0.05)


GREETINGS = (b"", b"\0", b"\1\0", b"\xff" + bytes(8) + b"\x7f\3\0NULL", b"GET / HTTP/1.0\r\n\r\n")


def say_and_hear(listening, engine, text, **how):
    engine.socket.send(text)
    assert listening.receive(**how) == text
    listening.send(b"answer")
    assert engine.socket.recv() == b"answer"


def test_visitors_that_do_not_speak_zeromq_change_nothing():
    listening, endpoint = listen("tcp://127.0.0.1:*", timeout=TIMEOUT)
    try:
        for _ in range(2):
            visit(endpoint, *GREETINGS)
            with Engine(endpoint) as engine:
                say_and_hear(listening, engine, b"first", from_new_peer=True)
                visit(endpoint, *GREETINGS)
                Timer(0.4, engine.socket.send, [b"second"]).start()
                assert listening.receive() == b"second"
                listening.send(b"answer")
            with pytest.raises(ConnectionLost, match="has closed the connection"):
                listening.receive()
    finally:
        listening.close()


def test_visitors_that_speak_as_zeromq_did_before_its_version_4_change_nothing():
    # Their first frame is taken for a name, the second one for what it says.
    rng = random.Random(1)
    listening, endpoint = listen("tcp://127.0.0.1:*", timeout=TIMEOUT)
    try:
        with Engine(endpoint) as engine, ThreadPoolExecutor() as pool:
            first = pool.submit(listening.receive, from_new_peer=True)
            address = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
            for number in range(300):
                with socket.create_connection(address, timeout=5) as visitor:
                    frames = b"\x02\0%c\x03\0hi" % number if number < 250 else rng.randbytes(99)
                    visitor.sendall(frames)
            engine.socket.send(b"first")
            assert first.result(TIMEOUT) == b"first"
            listening.send(b"answer")
            assert engine.socket.recv() == b"answer"
    finally:
        listening.close()


def test_what_says_no_first_message_of_an_engine_is_refused_and_the_next_one_served():
    def check(text: bytes) -> None:
        if text != b"first":
            raise InputError(f"{text!r} is no beginning")

    refusals = []
    listening, endpoint = listen(
        "tcp://127.0.0.1:*", timeout=TIMEOUT, check_first=check, on_refused=refusals.append
    )
    try:
        with Engine(endpoint) as engine, Engine(endpoint) as other, ThreadPoolExecutor() as pool:
            first = pool.submit(listening.receive, from_new_peer=True)
            for said, answer in (
                ([b"garbage"], b"refused: b'garbage' is no beginning"),
                (
                    [b"first", b"more"],
                    b"refused: the message has several ZeroMQ frames; one is expected",
                ),
            ):
                other.socket.send_multipart(said)
                assert other.socket.recv() == answer
            other.close()  # It leaves without a further word: no engine has gone.
            engine.socket.send(b"first")
            assert first.result(TIMEOUT) == b"first"
            listening.send(b"answer")
            assert engine.socket.recv() == b"answer"
    finally:
        listening.close()
    assert refusals == [
        "b'garbage' is no beginning",
        "the message has several ZeroMQ frames; one is expected",
    ]


def test_visitors_while_the_socket_is_not_read_do_not_hang_its_end():
    # ZeroMQ tells a monitor of three events each; it waits for one that is full.
    listening, endpoint = listen("tcp://127.0.0.1:*")
    address = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
    for _ in range(1500):
        socket.create_connection(address, timeout=5).close()
    closing = Thread(target=listening.close, daemon=True)
    closing.start()
    closing.join(TIMEOUT)
    assert not closing.is_alive()


def test_an_engine_is_not_disturbed_by_others_that_speak():
    refusals = []
    listening, endpoint = listen("tcp://127.0.0.1:*", timeout=TIMEOUT, on_refused=refusals.append)
    try:
        with Engine(endpoint) as engine, Engine(endpoint) as other, ThreadPoolExecutor() as pool:
            say_and_hear(listening, engine, b"first", from_new_peer=True)
            other.socket.send_multipart([b"into", b"the midst"])
            second = pool.submit(listening.receive)
            assert other.socket.recv().startswith(b"refused: ")
            other.socket.send(b"again")
            assert other.socket.recv().startswith(b"refused: ")
            engine.socket.send(b"second")
            assert second.result(TIMEOUT) == b"second"
            listening.send(b"answer")
            # The other's next request does not hide that the engine has left.
            engine.__exit__()
            time.sleep(0.2)
            other.socket.send(b"first")
            with pytest.raises(ConnectionLost, match="has closed the connection"):
                listening.receive()
            assert listening.receive(from_new_peer=True) == b"first"
            listening.send(b"answer")
            assert other.socket.recv() == b"answer"
    finally:
        listening.close()
    assert len(refusals) == 2


@pytest.mark.parametrize("said", [b"", b" " * 5000], ids=["nothing", "too much"])
def test_an_engine_that_leaves_before_its_first_message_is_noticed(said):
    listening, endpoint = listen("tcp://127.0.0.1:*", timeout=TIMEOUT, max_message_bytes=4000)
    try:
        with Engine(endpoint) as engine:
            if said:
                engine.socket.send(said)
            time.sleep(0.2)
        with pytest.raises(ConnectionLost, match=r"has closed .* more than 4000 bytes"):
            listening.receive(from_new_peer=True)
    finally:
        listening.close()


def test_the_next_engine_is_waited_for_though_the_last_one_has_left():
    listening, endpoint = listen("tcp://127.0.0.1:*", timeout=TIMEOUT)
    try:
        for text in (b"first", b"second"):
            with Engine(endpoint) as engine:
                engine.socket.send(text)
                assert listening.receive(from_new_peer=True) == text
                listening.send(b"answer")
                engine.socket.recv()
            time.sleep(0.2)
    finally:
        listening.close()


def test_a_wait_can_be_ended_from_outside():
    class Enough(Exception):
        pass

    def enough() -> None:
        raise Enough

    listening, _ = listen("tcp://127.0.0.1:*", while_waiting=enough)
    try:
        with pytest.raises(Enough):
            listening.receive(from_new_peer=True)
    finally:
        listening.close()


def test_closing_twice_is_harmless():
    listening, _ = listen("tcp://127.0.0.1:*")
    listening.close()
    listening.close()
    with pytest.raises(zmq.ZMQError):
        listening.send(b"")
