// Sizes come from files: sums stop at the largest number.
#include "stoker/formats/part_budget.h"

#include <algorithm>
#include <limits>

#include "stoker/base/memory_limit.h"

namespace stoker {

void PartSizes::add_pieces(std::uint64_t bytes, std::uint64_t most) {
    decoded += std::min(bytes, std::numeric_limits<std::uint64_t>::max() - decoded);
    largest = std::max(largest, std::min(bytes, most));
}

PartBudget part_budget(const PartSizes& sizes, std::uint64_t least) {
    // A window begins and ends within a part.
    const double growth =
        static_cast<double>(sizes.decoded) / static_cast<double>(std::max<std::uint64_t>(sizes.stored, 1));
    const double windows = 2 * (static_cast<double>(kWindowBytes) * growth + static_cast<double>(sizes.largest));
    const double needed = std::min(windows, static_cast<double>(sizes.decoded));
    const double most = static_cast<double>(memory_limit().total / 4);
    return {.bytes = static_cast<std::uint64_t>(std::min(most, std::max(static_cast<double>(least), needed))),
            .short_of_windows = needed > most};
}

}  // namespace stoker
