// Packed points: step, number of points, then for each the distance in bits and the differences of the DCs (zigzag).
#include "stoker/codecs/jpeg/entry_points.h"

#include <limits>

namespace stoker {
namespace {

constexpr std::size_t kLeastPointBytes = 4;  // one for the distance, one for each DC

void put(std::uint64_t number, std::vector<std::byte>& out) {
    for (; number >= 0x80; number >>= 7) {
        out.push_back(static_cast<std::byte>(number | 0x80));
    }
    out.push_back(static_cast<std::byte>(number));
}

// Sets `bytes` behind the number. Empty if they end before.
std::optional<std::uint64_t> take(std::span<const std::byte>& bytes) {
    std::uint64_t number = 0;
    for (unsigned shift = 0; !bytes.empty() && shift < 63; shift += 7) {
        const auto byte = std::to_integer<std::uint64_t>(bytes.front());
        bytes = bytes.subspan(1);
        number |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            return number;
        }
    }
    return std::nullopt;
}

std::uint64_t zigzag(int number) {
    const auto bits = static_cast<std::uint32_t>(number);
    return (bits << 1) ^ (number < 0 ? ~std::uint32_t{0} : 0);
}

std::int64_t unzigzag(std::uint64_t number) {
    return static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1);
}

// Moves `at` to the next point. False for bytes that cannot be one.
bool take_point(std::span<const std::byte>& bytes, std::uint64_t& at, EntryPoint& point) {
    const std::optional<std::uint64_t> distance = take(bytes);
    if (!distance || *distance > std::numeric_limits<std::uint32_t>::max() * std::uint64_t{8}) {
        return false;
    }
    at += *distance;
    if (at / 8 > std::numeric_limits<std::uint32_t>::max()) {
        return false;
    }
    point.byte = static_cast<std::uint32_t>(at / 8);
    point.bit = static_cast<std::uint8_t>(at % 8);
    for (std::int16_t& dc : point.dc) {
        const std::optional<std::uint64_t> difference = take(bytes);
        if (!difference || *difference > std::numeric_limits<std::uint32_t>::max()) {
            return false;
        }
        dc = static_cast<std::int16_t>(dc + unzigzag(*difference));
    }
    return true;
}

}  // namespace

void pack_points(const EntryPoints& points, std::vector<std::byte>& out) {
    put(points.step, out);
    put(points.points.size(), out);
    EntryPoint before;
    for (const EntryPoint& point : points.points) {
        put(std::uint64_t{8} * (point.byte - before.byte) + point.bit - before.bit, out);
        for (std::size_t c = 0; c < point.dc.size(); ++c) {
            put(zigzag(point.dc[c] - before.dc[c]), out);
        }
        before = point;
    }
}

std::optional<EntryPoints> unpack_points(std::span<const std::byte> bytes) {
    const std::optional<std::uint64_t> step = take(bytes);
    const std::optional<std::uint64_t> count = take(bytes);
    if (!step || *step > std::numeric_limits<std::uint32_t>::max() || !count ||
        *count > bytes.size() / kLeastPointBytes) {
        return std::nullopt;
    }
    EntryPoints points{.step = static_cast<std::uint32_t>(*step), .points = std::vector<EntryPoint>(*count)};
    std::uint64_t at = 0;
    EntryPoint before;
    for (EntryPoint& point : points.points) {
        point.dc = before.dc;
        if (!take_point(bytes, at, point)) {
            return std::nullopt;
        }
        before = point;
    }
    return bytes.empty() ? std::optional(std::move(points)) : std::nullopt;
}

}  // namespace stoker
