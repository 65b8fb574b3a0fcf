"""Labs that the reports of this folder draw, build and break: a fabric in a box, its cables, and what railgauge said about it."""

import json
import os
import tomllib

import tallies

# What two cores can carry at a time, in Mbit/s, by the size of frames.
CARRIED = {1500: 800, 9000: 1600}


class Lab:
    """A lab by its name."""

    def __init__(self, program, name):
        self.program, self.name = program, name

    def __call__(self, word, *words, patience=60):
        return tallies.run([self.program, "lab", word, "--name", self.name, *words], patience)

    def up(self, drawn):
        """Builds it as drawn; the problem, if there is one."""
        made = self("up", f"{drawn['hosts']}x{drawn['rails']}", "--leaves", str(drawn["leaves"]), "--spines", str(drawn["spines"]), "--trunk", str(drawn["trunk"]),
                    "--rate", f"{drawn['rate']}mbit", "--mtu", str(drawn["mtu"]), "--seed", str(drawn["seed"]))
        return made.stderr.strip() if made.returncode != 0 else None

    def topology(self):
        return tomllib.loads(self("topology").stdout)

    def fault(self, faults):
        """Injects faults; the problem, if there is one."""
        done = self("fault", *faults) if faults else None
        return done.stderr.strip() if done and done.returncode != 0 else None


def links_of(topology):
    """Every cable: name, lower and upper port, rail, whether one end is a host."""
    hosts = {host["name"] for host in topology["host"]}
    tiers = {switch["name"]: switch["tier"] for switch in topology["switch"]}
    height = lambda port: {"leaf": 1, "spine": 2, "core": 3}.get(tiers.get(port.split("/")[0]), 0)
    found = []
    for link in topology["link"]:
        low, high = sorted(link["ends"], key=height)
        found.append({"cable": link["name"], "low": low, "high": high, "rail": link["rail"], "is_host": low.split("/")[0] in hosts})
    return found


def node(port):
    return port.split("/")[0]


def read_findings(folder, problem):
    try:
        with open(os.path.join(folder, "findings.json")) as file:
            findings = json.load(file)["findings"]
    except (OSError, ValueError, KeyError) as error:
        return {"findings": [], "problem": f"{error}; {problem.strip()[-400:]}"}
    short = lambda one: {"part": one["part"], "confidence": round(one["confidence"], 3)}
    return {"findings": [{"kind": one["kind"], "place": one["place"], "sentence": one["sentence"],
                          "suspects": [short(suspect) for suspect in one.get("suspects", [])[:8]]} for one in findings]}
