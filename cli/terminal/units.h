// Amounts of bytes as people read them.
#pragma once

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace stoker::cli {

// 11010048 as "10.5 MiB".
inline std::string with_unit(std::int64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) {  // 1000, so that four digits never stand
        value /= 1024;
    }
    return fmt::format(fmt::runtime(unit == 0 || value >= 100 ? "{:.0f} {}" : "{:.1f} {}"), value, kUnits[unit]);
}

}  // namespace stoker::cli
