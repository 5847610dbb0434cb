"""Train across two hosts on one machine, then cut the link between them.

    python tools/two_hosts.py [--results DIR --plots DIR]

Makes two network namespaces joined by a veth pair. Each is a host of its own as far as Horovod can
tell: its own network, processes, name and ssh server, with throw-away keys. On the first one
`bench run tools/two-hosts.toml --hosts ...` starts a rank on each; when the long run is in the
middle of training, the link goes down. The script succeeds (exit code 0) if the first run is
stored as ok, the second as a typed failure that names the lost rank within 60 s of the cut, and
both hosts have ended their ranks by themselves. Exit code 3: it cannot run here; the line says why.

Needs root, Linux, iproute2, util-linux and OpenSSH (client and server).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "tools" / "two-hosts.toml"
HOSTS = (("ncf-one", "10.177.0.1"), ("ncf-two", "10.177.0.2"))
TOOLS = ("ip", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter")
LIMIT_SECONDS = 60.0
CANNOT = 3


def main(words: list[str] | None = None) -> int:
    """Run it; see above for exit codes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="keep the records there [a folder that goes]")
    parser.add_argument("--plots", type=Path, help="keep the pictures there [a folder that goes]")
    given = parser.parse_args(words)
    if reason := cannot_run():
        print(f"two_hosts: cannot run here: {reason}")
        return CANNOT
    with (
        tempfile.TemporaryDirectory(prefix="ncf-two-hosts-") as folder,
        hosts(Path(folder)) as made,
    ):
        results = given.results or Path(folder) / "results"
        plots = given.plots or Path(folder) / "plots"
        failures = train_and_cut(made, results.resolve(), plots.resolve(), Path(folder))
    for failure in failures:
        print(f"two_hosts: FAILED: {failure}")
    print("two_hosts: all as it should be" if not failures else "two_hosts: see above")
    return 1 if failures else 0


def cannot_run() -> str | None:
    """Why not, or None."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    for tool in TOOLS:
        if find(tool) is None:
            return f"{tool} is not installed"
    probe = subprocess.run(
        [str(find("unshare")), "--net", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    if probe.returncode != 0:
        return f"namespaces cannot be made: {probe.stderr.decode(errors='replace').strip()}"
    return None


def find(tool: str) -> str | None:
    """Path of a program; those of the system are not on everybody's PATH."""
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run([str(find(words[0])), *words[1:]], check=True)


@dataclass(frozen=True)
class Host:
    """A namespace: name, address, and the process that holds it (its ssh server)."""

    name: str
    address: str
    server: subprocess.Popen[bytes]

    def inside(self, *words: str) -> list[str]:
        """The command line that runs words on this host."""
        # the server runs under unshare, which forked: its child is the first process inside
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children")
        first = children.read_text(encoding="ascii").split()[0]
        spaces = ("--net", "--pid", "--mount", "--uts")
        return [str(find("nsenter")), "--target", first, *spaces, f"--wd={ROOT}", *words]

    def ranks(self) -> list[int]:
        """Processes of Horovod ranks on this host, seen from outside."""
        mine = Path(f"/proc/{self.server.pid}/ns/net").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and (entry / "ns" / "net").readlink() == mine:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    if any(variable.startswith(b"HOROVOD_RANK=") for variable in variables):
                        found.append(int(entry.name))
        return found


@contextlib.contextmanager
def hosts(folder: Path) -> Iterator[list[Host]]:
    """Two hosts that reach each other by ssh without a password; gone afterwards."""
    for name, _ in HOSTS:
        subprocess.run([str(find("ip")), "netns", "del", name], capture_output=True, check=False)
    keys(folder)
    servers: list[subprocess.Popen[bytes]] = []
    try:
        ends = ("ncf-veth1", "ncf-veth2")
        run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for (name, address), end in zip(HOSTS, ends, strict=True):
            run("ip", "netns", "add", name)
            # Horovod looks for an interface of one name on all hosts
            run("ip", "link", "set", end, "netns", name, "name", "eth0")
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        for name, address in HOSTS:
            servers.append(serve(folder, name, address))
        yield [Host(*one, server) for one, server in zip(HOSTS, servers, strict=True)]
    finally:
        for server in servers:
            server.kill()  # the first process of a pid namespace takes the others with it
            server.wait()
        for name, _ in HOSTS:
            subprocess.run(
                [str(find("ip")), "netns", "del", name], capture_output=True, check=False
            )


def keys(folder: Path) -> None:
    """Throw-away keys, and an `ssh` that uses them and nothing of the user's."""
    for key in ("host_key", "user_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    (folder / "authorized").write_bytes((folder / "user_key.pub").read_bytes())
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\n"
        f"UserKnownHostsFile {folder}/known_hosts\nLogLevel ERROR\n",
        encoding="utf-8",
    )
    programs = folder / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {find("ssh")} -F {folder}/ssh_config "$@"\n', encoding="utf-8")
    ssh.chmod(0o755)


def serve(folder: Path, name: str, address: str) -> subprocess.Popen[bytes]:
    """Start a host: namespaces, name, ssh server."""
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd wants to be locked up
    config = folder / f"sshd_{name}"
    config.write_text(
        f"ListenAddress {address}\nPort 22\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nLogLevel ERROR\n",
        encoding="utf-8",
    )
    known = folder / "etc_hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in HOSTS)]
    known.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = f"hostname {name} && mount --bind {known} /etc/hosts"
    command += f" && exec {find('sshd')} -D -e -f {config}"
    return subprocess.Popen(
        [
            *(str(find("ip")), "netns", "exec", name),
            *(str(find("unshare")), "--pid", "--fork", "--mount-proc", "--kill-child", "--uts"),
            *("sh", "-c", command),
        ]
    )


def train_and_cut(made: list[Host], results: Path, plots: Path, folder: Path) -> list[str]:
    """Both runs; what did not go as it should."""
    one, two = made
    wait_for(lambda: reachable(one, two, folder), 20, "the ssh servers do not answer")
    listed = f"{one.name}:1,{two.name}:1"
    began = time.time()
    words = [sys.executable, "-m", "bench", "run", str(SUITE), "--hosts", listed]
    words += ["--results", str(results), "--plots", str(plots)]
    words += ["--data_root", str(folder / "data"), "--rerun", "all"]
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(ROOT)
    environment["HOME"] = str(folder)  # Horovod keeps what it found out about hosts there
    sweep = subprocess.Popen(one.inside(*words), env=environment, start_new_session=True)
    logs = results / "two-hosts" / "logs"
    try:
        wait_for(
            lambda: sweep.poll() is not None or in_training(logs, began), 240,
            "the long run does not come to train",
        )  # fmt: skip
        spread = [len(host.ranks()) for host in made]
        run("ip", "-n", two.name, "link", "set", "eth0", "down")
        cut = time.monotonic()
        print(f"two_hosts: the link is cut; ranks on the hosts: {spread}", flush=True)
        sweep.wait(LIMIT_SECONDS + 60)
        ended = time.monotonic() - cut
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not two.ranks(), max(1.0, LIMIT_SECONDS - ended), "")
        gone = time.monotonic() - cut
        left = [host.name for host in made if host.ranks()]
    finally:
        if sweep.poll() is None:
            os.killpg(sweep.pid, signal.SIGTERM)
            sweep.wait(30)
    print(f"two_hosts: the job ended {ended:.0f} s and the far rank {gone:.0f} s after the cut")
    return judged(results / "two-hosts" / "records", spread, ended, left)


def reachable(one: Host, two: Host, folder: Path) -> bool:
    """Whether the first host can run a command on the second."""
    ssh = [str(folder / "bin" / "ssh"), "-o", "StrictHostKeyChecking=no", two.name, "true"]
    try:
        return subprocess.run(one.inside(*ssh), capture_output=True, check=False).returncode == 0
    except (OSError, IndexError):
        return False


def in_training(logs: Path, since: float) -> bool:
    """Whether the long run has trained some epochs."""
    for log in logs.glob("*epochs=1000000*/*.log"):
        if log.stat().st_mtime > since:
            return re.search(r"epoch 2\d/1000000", log.read_text(errors="replace")) is not None
    return False


def judged(records: Path, spread: list[int], ended: float, left: list[str]) -> list[str]:
    """What the stored records and the processes tell."""
    stored = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(records.rglob("*.json"))]
    by_epochs: dict[int, dict[str, Any]] = {}
    for record in sorted(stored, key=lambda r: r["attempt"]):
        by_epochs[record["cell"]["axes"]["epochs"]] = record
    short, long = by_epochs.get(5, {}), by_epochs.get(1_000_000, {})
    failure = long.get("failure") or {}
    print(f"two_hosts: short run: {short.get('status')}; long run: {long.get('status')}: {failure}")
    wrong = []
    if spread != [1, 1]:
        wrong.append(f"{spread} ranks on the hosts instead of one on each")
    if short.get("status") != "ok" or short["run"]["world_size"] != len(HOSTS):
        wrong.append("the short run is not stored as a good run of two ranks")
    if long.get("status") != "crash" or failure.get("rank") != 1:
        wrong.append("the long run is not stored as a crash of rank 1")
    if ended > LIMIT_SECONDS:
        wrong.append(f"the job took {ended:.0f} s to end")
    if left:
        wrong.append(f"ranks are left on {', '.join(left)}")
    return wrong


def wait_for(true: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Poll.

    Raises:
        TimeoutError: it did not become true in time.
    """
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(otherwise)
        time.sleep(0.25)


if __name__ == "__main__":
    sys.exit(main())
