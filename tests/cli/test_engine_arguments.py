"""The command line of the engine: that of Batsim, read as Batsim reads it."""

from __future__ import annotations

import pytest

from qops_batsim import InputError, __version__
from qops_batsim.cli.engine import REFUSED, parse_batsim_options


def read(*arguments: str):
    return parse_batsim_options(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-v", "quiet"],
        ["-vquiet"],
        ["--verbosity", "quiet"],
        ["--verbosity=quiet"],
        ["--verb=quiet"],
        ["-Ev", "quiet"],
        ["-Evquiet"],
    ],
)
def test_values_are_read_as_docopt_reads_them(arguments):
    assert read(*arguments).value("--verbosity", "") == "quiet"


def test_batsims_defaults():
    options = read("-p", "x")
    assert options.value("--socket-endpoint", "default") == "default"
    assert options.whole_number("--mmax", 0) == 0
    assert options.seconds("--timeout") is None
    assert options.switches == set()


def test_repeated_workloads_keep_their_order():
    options = read("-w", "b", "--workload=a", "-wc", "--events", "e", "--events=f")
    assert options.values == {"--workload": ["b", "a", "c"], "--events": ["e", "f"]}


def test_a_value_may_look_like_an_option_or_be_empty():
    options = read("--sched-cfg", "-x", "--export=", "-p=a")
    assert options.values == {"--sched-cfg": ["-x"], "--export": [""], "--platform": ["=a"]}


def test_the_command_line_of_batsim_py():
    line = (
        "-E --forward-profiles-on-submission --disable-schedule-tracing "
        "--disable-machine-state-tracing -s tcp://127.0.0.1:1 -p p -w w -v quiet "
        "-e /tmp/batsim --enable-compute-sharing --disable-storage-sharing --events F"
    )
    options = read(*line.split())
    assert len(options.switches) == 6
    assert len(options.values) == 6


@pytest.mark.parametrize("name", [*REFUSED, *filter(None, REFUSED.values())])
def test_batsims_other_options_are_refused_by_name(name):
    full = name if name.startswith("--") else {s: n for n, s in REFUSED.items()}[name]
    with pytest.raises(InputError) as caught:
        read(name, "1", "2")
    message = f"Batsim's option {full} is not supported by the embedded engine"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fast"], "option --fast not recognized (known: --acknowledge-dynamic-jobs"),
        (["--enable-compute-sharin=1"], "option --enable-compute-sharing must not have an arg"),
        (["--forwarding-profiles"], "did you mean '--forward-profiles-on-submission'?"),
        (["-x"], "option -x not recognized"),
        (["--enable"], "option --enable not a unique prefix"),
        (["--sched", "3"], "option --sched not a unique prefix"),
        (["file.xml"], "unexpected argument 'file.xml'"),
        (["--", "-q"], "unexpected argument '-q'"),
        (["-"], "unexpected argument '-'"),
        (["-p"], "option -p requires argument"),
        (["-p", "a", "-p", "b"], "option --platform is given 2 times"),
        (["--sched-cfg=a", "--sched-cfg-file=b"], "one of them is expected"),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(arguments, said):
    with pytest.raises(InputError) as caught:
        read(*arguments)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "option --platform is missing"),
        (["-v", "loud"], "--verbosity is 'loud' (known: debug, information, network-only, quiet)"),
        (["-m", "nowhere"], "there is no host 'nowhere'; --master-host"),
        (["-w", "missing.json"], "missing.json: no such file (a Batsim workload (JSON)"),
        (["--mmax", "9"], "9 hosts were asked for; from 1 to 4"),
        (["--mmax=-1"], "--mmax is '-1'; a whole number from 0 up"),
        (["--mmax", "many"], "--mmax is 'many'"),
        (["--timeout", "0"], "--timeout is '0'; a number of seconds above 0"),
        (["--timeout", "nan"], "--timeout is 'nan'"),
        (["--max-message-bytes", "0"], "a whole number from 1 up is expected"),
        (["--enable-profile-reuse"], "without --enable-dynamic-jobs"),
        (["--events", "missing.txt"], "missing.txt: no such file"),
        (["--sched-cfg-file", "missing.cfg"], "missing.cfg: no such file (a configuration of"),
        (["-s", "localhost"], "endpoint is 'localhost'; tcp:"),
    ],
)
def test_wrong_values_are_one_clear_error(cli, machine, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    start = machine if arguments else []
    result = cli("engine", *start, *arguments, "-s", "ipc://nowhere", "--timeout", "0.1")
    if "-s" in arguments or "--timeout" in arguments:
        result = cli("engine", *start, *arguments)
    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.startswith("qops-batsim: error: ")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_version_says_which_batsim_and_what_it_is(cli):
    result = cli("engine", "--version")
    assert result.exit_code == 0
    assert result.out.startswith("v4.2.1 ")
    assert f"qops-batsim {__version__}" in result.out


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_option(cli, option):
    from qops_batsim.cli.engine import SWITCHES, VALUES

    result = cli("engine", option)
    assert result.exit_code == 0
    for name, short in {**VALUES, **SWITCHES}.items():
        assert name in result.out
        assert not short or f"{short}, {name}" in result.out
