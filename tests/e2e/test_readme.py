"""What the README shows of a terminal is what the terminal shows."""

import doctest
import os
import re

import gguffs
from gguffs import TOP, run

README = (TOP / "README.md").read_text()


def test_the_examples_print_what_the_readme_says(work):
    (work / "mnt").mkdir()
    text = README.replace("/mnt/m", str(work / "mnt"))
    [session] = re.findall(r"^    \$ (.*?)^(?! {4})", text, re.M | re.S)
    path = f"{os.path.dirname(gguffs.BINARY)}:{os.environ['PATH']}"
    for example in session.replace("\n    ", "\n").split("\n$ "):
        command, _, shown = example.rstrip("\n").partition("\n")
        result = run("bash", "-c", command, cwd=TOP, env=os.environ | {"PATH": path})
        assert (result.stdout.rstrip("\n"), result.stderr) == (shown, ""), command
    parser = doctest.DocTestParser()
    test = parser.get_doctest(text, {}, "README", "README.md", 0)
    assert len(test.examples) > 3
    said = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not failed, "".join(said)
    assert gguffs.unmount(work / "mnt").returncode == 0


def test_every_command_the_readme_names_is_there():
    for name in set(re.findall(r"scripts/([a-z-]+)", README)):
        assert os.access(TOP / "scripts" / name, os.X_OK), name
