// Places at which the entropy-coded data of a baseline JPEG can be entered: bit positions and DC predictors of some
// MCUs. They are a by-product of decoding, and let a later one begin at a crop and decode several pieces in turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stoker {

struct EntryPoint {
    std::uint32_t byte = 0;            // of the file, behind its header: the one with the next bit
    std::uint8_t bit = 0;              // in this byte: 0 is the most significant
    std::array<std::int16_t, 3> dc{};  // of each component's last block before

    bool operator==(const EntryPoint&) const = default;
};

// Points at every `step` MCUs of a row, for the first rows, and one behind them. Empty: none are known.
struct EntryPoints {
    std::uint32_t step = 0;
    std::vector<EntryPoint> points;

    bool operator==(const EntryPoints&) const = default;
};

// The points of an image: those that are known, and as many as a decoder learns. Points of other bytes, or damaged
// ones, are noticed and dropped almost always, but not always; with those that stay the pixels may be wrong.
struct EntryPointSlot {
    EntryPoints known;
    bool complete = false;  // if some are known, and a region needs more, all are found
    bool grown = false;     // the last decoding changed them
};

// Appends the points in 5 to 8 bytes each: differences from the point before, as numbers of 7 bits a byte.
void pack_points(const EntryPoints& points, std::vector<std::byte>& out);

// Empty for bytes that pack_points does not write. Allocates at most three times their size.
std::optional<EntryPoints> unpack_points(std::span<const std::byte> bytes);

}  // namespace stoker
