"""Fixtures of the end-to-end tests, and the plain closing line."""

import os

import gguffs
import pytest


@pytest.fixture
def work():
    with gguffs.WorkDir() as path:
        yield path


@pytest.fixture(scope="module")
def module_work():
    with gguffs.WorkDir() as path:
        yield path


@pytest.fixture(scope="module")
def sample(module_work):
    """The sample model, mounted; shared by the tests of a module."""
    with gguffs.Mount(gguffs.SAMPLE, module_work, name="sample") as mount:
        yield mount


@pytest.fixture(scope="module")
def gemma(module_work):
    """The real model, mounted; shared by the tests of a module."""
    if not gguffs.GEMMA.exists():
        pytest.skip("no Gemma model: scripts/fetch-model gets it")
    with gguffs.Mount(gguffs.GEMMA, module_work, name="gemma") as mount:
        yield mount


@pytest.fixture
def as_root():
    if not gguffs.IS_ROOT:
        pytest.skip("needs root")


MEASURED = pytest.StashKey[list]()


@pytest.fixture
def measured(request):
    """Takes a line about what was measured, to be shown at the end."""
    return request.config.stash.setdefault(MEASURED, []).append


def pytest_terminal_summary(terminalreporter, config):
    if lines := config.stash.get(MEASURED, []):
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_collection_modifyitems(items):
    assert os.access(gguffs.BINARY, os.X_OK), f"no program at {gguffs.BINARY}: cargo build --release"


def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and not config.option.collectonly:
        count = {kind: len(reporter.stats.get(kind, [])) for kind in
                 ("passed", "failed", "error", "skipped")}  # fmt: skip
        closing = f"{count['passed']} passed, {count['failed'] + count['error']} failed"
        print(closing + (f", {count['skipped']} skipped" if count["skipped"] else ""))
