"""Runs layers side by side, as far as their needs and the processors allow, and adds up what they counted."""

import os
import shutil
import sys
import time
from dataclasses import dataclass

from . import logs, sessions

# Most layers sleep a part of their time.
SLOTS = 1 + max(2, os.cpu_count() or 2)


@dataclass
class Result:
    """How a run of a layer ended."""

    passed: int
    failed: int
    seconds: int
    cpu: int
    why: str = ""

    def row(self, name):
        """The line of the summary."""
        counted = f"{self.passed:5} passed {self.failed:3} failed"
        return f"{name:18} {counted} {self.seconds:5} s, {self.cpu:5} s of CPU{self.why and '  ' + self.why}"


def judge(layer, status, text, share):
    """(passed, failed, why) of a layer that ended so. What shows less than it has to is red."""
    counted = logs.counts(text)
    passed, failed = counted or ((1, 0) if status == 0 else (0, 1))
    if failed == 0 and status != 0:
        return passed, 1, f"status {status}"
    if failed == 0 and passed == 0:
        return 0, 1, "no test ran"
    if failed == 0 and share is None and passed < layer.cases:
        return passed, 1, f"of at least {layer.cases} cases"
    return passed, failed, ""


class Run:
    """One run of some layers of the table."""

    def __init__(self, target, layers, names, stop_at_red=False, alone=None, share=None):
        self.target, self.layers, self.stop_at_red, self.alone = target, layers, stop_at_red, alone
        self.logs = os.path.join(target, "test")
        os.makedirs(self.logs, exist_ok=True)
        self.share, self.shared = share, {name for name in names if share and "shares" in layers[name].kinds}
        self.environment = {**os.environ, "target": target}
        self.waiting = sorted(names, key=self._weight(set(names)), reverse=True)
        self.total = len(names)
        self.again = []  # timed layers that failed, each to run once more alone
        self.running, self.begun, self.results = {}, {}, {}
        self.first = {}  # the first results of layers that ran again
        self.not_run = {}
        self.stopped = False
        self.start = time.monotonic()
        self.shown, self.told, self.terminal = 0, -60.0, sys.stdout.isatty()

    def _weight(self, names):
        """The seconds from a layer's start to the end of all that waits for it: the longest begins first."""

        def weight(name):
            after = (other for other in names if name in self.layers[other].layers)
            return self.layers[name].seconds + max(map(weight, after), default=0)

        return weight

    # --- what may start -----------------------------------------------------------------------------------------

    def _failed(self, name):
        return name in self.not_run or (name in self.results and self.results[name].failed > 0)

    def _hindrance(self, name):
        """Why a layer can never start, or nothing."""
        layer = self.layers[name]
        if "root" in layer.resources and os.geteuid() != 0:
            return "needs root"
        return next((f"needs {need}, which failed" for need in layer.layers if self._failed(need)), "")

    def _may_start(self, name):
        layer = self.layers[name]
        if name in self.again and (self.waiting or self.running):
            return False
        if len(self.running) >= SLOTS or any(need not in self.results for need in layer.layers):
            return False
        taken = {it for other in self.running for it in self.layers[other].resources}
        return not taken.intersection(set(layer.resources) - {"root"})

    def _start_some(self):
        for name in [*self.waiting, *self.again]:
            hindrance = self._hindrance(name)
            if hindrance:
                self.waiting.remove(name)
                self.not_run[name] = hindrance
                self._line(f"NOT RUN {name}: {hindrance}")
                # What failed elsewhere counts there, and in CI everything runs.
                if hindrance == "needs root" and os.environ.get("CI"):
                    self._red()
            elif self._may_start(name):
                (self.again if name in self.again else self.waiting).remove(name)
                environment = self.environment
                if name not in self.shared:
                    environment = {key: value for key, value in environment.items() if key != "SHARE"}
                if name == self.alone:
                    print(f"== {name}", flush=True)
                self.running[name] = sessions.start(self.layers[name].run, self._log(name), environment)
                self.begun[name] = time.monotonic()
                self.told = -60.0

    # --- what ended ---------------------------------------------------------------------------------------------

    def _log(self, name):
        return os.path.join(self.logs, f"{name}.log")

    def _read(self, name):
        with open(self._log(name), encoding="utf-8", errors="replace") as opened:
            return opened.read()

    def _ended(self, name, status, cpu):
        process = self.running.pop(name)
        sessions.end([process])  # what a failed test left, a stopped process perhaps
        layer, text = self.layers[name], self._read(name)
        seconds = round(time.monotonic() - self.begun[name])
        passed, failed, why = judge(layer, status, text, self.share)
        result = Result(passed, failed, seconds, round(cpu), why)
        if failed == 0:
            self.results[name] = result
            self._line(f"passed  {result.row(name)}")
            return
        self._line(f"FAILED  {result.row(name)}")
        if name != self.alone:
            tail = [line for line in text.rstrip("\n").split("\n")[-60:] if not line.lstrip().startswith("alone: ")]
            print("".join(f"    {line}\n" for line in tail), end="")
        log = self._log(name)
        if "timed" in layer.kinds and name not in self.first:
            log = shutil.move(log, f"{log}.first")
            self.first[name] = result
            self.again.append(name)
        else:
            self.results[name] = result
            self._red()
        print(f"    all of it: {log}")
        print("".join(f"    alone: {command}\n" for command in logs.cases_alone(text)), end="", flush=True)
        if name in self.again:
            self._line(f"{name}: its verdict can hang on time, so it runs once more, alone, when the others have ended")

    def _red(self):
        if self.stop_at_red and not self.stopped:
            self.stopped = True
            self._line(f"stops at the first failure; ending {', '.join(self.running) or 'nothing'}")
            self.interrupted()
            for name in [*self.running, *self.waiting]:
                self.not_run[name] = "stopped before its end"
            self.running, self.waiting = {}, []
            # A layer that failed once and did not run again has failed.
            self.again = []

    def interrupted(self):
        """Ends all that runs."""
        sessions.end(self.running.values())

    # --- for who watches ----------------------------------------------------------------------------------------

    def _line(self, text):
        if self.terminal:
            print("\r\033[K", end="")
        print(text, flush=True)

    def _remaining(self):
        """About how many seconds are left: no fewer than the guests one behind the other, nor than all in their slots.

        They are more by what the layers until now took more than the table says.
        """
        now, guests, everything = time.monotonic(), 0.0, 0.0
        for name in [*self.running, *self.waiting, *self.again]:
            gone = now - self.begun[name] if name in self.running else 0
            rest = max(1, self.layers[name].seconds - gone)
            everything += rest
            guests += rest if "guest" in self.layers[name].resources else 0
        spent = sum(result.seconds for result in self.results.values())
        promised = sum(self.layers[name].seconds for name in self.results)
        return round(max(guests, everything / SLOTS) * max(1, spent / promised if promised else 1))

    def _tell(self):
        if self.alone and list(self.running) == [self.alone]:
            with open(self._log(self.alone), "rb") as opened:
                opened.seek(self.shown)
                text = opened.read()
            self.shown += len(text)
            sys.stdout.write(text.decode(errors="replace"))
            sys.stdout.flush()
            return
        now = time.monotonic()
        if now - self.told < (1 if self.terminal else 30):
            return
        self.told = now
        done = len(self.results) + len(self.not_run)
        text = f"{done} of {self.total} layers, {round(now - self.start)} s, about {self._remaining()} s left; running:"
        for name in self.running:
            text += f" {name} ({round(now - self.begun[name])} of {self.layers[name].seconds} s)"
        if self.terminal:
            print("\r\033[K" + text[: shutil.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(text, flush=True)

    # --- the whole ----------------------------------------------------------------------------------------------

    def run(self):
        """Runs them all; whether all is well."""
        while self.waiting or self.running or self.again:
            self._start_some()
            time.sleep(0.2)
            self._tell()
            for name, process in list(self.running.items()):
                end = sessions.ended(process)
                if end:
                    self._tell()
                    self._ended(name, *end)
                    if self.stopped:
                        break
                elif time.monotonic() - self.begun[name] > 1200 + 5 * self.layers[name].seconds:
                    with open(self._log(name), "a", encoding="utf-8") as opened:
                        opened.write(f"no end after {round(time.monotonic() - self.begun[name])} s\n")
                    sessions.end([process])
        return self._summary()

    def _summary(self):
        for name in self.first:
            self.results.setdefault(name, self.first[name])
        rows = [self.results[name].row(name) for name in self.layers if name in self.results]
        rows += [f"{name:18} not run: {why}" for name, why in self.not_run.items()]
        for name, result in self.first.items():
            if self.results[name] is result:
                then = "did not run again"
            else:
                then = "passed alone" if self.results[name].failed == 0 else "failed alone, too"
            rows.append(f"finding: {name} failed at first ({result.passed} passed, {result.failed} failed) and {then}")
        passed = sum(result.passed for result in self.results.values())
        # Where nothing else failed, what could not run has.
        failed = sum(result.failed for result in self.results.values())
        if os.environ.get("CI"):
            failed += sum(why == "needs root" for why in self.not_run.values())
        rows.append(f"{round(time.monotonic() - self.start)} s")
        rows.append(f"{passed} passed, {failed} failed")
        with open(os.path.join(self.logs, "summary.txt"), "w", encoding="utf-8") as opened:
            opened.write("".join(row + "\n" for row in rows))
        self._line("== summary")
        print("\n".join(rows[:-1]))
        red = [name for name, result in self.results.items() if result.failed]
        if red:
            print(f"failed; again: scripts/test {' '.join(red)}")
        print(rows[-1], flush=True)
        return failed == 0
