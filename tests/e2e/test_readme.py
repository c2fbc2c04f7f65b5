"""What the README shows of a terminal is what the terminal shows."""

import doctest
import os
import re

import crafted
import gguf
import gguffs
from gguffs import TOP, run
from test_values import float_values

README = (TOP / "README.md").read_text()


def as_q4_0(reader):
    """A model whose tensors of two dimensions and more are made Q4_0."""
    file = crafted.read_by(reader)
    q4_0 = gguf.GGMLQuantizationType.Q4_0
    for at, (name, _, dims, _) in enumerate(file.tensors):
        if len(dims) > 1:
            data = gguf.quants.quantize(float_values(reader.tensors[at]), q4_0).tobytes()
            file.tensors[at] = name, q4_0, dims, data
    file.keys = [(key, kind, 2 if key == "general.file_type" else value) for key, kind, value in file.keys]
    return file


def examples(text):
    """Each command after a `$` of the indented parts, and what is shown below it."""
    for session in re.findall(r"^ {4}\$ (.*?)^(?! {4})", text, re.M | re.S):
        for example in session.rstrip("\n").replace("\n    ", "\n").split("\n$ "):
            command, _, shown = example.partition("\n")
            yield command, shown


def test_the_examples_print_what_the_readme_says(work, monkeypatch):
    text = README.replace("/mnt/", f"{work}/")
    (work / "sample-q4_0.gguf").write_bytes(as_q4_0(gguf.GGUFReader(gguffs.SAMPLE)).build())
    (work / "tests").symlink_to(TOP / "tests")
    for mountpoint in "mq":
        (work / mountpoint).mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{os.path.dirname(gguffs.BINARY)}:{os.environ['PATH']}")
    for command, shown in examples(text):
        result = run("bash", "-c", command)
        assert (result.stdout.rstrip("\n"), result.stderr) == (shown, ""), command
    parser = doctest.DocTestParser()
    test = parser.get_doctest(text, {}, "README", "README.md", 0)
    assert len(test.examples) > 9
    said = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not failed, "".join(said)
    for mountpoint in "mq":
        assert gguffs.unmount(work / mountpoint).returncode == 0


def test_every_command_the_readme_names_is_there():
    for name in set(re.findall(r"scripts/([a-z-]+)", README)):
        assert os.access(TOP / "scripts" / name, os.X_OK), name
