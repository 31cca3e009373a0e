import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import qops_batsim
from qops_batsim import InputError
from qops_batsim.cli import console, schedulers
from qops_batsim.cli.common_options import manual
from qops_batsim.cli.main import COMMANDS as SECTIONS
from qops_batsim.cli.main import command_line
from qops_batsim.errors import SimulationError

Cli = Callable[..., Any]


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group with the words that call it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


ALL = dict(walk(typer.main.get_command(command_line())))
GROUPS = [words for words, command in ALL.items() if hasattr(command, "commands")]
COMMANDS = [words for words in ALL if words not in GROUPS]


def refused(result: Any) -> str:
    """Return the message of a run that ended as a user's mistake has to."""
    assert result.exit_code == 2, result
    assert result.out == ""
    assert result.err.startswith("qops-batsim: error: ")
    assert result.err.count("\n") == 1
    assert result.err.endswith("\n")
    return str(result.err.removeprefix("qops-batsim: error: ").rstrip("\n"))


def test_the_walk_finds_the_commands() -> None:
    assert {("run",), ("schedulers",), ("workload", "import"), ("platform", "show")} <= set(
        COMMANDS
    )
    assert set(GROUPS) == {(), ("workload",), ("platform",), ("queue",), ("study",), ("live",)}


def test_the_version(cli: Cli) -> None:
    result = cli("--version")
    assert result.exit_code == 0
    how = "compiled" if qops_batsim.is_compiled() else "not compiled, and slower"
    assert result.out == f"qops-batsim {qops_batsim.__version__} ({how})\n"
    assert result.err == ""


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_without_a_command_prints_its_help(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words)
    for name in ALL[words].commands:
        assert name in result.out
    assert "Traceback" not in result.out + result.err
    assert "error" not in result.err


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_help_of_a_group_is_printed(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words, "-h")
    assert result.exit_code == 0
    assert result.err == ""
    assert "Usage" in result.out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_describes_its_options(
    cli: Cli, words: tuple[str, ...]
) -> None:
    command = ALL[words]
    assert "\n\nExamples:\n\n\b\n" in command.help
    assert f"qops-batsim {' '.join(words)}" in command.help.partition("\nExamples:\n")[2]
    result = cli(*words, "--help")
    assert (result.exit_code, result.err) == (0, "")
    for text in ("Usage", "Examples", f"qops-batsim {' '.join(words)}"):
        assert text in result.out
    assert [each.name for each in command.params if not getattr(each, "help", None)] == []


@pytest.mark.parametrize("words", [w for w in ALL if w != ("engine",)], ids=" ".join)
def test_help_fits_80_columns(
    cli: Cli, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = cli(*words, "--help").out
    # A value that cannot be broken stays whole, on a line of its own.
    assert [line for line in text.splitlines() if len(line) > 80 and len(line.split()) > 3] == []
    assert not re.search(r"^ +-.*<[a-z ]+>|`|\*\*|\x08", text, re.MULTILINE)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_screen_or_has_headings(
    cli: Cli, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    if words == ("engine",):
        return  # Its options are Batsim's, and so are their headings.
    headings = {getattr(each, "rich_help_panel", None) for each in ALL[words].params}
    lines = cli(*words, "--help").out.splitlines()
    assert len(lines) <= 45 or len(headings) > 1
    for heading in filter(None, headings):
        assert f"{heading}:" in lines


def test_no_more_commands_and_options_than_can_be_held_in_mind() -> None:
    """Leaves of the command line, and long options of all of them (CONTRIBUTING)."""
    options = [
        {each.name for each in ALL[words].params if any(o.startswith("--") for o in each.opts)}
        for words in COMMANDS
    ]
    assert len(COMMANDS) <= 38
    assert sum(len(each - {"help"}) for each in options) <= 330


def test_commands_are_listed_under_headings(cli: Cli) -> None:
    text = cli("--help").out
    for heading in SECTIONS:
        assert f"{heading}:\n" in text


def test_summaries_are_the_first_sentences_of_the_commands() -> None:
    for summaries in SECTIONS.values():
        for name, summary in summaries.items():
            first = " ".join(ALL[(name,)].help.split("\n\n")[0].split())
            assert first.replace("`", "") == summary


def test_only_commands_that_are_named_are_made() -> None:
    listed = typer.main.get_command(command_line("nonsense")).commands
    assert [*listed] == [name for names in SECTIONS.values() for name in names]
    assert [name for name, each in listed.items() if each.params] == []
    named = typer.main.get_command(command_line("verify")).commands
    assert [*named] == ["verify"]
    assert named["verify"].params


def test_a_letter_stands_for_one_option_everywhere() -> None:
    """But in ``engine``, which has Batsim's letters."""
    meanings: dict[str, set[str]] = {}
    for words in COMMANDS:
        for each in ALL[words].params:
            short = [name for name in each.opts if len(name) == 2]
            long = [name for name in each.opts if name.startswith("--")]
            for letter in short:
                meanings.setdefault(letter, set()).update(long)
            for name in {"--workload", "--out", "--platform"} & set(long):
                assert short == [name[1:3]], (words, name)
    assert {letter: len(names) for letter, names in meanings.items() if len(names) > 1} == {}


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "qops_batsim", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    assert done.stdout.startswith(f"qops-batsim {qops_batsim.__version__} (")


@pytest.mark.parametrize("given", [None, "3"])
def test_commands_start_no_threads_for_linear_algebra_unless_told(given: str | None) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": given or ""}
    if given is None:
        del environment["OPENBLAS_NUM_THREADS"]
    tell = """
import os, sys
from qops_batsim.cli.main import main
sys.argv = ["qops-batsim", "--version"]
try:
    main()
finally:
    print(os.environ["OPENBLAS_NUM_THREADS"], "numpy" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", tell], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == f"{given or 1} False"


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_an_unknown_command_is_one_line(cli: Cli, words: tuple[str, ...]) -> None:
    assert "nonsense" in refused(cli(*words, "nonsense"))


def test_options_may_end_before_the_command(cli: Cli) -> None:
    assert cli("--", "schedulers").out == cli("schedulers").out


def test_an_unknown_command_is_told_with_the_nearest(cli: Cli) -> None:
    assert "Did you mean 'verify'?" in refused(cli("verfy"))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_an_unknown_option_is_one_line(cli: Cli, words: tuple[str, ...]) -> None:
    assert "--nonsense" in refused(cli(*words, "--nonsense"))


def required(command: Any) -> bool:
    return any(each.param_type_name == "argument" and each.required for each in command.params)


@pytest.mark.parametrize("words", [w for w in COMMANDS if required(ALL[w])], ids=" ".join)
def test_a_missing_argument_is_one_line(cli: Cli, words: tuple[str, ...]) -> None:
    assert "argument" in refused(cli(*words))


def test_too_many_arguments_are_one_line(cli: Cli) -> None:
    assert "extra" in refused(cli("schedulers", "easy", "extra"))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "easy", "--hosts", "many"), "--hosts"),
        (("run", "easy", "--hosts", "0"), "--hosts"),
        (("run", "easy", "--workload"), "--workload"),
        (("workload", "generate", "w.json", "--jobs", "1.5"), "--jobs"),
        (("schedulers", "--json=perhaps"), "--json"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_option(
    cli: Cli, words: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert option in refused(cli(*words))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("w.json: no jobs"), 2, "w.json: no jobs"),
        (SimulationError("job 'a' at 5 s"), 2, "job 'a' at 5 s"),
        (InputError("a\nb\x1b[31m\udce9ö"), 2, r"a\nb\x1b[31m\udce9ö"),
        (OSError(28, "No space left on device"), 2, "the output cannot be written (No space left"),
        (PermissionError(13, "Permission denied", "a.json"), 2, "a.json (Permission denied)"),
        (InputError("x" * 10**6 + "; 1 is expected"), 2, "xxx"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 130, "interrupted"),
    ],
)
def test_what_ends_a_command_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(schedulers, "print_table", fail)
    result = cli("schedulers")
    assert result.exit_code == code
    assert result.err.startswith(f"qops-batsim: error: {line}")
    assert result.err.count("\n") == 1
    assert len(result.err) < 2000


def test_a_defect_of_ours_is_not_hidden(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(schedulers, "print_table", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        cli("schedulers")


def test_numbers_that_json_has_not_are_not_printed() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.print_json({"mean": float("nan")})


@pytest.mark.parametrize("module", ["main", "engine"])
def test_a_command_ends_without_a_search_for_garbage(module: str) -> None:
    # What is registered first is called last.
    script = f"""
import atexit, gc, sys
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 0))
sys.argv[1:] = ["--version"]
from qops_batsim.cli.{module} import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "frozen True", done


def run_command(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    code = "from qops_batsim.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE,
        timeout=240,
        check=False,
        **options,
    )


@pytest.mark.parametrize("words", [(), ("schedulers",), ("schedulers", "easy"), ("run", "-h")])
def test_a_reader_that_has_gone_is_no_error(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        result = run_command(*words, stdout=stream)
    assert result.stderr == b""
    assert result.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [("schedulers",), ("schedulers", "easy"), ("run", "--help")])
def test_a_full_disk_under_the_output_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as stream:
        result = run_command(*words, stdout=stream)
    assert result.stderr.count(b"\n") == 1
    assert b"the output cannot be written (No space left on device)" in result.stderr
    assert result.returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:strict"])
def test_output_is_printed_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    result = run_command(
        *("workload", "generate", tmp_path / "hö.json", "--jobs", "3"),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert result.stderr == b""
    assert result.returncode == 0
    assert b".json: 3 jobs on" in result.stdout


def test_tables_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table("[/title]", ["name", ":x:"], [["[/a]", "[red]1"], ["b", ":smile:"]])
    out = capsys.readouterr().out
    for text in ("[/title]", ":x:", "[/a]", "[red]1", ":smile:"):
        assert text in out


def test_a_manual_describes_each_name_once() -> None:
    about = manual("JOB: The job: w0!12.\n--out, -o PREFIX: Where\n    to write.\n--all: All.")
    option = about("--out", min=1)
    assert (option.metavar, option.help) == ("PREFIX", "Where to write.")
    assert option.min == 1
    assert (about("--all").metavar, about("--all").help) == (None, "All.")
    assert (about("JOB").metavar, about("JOB").help) == ("JOB", "The job: w0!12.")
    with pytest.raises(AssertionError, match="--all is described twice"):
        manual("--all: All.\n--all N: Some.")


def test_commands_of_groups_are_listed_together(cli: Cli) -> None:
    shown = cli("study", "--help").out
    assert "Commands:" in shown
    assert "Further commands" not in shown
    assert "Simulate:" not in shown


def test_an_interrupt_during_imports_ends_in_one_line(tmp_path: Path) -> None:
    """A module that the command line imports first stands for Ctrl-C at that moment."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    code = "from qops_batsim.cli.main import main"
    root = Path(qops_batsim.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; {code}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (done.returncode, done.stderr) == (130, "qops-batsim: error: interrupted\n")
