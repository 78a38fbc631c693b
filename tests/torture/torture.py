# The attacks that take minutes, as one command: `./dev torture [--seed N] [--kills N] [--only ATTACK[:CASE]]`. Prints a
# table of the attacks and their survivors; --markdown writes it for docs/reliability.md. Ends with 1 if a case failed.
import argparse
import random
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("torture", "python", "support")]

from attack import run_attack
from cut import cut_attacks
from disk import disk_attacks
from files import file_attacks
from hosts import host_attacks
from kills import kill_attacks
from memory import memory_attacks
from servers import BEHAVIOURS, server_attacks


def all_attacks(kills, share=1.0):
    """`share` scales the counts of all attacks except kills."""
    some = lambda count: max(1, round(share * count))
    return [
        *kill_attacks(kills),
        *disk_attacks(some(40)),
        *server_attacks(some(len(BEHAVIOURS))),
        *file_attacks(some(600)),
        *cut_attacks(some(20)),
        *memory_attacks(some(12)),
        *host_attacks(some(30)),
    ]


def read_arguments(words):
    parser = argparse.ArgumentParser(prog="./dev torture", description="attacks the program and counts what survives")
    parser.add_argument("--seed", type=int, help="of all random choices; default: another one each time")
    parser.add_argument("--kills", type=int, default=200, help="kills of pack and train (200)")
    parser.add_argument("--share", type=float, default=1.0, help="of the other attacks' cases (1.0)")
    parser.add_argument("--only", help="attacks, or cases of them: kill-train, or hostile-file:17,cut-file:0")
    parser.add_argument("--markdown", type=Path, help="writes the table into this file")
    return parser, parser.parse_args(words)


def rows(outcomes):
    for outcome in outcomes:
        survived = f"skipped: {outcome.skipped}" if outcome.skipped else str(outcome.survived)
        yield outcome.attack.name, str(outcome.tried), survived, outcome.attack.means


def markdown(outcomes):
    lines = ["| attack | tried | survived | what survived means |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| `{name}` | " + " | ".join(rest) + " |" for name, *rest in rows(outcomes)]) + "\n"


def main(words):
    parser, options = read_arguments(words)
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    attacks = all_attacks(options.kills, options.share)
    cases = {attack.name: [] for attack in attacks}
    only = [word.partition(":") for word in (options.only or "").split(",") if word]
    for name, colon, case in only:
        if name not in cases or (colon and not case.isdigit()):
            parser.error(f"--only: expected one of {', '.join(cases)}, or one of them with :CASE, got {name}{colon}{case}")
        cases[name] += [int(case)] if colon else []
    attacks = [attack for attack in attacks if not only or attack.name in [name for name, *_ in only]]
    print(f"torture: seed {seed}", flush=True)
    outcomes = []
    for attack in attacks:
        begin = time.monotonic()
        outcome = run_attack(attack, seed, cases[attack.name])
        outcomes.append(outcome)
        state = f"skipped: {outcome.skipped}" if outcome.skipped else f"{outcome.survived} of {outcome.tried} survived"
        print(f"{attack.name:15} {state}, {time.monotonic() - begin:.0f} s", flush=True)
        for number, reason in outcome.failures:
            print(f"  {attack.name}:{number}  {reason}")
            print(f"    again: ./dev torture --seed {seed} --only {attack.name}:{number}", flush=True)
    print("\n" + markdown(outcomes), end="")
    if options.markdown:
        options.markdown.write_text(markdown(outcomes))
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
