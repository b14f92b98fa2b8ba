"""Fuzz the code that reads foreign input: records, log lines, dumps, attachments.

python -m tests.fuzz [TARGET…] [--minutes 60] [--keep]

Findings are written to .cache/fuzz/TARGET/findings, one for each place in the code. `--keep` rebuilds tests/fuzz/corpus
from the inputs found.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache" / "fuzz"
CORPUS = Path(__file__).parent / "corpus"
GUIDED = ("clienthealth.read", "clienthealth.diagnose.attachments")
JUDGING = ("clienthealth.measure", "clienthealth.modes", "clienthealth.monitor")
TARGETS = ("records", "texts", "attachments", "lives")
MAX_MB = 1500
MAX_CPU_SECONDS, MAX_SECONDS = 10.0, 1200
#: Texts to repeat. Many repetitions slow down a regular expression that searches in vain for a closing text.
PIECES = (
    *(
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"(",
        b"[",
        b"{",
        b'"',
        b"\\",
        b"\\n",
        b"a",
        b"1",
        b"a.",
        b":",
        b"=",
        b"|",
        b"-",
        b"`",
    ),
    *(b"at ", b" at a.b(", b", ", b"> ", b"<a ", b"&lt;", b"\xc2\xa0", b"\x1b[", b"\n\n", b"clientId=", b"-1-"),
)
#: If an input of LONG bytes takes more than SLOW_SECONDS, an input of twice the length is tried. The longer input is
#: too slow if it takes more than GROWTH times as long as the shorter input.
LONG, SLOW_SECONDS, GROWTH = 100_000, 1.0, 2.8
CORPUS_BYTES, LONGEST_KEPT = 120_000, 1_500
_KNOWN: set[tuple[str, str, int | None]] = set()


def fuzz(target: str) -> None:
    import atheris

    jobs = ROOT / "jobs"
    modules = [".".join(file.relative_to(jobs).with_suffix("").parts) for file in jobs.rglob("*.py")]
    guided = (*GUIDED, *JUDGING) if target == "lives" else GUIDED
    others = [name.removesuffix(".__init__") for name in modules if not name.startswith(guided)]
    with atheris.instrument_imports(include=["clienthealth"], exclude=others):
        from tests.fuzz import targets

        targets.warm()
    from tests.support.mutations import altered

    def one(data: bytes) -> None:
        if (seconds := hold(target, data)) > MAX_CPU_SECONDS:
            found(target, data, f"{seconds:.1f} s for {len(data)} bytes")

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if data[2:3] in (b"{", b"[") and dice.random() < 0.4:
            try:
                return data[:2] + json.dumps(altered(dice, json.loads(data[2:]))).encode()[: most - 2]
            except (ValueError, RecursionError):
                pass
        if dice.random() < 0.02:
            return blown_up(dice, data, most - len(data))
        return bytes(atheris.Mutate(data, most))

    with targets.nothing_hidden():
        atheris.Setup([sys.argv[0], *sys.argv[3:]], one, custom_mutator=mutated)
        atheris.Fuzz()


def hold(target: str, data: bytes) -> float:
    from tests.fuzz import targets

    begin = time.process_time()
    try:
        targets.holds(targets.TARGETS[target], data)
    except (Exception, targets.MistakeError) as mistake:  # noqa: BLE001 - whatever it is, it is a finding
        frames = traceback.extract_tb((mistake.__cause__ or mistake).__traceback__)
        own = [frame for frame in frames if "/clienthealth" in frame.filename or "/targets.py" in frame.filename]
        place = type(mistake.__cause__ or mistake).__name__, own[-1].filename, own[-1].lineno
        if place not in _KNOWN:
            _KNOWN.add(place)
            found(target, data, "".join(traceback.format_exception(mistake)))
    return time.process_time() - begin


def blown_up(dice: random.Random, data: bytes, more: int) -> bytes:
    at = dice.randrange(min(2, len(data)), len(data) + 1)
    piece = dice.choice(PIECES) if dice.random() < 0.6 else data[at : at + dice.randint(1, 20)] or b"x"
    return data[:at] + piece * max(0, more // len(piece)) + data[at:]


def found(target: str, data: bytes, why: str) -> None:
    folder = WORK / target / "findings"
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.txt")))
    (folder / f"{number}.bin").write_bytes(data)
    (folder / f"{number}.txt").write_text(why, encoding="utf-8", errors="replace")
    print(f"FOUND {target} {number}: {why.strip().splitlines()[-1][:300]}", flush=True)


def run(target: str, seconds: float) -> None:
    from tests.fuzz import targets

    corpus = WORK / target / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(targets.TARGETS[target].seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    for number, data in enumerate(kept(target)):
        (corpus / f"kept-{number}").write_bytes(data)
    end = time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 0:
        options = [f"-max_total_time={left}", f"-rss_limit_mb={MAX_MB}", f"-timeout={MAX_SECONDS}"]
        options += [f"-report_slow_units={MAX_SECONDS}"]
        options += [f"-max_len={targets.TARGETS[target].longest}", f"-artifact_prefix={WORK / target}/ended-"]
        command = [sys.executable, "-m", "tests.fuzz", "--of", target, *options, str(corpus)]
        with (WORK / target / "log").open("a") as log:
            code = subprocess.run(command, cwd=ROOT, stderr=log, check=False).returncode
        if code != 0:
            ended = sorted((WORK / target).glob("ended-*"))
            for file in ended:
                found(target, file.read_bytes(), f"it ended the process: {file.name}")
                file.unlink()
            if not ended:
                sys.exit(f"the fuzzer ended with {code}: {WORK / target / 'log'}")


def kept(target: str) -> Iterator[bytes]:
    file = CORPUS / f"{target}.zip"
    if file.exists():
        with zipfile.ZipFile(file) as archive:
            yield from map(archive.read, archive.namelist())


def keep(target: str) -> None:
    files = sorted(file for file in (WORK / target / "corpus").iterdir() if not file.name.startswith("seed-"))
    short = [data for file in files if len(data := file.read_bytes()) <= LONGEST_KEPT]
    random.Random(target).shuffle(short)
    left = CORPUS_BYTES // len(TARGETS)
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(CORPUS / f"{target}.zip", "w") as archive:
        for number, data in enumerate(short):
            left -= len(data)
            if left >= 0:
                archive.writestr(zipfile.ZipInfo(f"{number:04}"), data, zipfile.ZIP_DEFLATED, 9)


def time_long_inputs(target: str, seconds: float) -> None:
    from tests.fuzz import targets

    dice = random.Random(target)
    inputs = [*targets.TARGETS[target].seeds(), *kept(target)]
    dice.shuffle(inputs)
    end = time.monotonic() + seconds
    with targets.nothing_hidden():
        for data in inputs:
            if time.monotonic() > end:
                return
            state = dice.getstate()
            once = hold(target, blown_up(dice, data, LONG))
            if once > SLOW_SECONDS:
                dice.setstate(state)
                longer = blown_up(dice, data, 2 * LONG)
                twice = hold(target, longer)
                if twice > GROWTH * once:
                    found(target, longer, f"{once:.1f} s, and for twice as many bytes {twice:.1f} s")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="targets to fuzz (default: all)")
    parser.add_argument("--minutes", type=float, default=60, help="total duration of all targets (default: 60)")
    parser.add_argument("--keep", action="store_true", help="rebuild the corpus in the repository")
    given = parser.parse_args(arguments)
    chosen = given.targets or TARGETS
    for target in chosen:
        share = given.minutes * 60 / len(chosen)
        print(f"{target}: {share / 60:.1f} minutes", flush=True)
        run(target, 0.9 * share)
        time_long_inputs(target, 0.1 * share)
        if given.keep:
            keep(target)
    listed = sorted(WORK.glob("*/findings/*.txt"))
    print(*listed, f"{len(listed)} findings", sep="\n")
    return 1 if listed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of"]:
        fuzz(sys.argv[2])
    sys.exit(main(sys.argv[1:]))
