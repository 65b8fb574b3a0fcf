"""What the reports of this folder share: who counted where, and a table between two marks of a document."""

import datetime
import json
import os
import platform
import signal
import subprocess


def run(words, patience, **more):
    """Runs a command in a group of its own, which ends with it whatever happens; no exit code when it took too long."""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        out, err = child.communicate(timeout=patience)
        return subprocess.CompletedProcess(words, child.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
    try:
        out, err = child.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
    return subprocess.CompletedProcess(words, None, out, err)


def now():
    """The time, for the record."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def counted():
    """`on 2026-11-16 on 2 virtual cores, Debian GNU/Linux 12 (bookworm)`."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            facts = dict(line.strip().split("=", 1) for line in file if "=" in line)
        system = facts.get("PRETTY_NAME", "").strip('"')
    except OSError:
        system = platform.system()
    return f"on {datetime.date.today().isoformat()} on {os.cpu_count()} virtual cores, {system}"


def put_between(path, begin, end, text):
    """Puts `text` between the marks of a document; raises ValueError when it has none."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    if begin not in whole or end not in whole:
        raise ValueError(f"{path} has no marks")
    before, rest = whole.split(begin, 1)
    after = rest.split(end, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def known(files, is_wanted):
    """Results that were written before, of the files that are there, by case: the last one of each that is wanted."""
    results = {}
    for name in filter(None, files):
        if os.path.exists(name):
            with open(name) as file:
                results |= {one["case"]: one for one in map(json.loads, file) if is_wanted(one)}
    return results
