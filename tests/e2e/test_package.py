"""What the package brings: installed in a copy of this system, its manual page, its completions."""

import os
import re
import shutil

import gguffs
import pytest
from gguffs import SAMPLE, TOP, output, run

PAGE = TOP / "target/manual/gguf-fs.1"


@pytest.fixture(scope="module")
def package():
    """The package, built from what is there already."""
    return output(TOP / "scripts/package", seconds=600).strip()


def test_the_package_holds_program_manual_completions_and_licence(package):
    listed = output("dpkg-deb", "--contents", package).splitlines()
    files = {line.split()[5]: line.split()[0] for line in listed if not line.endswith("/")}
    assert files == {
        "./usr/bin/gguf-fs": "-rwxr-xr-x",
        "./usr/share/man/man1/gguf-fs.1.gz": "-rw-r--r--",
        "./usr/share/bash-completion/completions/gguf-fs": "-rw-r--r--",
        "./usr/share/zsh/vendor-completions/_gguf-fs": "-rw-r--r--",
        "./usr/share/fish/vendor_completions.d/gguf-fs.fish": "-rw-r--r--",
        "./usr/share/doc/gguf-fs/README.md": "-rw-r--r--",
        "./usr/share/doc/gguf-fs/copyright": "-rw-r--r--",
    }
    assert {line.split()[1] for line in listed} <= {"root/root", "0/0"}
    depends = output("dpkg-deb", "--field", package, "Depends")
    assert "fuse3" in depends and "libc6" in depends


@pytest.fixture
def system(package, work, as_root):
    """Runs a script as root of a copy of this system, with the package and the sample in its /tmp."""

    def run_there(script):
        return run("unshare", "--mount", "--fork", "sh", "-ec", COPY, "sh", package, SAMPLE, script,
                   cwd=work, seconds=60, env=os.environ | {"PATH": SBIN})  # fmt: skip

    return run_there


SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"
COPY = """
    mkdir over
    mount -t tmpfs none over
    mkdir over/upper over/work over/root
    mount -t overlay -o lowerdir=/,upperdir=over/upper,workdir=over/work none over/root
    for folder in dev proc sys; do mount --rbind /$folder over/root/$folder; done
    mount -t tmpfs none over/root/tmp
    cp "$1" over/root/tmp/gguf-fs.deb
    cp "$2" over/root/tmp/model.gguf
    exec chroot over/root sh -ec "$3"
"""


def test_an_installed_package_mounts_and_leaves_nothing_when_it_is_removed(system):
    result = system(
        """
        cd /tmp
        dpkg --install gguf-fs.deb >/dev/null
        mkdir mnt
        gguf-fs model.gguf mnt
        cat mnt/metadata/general.name
        umount mnt
        mount -t fuse.gguf-fs model.gguf mnt
        findmnt --noheadings --output FSTYPE,SOURCE mnt
        umount mnt
        dpkg --verify gguf-fs
        dpkg --remove gguf-fs >/dev/null
        test ! -e /usr/bin/gguf-fs
        """
    )
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.split() == ["Sample", "Llama", "fuse.gguf-fs", "/tmp/model.gguf"]


def test_the_manual_page_renders_without_a_warning(package):
    narrow = os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    page = output("man", "--warnings", "--local-file", PAGE, env=narrow)
    assert max(map(len, page.splitlines())) <= 80
    for heading in ("NAME", "SYNOPSIS", "OPTIONS", "THE VERB LS", "THE VERB CAT", "THE TREE",
                    "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"):  # fmt: skip
        assert re.search(rf"^{heading}$", page, re.M), heading
    for option in re.findall(r"--[a-z-]{2,}", output(gguffs.BINARY, "--help")):
        assert option in page


def test_mandoc_has_nothing_to_say_against_the_page(package):
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc here")
    said = run("mandoc", "-T", "lint", "-W", "warning", PAGE).stdout.splitlines()
    # The page is as old as its version; a date would make two builds differ.
    assert [line for line in said if "missing date" not in line] == []


COMPLETE = {
    "bash": """
        . "$1/gguf-fs.bash"
        function=$(complete -p gguf-fs | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(gguf-fs --l) COMP_CWORD=1
        $function gguf-fs --l gguf-fs
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": """
        source $argv[1]/gguf-fs.fish
        complete --do-complete "gguf-fs --l" | cut -f 1
    """,
    # The completions themselves need a terminal there.
    "zsh": """
        fpath=("$1" $fpath)
        autoload -U compinit
        compinit -D
        autoload +X $_comps[gguf-fs]
        for option in --log-file --lenient; do
            [[ $functions[_gguf-fs] == *"$option"* ]] && print -- $option
        done
    """,
}


@pytest.mark.parametrize("shell", COMPLETE)
def test_the_completions_load(package, shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    words = ["bash", "--norc"] if shell == "bash" else ["zsh", "-f"] if shell == "zsh" else ["fish"]
    words += ["-c", COMPLETE[shell]] + ([] if shell == "fish" else [shell])
    assert {"--log-file", "--lenient"} == set(output(*words, PAGE.parent).split())
