"""The command line, as far as it goes without an engine."""

from __future__ import annotations

import json

import pytest

from parity_dump import cli


def run(capsys, *argv):
    try:
        status = cli.main(argv)
    except SystemExit as e:  # argparse's own exits
        status = e.code
    out, err = capsys.readouterr()
    return status, out, err


def test_help_lists_every_engine_and_the_exit_statuses(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for command in cli.COMMANDS:
        assert command in out
    assert "exit status: 0 dumped, 1 the run failed" in out


def test_help_of_a_command_has_examples(capsys):
    status, out, _ = run(capsys, "hf", "--help")
    assert status == 0 and "examples:" in out and "--teacher-forced ref/generated.json" in out


def test_version(capsys):
    assert run(capsys, "--version") == (0, "parity-dump 0.1.0\n", "")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "arguments are required: COMMAND"),
        (["nothing"], "invalid choice: 'nothing'"),
        (["hf", "m"], "one of the arguments --prompt --prompt-file --ids is required"),
        (["hf", "m", "--prompt", "x"], "one of -o and --sanity is needed"),
        (["hf", "m", "--prompt", "x", "-o", "d", "--decode", "-1"], "--decode -1"),
        (["hf", "m", "--prompt", "x", "-o", "d", "--recompute"], "--recompute needs --decode N"),
        (["hf", "m", "--ids", "x", "-o", "d", "--chat"], "leave --chat and --no-special out"),
        (["hf", "m", "--prompt", "x", "-o", "d", "--max-bytes", "lots"], "'lots' is not a size like 500M or 2G"),
        (["max", "-o", "d", "--max-bytes", "lots", "--", "generate"], "'lots' is not a size like 500M or 2G"),
        (["hf", "m", "--prompt", "x", "-o", "d", "--dtype", "int8"], "invalid choice: 'int8'"),
    ],
)
def test_bad_usage_is_told_before_anything_is_loaded(capsys, argv, why):
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "") and why in err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["hf", "m", "--prompt", "x", "-o", "d", "--layers", "3-0"], "parsing layers='3-0': '3-0' selects nothing"),
        (["hf", "m", "--prompt", "x", "-o", "d", "--tokens", "a"], "parsing tokens='a'"),
        (["max", "-o", "d"], "give its arguments behind --"),
        (["max", "-o", "d", "--", "generate"], "No module named 'max' (pip install 'parity-dump[max]')"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_loaded_or_written(capsys, tmp_path, monkeypatch, argv, why):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *argv)
    assert (status, out) == (1, "") and why in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "reading token ids from"),
        ("[]", "expected a list of integers"),
        ("[1.5]", "expected a list of integers"),
        ("[[1]]", "got shape (1, 1)"),
    ],
)
def test_ids_that_cannot_be_read_are_a_failed_run(capsys, tmp_path, text, why):
    path = tmp_path / "ids.json"
    path.write_text(text)
    status, _, err = run(capsys, "hf", "m", "--ids", str(path), "-o", str(tmp_path / "d"))
    assert status == 1 and err.startswith("parity-dump: ") and why in err


def test_a_missing_prompt_file_is_a_failed_run(capsys, tmp_path):
    status, _, err = run(capsys, "hf", "m", "--prompt-file", str(tmp_path / "no"), "-o", str(tmp_path / "d"))
    assert status == 1 and "reading the prompt from" in err


def test_sizes_are_powers_of_1000(capsys):
    from parity_dump.estimate import parse_size

    assert [parse_size(t) for t in ("12", "1.5k", "200M", "2GB", "1T")] == [12, 1500, 200_000_000, 2_000_000_000, 10**12]


def test_the_version_is_the_projects(request):
    text = (request.config.rootpath / "pyproject.toml").read_text()
    assert f"version = {json.dumps(cli.VERSION)}" in text
