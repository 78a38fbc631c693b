"""The comparison as a Markdown table and as a picture (SVG)."""

from __future__ import annotations

from html import escape

COLUMNS = [
    "pipeline", "images/s", "spread", "against the first", "CPU s per 1,000", "first batch", "peak memory", "on disk",
    "how it is set",
]


def in_unit(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def table(results: list[dict]) -> str:
    """One table a number of workers; `results` as compare.py collects them."""
    lines = []
    for workers in sorted({result["workers"] for result in results}):
        chosen = [result for result in results if result["workers"] == workers]
        lines += [f"### {workers} worker{'s' if workers > 1 else ''}", ""]
        lines += ["| " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * (len(COLUMNS) - 2) + "|---|"]
        for result in chosen:
            cells = [
                result["name"],
                f"{result['images_per_second']:,.0f}",
                f"{100 * result['spread']:.0f} %",
                f"{result['images_per_second'] / chosen[0]['images_per_second']:.2f}x",
                f"{result['cpu_seconds_per_1000']:.2f}",
                f"{result['first_batch_ms']:,.0f} ms",
                f"{result['peak_mb']:,.0f} MiB",
                in_unit(result["bytes_on_disk"]),
                result["setting"],
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def skipped_list(skipped: list[dict]) -> str:
    return "".join(f"skipped: {entry['name']}: {entry['reason']}\n" for entry in skipped)


ROW, LEFT, WIDTH, RIGHT, TOP = 24, 190, 460, 70, 64
OURS, PEERS = "#d9480f", "#748ffc"


def plot(results: list[dict]) -> str:
    """Bars of images/s at the largest number of workers, ours in another colour, with a legend."""
    workers = max(result["workers"] for result in results)
    chosen = sorted(
        (result for result in results if result["workers"] == workers), key=lambda result: result["images_per_second"]
    )
    most = chosen[-1]["images_per_second"]
    height = TOP + ROW * len(chosen) + 12
    title = f"JPEG to float32 batches of 224 x 224, {workers} worker{'s' if workers > 1 else ''}: images/s"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="26" font-size="15">{escape(title)}</text>',
    ]
    for x, colour, name in ((LEFT, OURS, "Stoker"), (LEFT + 90, PEERS, "other systems")):
        lines += [
            f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>',
            f'<text x="{x + 18}" y="49">{name}</text>',
        ]
    for row, result in enumerate(chosen):
        y = TOP + ROW * row
        bar = WIDTH * result["images_per_second"] / most
        colour = OURS if result["name"].startswith("Stoker") else PEERS
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(result["name"])}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{bar:.1f}" height="{ROW - 6}" fill="{colour}"/>',
            f'<text x="{LEFT + bar + 6:.1f}" y="{y + 15}">{result["images_per_second"]:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
