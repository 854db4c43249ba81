"""Fuzzes what reads savepoints, and says what it found: `make fuzz`, or `python tests/fuzz/run_fuzz.py --help`.

Two engines: `atheris`, which is guided by coverage (there are wheels of it for Linux on x86-64), and `chance`, random
mutations of the same inputs, which needs nothing. Each target runs in a process of its own, which the fuzzer owns.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "fuzz"
LARGEST_INPUT = 1 << 17
HANGING_SECONDS = 60  # of wall time, for what no Python signal interrupts
PATIENCE_SECONDS = 120
WARMING = 20
MIXED = "all"


def main() -> int:
    """Run one target in this process, or all in processes of their own."""
    options = _options()
    sys.stdout.reconfigure(errors="backslashreplace")  # an input may hold half a surrogate pair
    if options.worker:
        _work(options)
        return 0
    return _conduct(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="of wall time, for all targets together")
    parser.add_argument("--runs", type=int, default=0, help="inputs of each target, instead of a time")
    parser.add_argument("--targets", default="", help="some of them, with commas; all: one process that mixes them")
    parser.add_argument("--engine", choices=["atheris", "chance"], default=_best_engine())
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--seeds-each", type=int, default=0, help="how many of a target's seeds to use; 0: all")
    parser.add_argument("--folder", type=Path, default=CACHE, help="for corpus, findings and logs")
    parser.add_argument("--replay", type=Path, help="run this one input of --targets, with the traceback")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _best_engine() -> str:
    return "atheris" if importlib.util.find_spec("atheris") else "chance"


# ── one target, in this process ──────────────────────────────────────────────────────────────────────────────────────


def _work(options: argparse.Namespace) -> None:
    until = time.monotonic() + options.seconds
    if options.engine == "atheris":
        import atheris

        os.environ["STATESHIFT_EXECUTOR"] = "objects"  # what is traced cannot be compiled
        with atheris.instrument_imports(include=["stateshift"]):
            import targets
    else:
        import targets
    from watch import Watch, limit_memory

    target = targets.mixed(options.seeds_each) if options.worker == MIXED else targets.TARGETS[options.worker]
    watch = Watch(target, options.folder)
    seeds = targets.few(target.seeds(), options.seeds_each if options.worker != MIXED else 0)
    for seed in targets.few(seeds, WARMING):
        watch.run(seed)  # libraries are loaded, and caches filled, before memory is limited
    limit_memory()
    run = _guided if options.engine == "atheris" else _by_chance
    run(options, target, watch, seeds, until)


def _by_chance(options: argparse.Namespace, target, watch, seeds, until: float) -> None:
    import mutation
    from seeds import words

    rng = random.Random(options.seed or None)  # noqa: S311 - nothing is kept secret
    change = mutation.by_chance(rng, words(), seeds)
    while watch.executions < options.runs if options.runs else time.monotonic() < until:
        watch.run(mutation.mutate(rng.choice(seeds), rng, target.apart, change, LARGEST_INPUT))
    watch.report()


def _guided(options: argparse.Namespace, target, watch, seeds, until: float) -> None:
    import atheris
    import mutation
    from seeds import words

    corpus, begin = options.folder / "corpus", Path(tempfile.mkdtemp(prefix="stateshift-seeds-"))
    corpus.mkdir(exist_ok=True)
    for at, seed in enumerate(seeds):
        (begin / f"{at:05}").write_bytes(seed)
    dictionary = begin.with_suffix(".dict")
    quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in words())
    dictionary.write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")

    def mutator(data: bytes, limit: int, seed: int) -> bytes:
        def change(part: bytes) -> bytes:
            return atheris.Mutate(part, max(len(part) + 64, 64))

        rng = random.Random(seed)  # noqa: S311 - the fuzzer asks for the same by the same seed
        return mutation.mutate(data, rng, target.apart, change, limit)

    left = max(int(until - time.monotonic()), 1)
    how_long = f"-runs={options.runs}" if options.runs else f"-max_total_time={left}"
    arguments = [
        sys.argv[0], how_long, f"-seed={options.seed}", f"-max_len={LARGEST_INPUT}", "-len_control=0",
        f"-timeout={HANGING_SECONDS}", "-rss_limit_mb=3072", "-print_final_stats=1", f"-dict={dictionary}",
        f"-artifact_prefix={options.folder}/", str(corpus), str(begin),
    ]  # fmt: skip
    atheris.Setup(arguments, watch.run, custom_mutator=mutator)
    atheris.Fuzz()


# ── all targets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _conduct(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(HERE))
    import targets

    names = options.targets.split(",") if options.targets else list(targets.TARGETS)
    if options.replay:
        target = targets.mixed(0) if names == [MIXED] else targets.TARGETS[names[0]]
        target.run(options.replay.read_bytes())
        return 0
    shares = {name: targets.TARGETS[name].share if name in targets.TARGETS else 1 for name in names}
    each = options.seconds * min(options.jobs, len(names)) / sum(shares.values())
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        longest_first = sorted(names, key=lambda name: -shares[name])
        reports = list(pool.map(lambda name: _fuzz(options, name, each * shares[name]), longest_first))
    return _summarize(options, reports, time.monotonic() - started)


def _fuzz(options: argparse.Namespace, name: str, seconds: float) -> dict:
    """Fuzz a target for its time; a process that a finding has ended is started again."""
    folder = options.folder / name
    for old in (file for file in folder.glob("*") if file.is_file()):
        old.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    total = {"target": name, "executions": 0, "findings": {}}
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 1 or not total["executions"]:
        ended = _process(options, name, folder, max(left, 1))
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        total["executions"] += report["executions"]
        total["findings"] |= report["findings"]
        if not ended:
            break
        total["findings"][ended] = {"error": f"its last words: {folder / 'log.txt'}", "size": -1, "file": ""}
        if options.runs:
            break
    return total


def _process(options: argparse.Namespace, name: str, folder: Path, seconds: float) -> str:
    """Run one process; give how it ended, or "" where all is well."""
    (folder / "report.json").write_text('{"executions": 0, "findings": {}}', encoding="utf-8")
    command = [
        sys.executable, str(Path(__file__)), "--worker", name, "--engine", options.engine, "--seed", str(options.seed),
        "--seconds", str(seconds), "--runs", str(options.runs), "--folder", str(folder),
        "--seeds-each", str(options.seeds_each),
    ]  # fmt: skip
    temporary = tempfile.mkdtemp(prefix="stateshift-fuzz-")
    try:
        with (folder / "log.txt").open("ab") as log:
            environment = os.environ | {"PYTHONHASHSEED": "0", "TMPDIR": temporary}
            ended = subprocess.run(
                command, stdout=log, stderr=log, env=environment, timeout=seconds + PATIENCE_SECONDS, check=False
            ).returncode
    except subprocess.TimeoutExpired:
        return "the process did not end"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return f"the process ended with status {ended}" if ended else ""


def _summarize(options: argparse.Namespace, reports: list[dict], seconds: float) -> int:
    found = 0
    print(f"{'target':<12}{'executions':>12}{'findings':>10}")
    for report in reports:
        found += len(report["findings"])
        print(f"{report['target']:<12}{report['executions']:>12,}{len(report['findings']):>10}")
    executions = sum(report["executions"] for report in reports)
    print(f"{'together':<12}{executions:>12,}{found:>10}   in {seconds:.0f} s, engine {options.engine}")
    for report in reports:
        for place, facts in report["findings"].items():
            print(f"\n{report['target']}: {place}\n  {facts['error']}")
            if facts["size"] >= 0:
                print(f"  input: {facts['file']} ({facts['size']} bytes)")
    if found:
        print("\nSee one again: python tests/fuzz/run_fuzz.py --targets TARGET --replay INPUT")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
