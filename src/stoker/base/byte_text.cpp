#include "stoker/base/byte_text.h"

#include <array>
#include <fmt/format.h>

namespace stoker {

std::string byte_text(std::int64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) {  // 1000, so that no number has four digits
        value /= 1024;
    }
    return fmt::format(fmt::runtime(unit == 0 || value >= 100 ? "{:.0f} {}" : "{:.1f} {}"), value, kUnits[unit]);
}

}  // namespace stoker
