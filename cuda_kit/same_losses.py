"""Compares the epochs' losses of two documents of `stoker train --json`: same_losses.py ONE.json OTHER.json

Ends with an error where two losses differ by more than a thousandth: the sums over ranks round otherwise.
"""

import math
import sys

from decode_rate import last_document

TOLERANCE = 1e-3


def main(one, other):
    pairs = [
        (mine[key], theirs[key])
        for mine, theirs in zip(last_document(one)["epochs"], last_document(other)["epochs"], strict=True)
        for key in ("train_loss", "val_loss")
    ]
    print("\n".join(f"{mine:.6f} {theirs:.6f}" for mine, theirs in pairs))
    sys.exit(0 if pairs and all(math.isclose(*pair, rel_tol=TOLERANCE) for pair in pairs) else "losses differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
