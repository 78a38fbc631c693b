// What the orders share: the place of a draw in an endless sequence of passes over a set.
#pragma once

#include <cstdint>

namespace stoker {

struct PassPlace {
    std::uint64_t pass = 0;
    std::int64_t position = 0;  // in the pass
};

// Draw `draw` of an epoch that draws `per_epoch` times from `size` samples. Epochs are below 2^32 and sizes below 2^62,
// so the product needs more than 64 bits.
inline PassPlace pass_place(std::int64_t epoch, std::int64_t per_epoch, std::int64_t draw, std::int64_t size) {
    __extension__ using Wide = unsigned __int128;
    const Wide all = Wide(epoch) * Wide(per_epoch) + Wide(draw);
    return {static_cast<std::uint64_t>(all / Wide(size)), static_cast<std::int64_t>(all % Wide(size))};
}

// Throws InvalidArgument where `drawn` draws from `size` samples would not fit the 16 bits of an occurrence.
void check_occurrences(std::int64_t drawn, std::int64_t size);

}  // namespace stoker
