// Inverse DCTs to 4 x 4, 2 x 2 or 1 x 1 samples per block: they decode an image at 1/2, 1/4 or 1/8 of its size, and the
// cost falls with the number of samples. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// `count` blocks (count, 8, 8), quantised, natural order, to `side` rows of side * count samples; side is 1, 2 or 4.
// Transforms each block's lowest side x side frequencies with the inverse DCT of that size, which is an ideal low-pass
// filter: the higher frequencies are dropped.
void scaled_inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int side, int count, std::uint8_t* out,
                        std::ptrdiff_t stride);

}  // namespace stoker
