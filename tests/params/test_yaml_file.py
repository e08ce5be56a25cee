"""A params file that no parser should be trusted with."""

import os
from pathlib import Path

import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.params import yaml_file
from pipeline.params.load import load

NINES = "9" * 5000
FILE = "params.yaml"


def bomb(levels):
    """Lines that stand for 9**levels values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("2024-01-31", ("footprint.threads", "2024-01-31", "quotes")),
        ("2024-13-45", ("line ", "2024-13-45", "quote")),
        ("2024-01-31 25:00:00", ("line ", "2024-01-31 25", "quote")),
        (NINES, ("line ", "99999", "digits")),
        (NINES[:400], ("footprint.threads", "64 bits")),
        (f"0x{'f' * 5000}", ("footprint.threads", "64 bits")),
        ("!!int x", ("line ", "x ", "correct")),
        ("!!bool x", ("line ", "x ", "correct")),
        ("!!float x", ("line ", "x ", "correct")),
        ("[" * 2000 + "]" * 2000, ("line ", "50 deep")),
        ("{a: " * 300 + "1" + "}" * 300, ("line ", "50 deep")),
        ("&a [*a]", ("line ", "*a", "remove")),
        ("&a {b: {c: *a}}", ("line ", "*a", "remove")),
    ],
)
def test_a_value_that_nothing_can_be(folder, value, named):
    document = small_params()
    document["footprint"]["threads"] = "VALUE"
    YAML().dump(document, Path(FILE))
    Path(FILE).write_text(Path(FILE).read_text().replace("VALUE", value))
    with refuses(FILE, *named):
        load(Path(FILE))


@pytest.mark.parametrize("levels", [6, 30])
def test_a_few_lines_that_stand_for_very_many_values(folder, levels):
    Path(FILE).write_text(f"{bomb(levels)}\nfootprint: {{threads: *a{levels - 1}}}\n")
    with refuses(FILE, "line ", "aliases", "100,000"):
        load(Path(FILE))


def test_blocks_that_nest_by_indentation(folder):
    for text in ("".join(f"{' ' * i}a:\n" for i in range(1000)), "- " * 200_000 + "a"):
        Path(FILE).write_text(text)
        with refuses(FILE, "line ", "50 deep"):
            load(Path(FILE))


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("teacher: {kind: transformer, model: package:a/b}\n", "line 1", '"package:a/b"'),
        ("a: 1\nsources: [\n  1, s3://bucket/key]\n", "line 3", '"s3://bucket/key"'),
    ],
)
def test_what_libyaml_does_not_read(folder, text, line, word):
    """DVC reads params.yaml by libyaml, which refuses it: `dvc repro` would, without a word on what to do."""
    Path(FILE).write_text(text)
    with refuses(FILE, line, f"write {word}"):
        yaml_file.read(Path(FILE))
    Path(FILE).write_text(text.replace(word.strip('"'), word))
    assert word.strip('"') in str(yaml_file.read(Path(FILE)))


@pytest.mark.parametrize(
    ("text", "line", "fix"),
    [
        ("a: 1\n---\nb: 2\n", "line 2", "remove the `---`"),
        ("%FOO bar\n---\na: 1\n", "line 1", "remove the line"),
        ("a: 1\nb: *x\n", None, "undefined alias"),
        ("a: &x 1\nb: &x 2\nc: *x\n", "line 2", "another name"),
        ("a: 1\nb: @c\n", None, "@"),
    ],
)
def test_each_fault_has_the_fix_of_its_own(folder, text, line, fix):
    Path(FILE).write_text(text)
    with refuses(FILE, *filter(None, [line, fix])):
        yaml_file.read(Path(FILE))


def test_aliases_and_brackets_of_a_usual_number_are_read(folder):
    Path(FILE).write_text(f"{bomb(3)}\nb: &b {{c: 1}}\nd: *b\ne: {[[1]] * 150}\n")
    found = yaml_file.read(Path(FILE))
    assert found["d"] == {"c": 1}
    assert len(found["a2"]) == 9


def test_what_is_no_file(folder):
    os.mkfifo("pipe")
    Path("large.yaml").write_text("#" * (yaml_file.MOST_BYTES + 1))
    for name in ("pipe", "large.yaml", "/dev/zero"):
        with refuses(name, "name a params file"):
            load(Path(name))
    with refuses("none.yaml", "does not exist"):
        load(Path("none.yaml"))
