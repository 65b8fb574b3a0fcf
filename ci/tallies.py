"""What the reports of this folder share: who counted where, and a table between two marks of a document."""

import datetime
import os
import platform


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
