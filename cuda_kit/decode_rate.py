"""Images that a GPU decodes in a second, and what they take of PCIe: decode_rate.py TRAIN.json PIPELINE.json

The first is the document of `stoker train`, the second that of `stoker bench pipeline --decode-on device`.
"""

import json
import sys
from pathlib import Path

LANE_GB = {3: 0.985, 4: 1.969, 5: 3.938}  # GB/s of one lane


def last_document(path):
    text = Path(path).read_text()
    return json.loads(text[text.index("\n{") if "\n{" in text else text.index("{") :])


def main(train, pipeline):
    images = last_document(train)["epochs"][-1]["images_per_second"]
    each = last_document(pipeline)["bytes_per_image"]
    print(f"{images:,.0f} images/s of {each:,.0f} bytes: {images * each / 1e9:.2f} GB/s over PCIe")
    for generation, lane in LANE_GB.items():
        print(f"  {images * each / 1e9 / (16 * lane):.1%} of PCIe {generation}.0 x16")


if __name__ == "__main__":
    main(*sys.argv[1:])
