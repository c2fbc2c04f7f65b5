"""Runs the sections that are named, or all, and says at the end what falls short of its target."""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import gguffs
from measure import Table, machine
from sections import SECTIONS


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--list", action="store_true", help="names the sections")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(unknown)}: --list names them")
    if arguments.list:
        for name, section in SECTIONS.items():
            print(f"{name:12} {section.__doc__}")
        return

    began, table = time.monotonic(), Table()
    print(machine())
    with gguffs.WorkDir() as work:
        for name in arguments.sections or SECTIONS:
            SECTIONS[name](table, work)
    print(f"\n{len(table.short)} short of their target, {time.monotonic() - began:.0f} s")
    for line in table.short:
        print(f"  {line}")


if __name__ == "__main__":
    main()
