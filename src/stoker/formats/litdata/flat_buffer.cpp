// A table begins with the distance to a list of its members' places; other objects are referred to by distances.
#include "stoker/formats/litdata/flat_buffer.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {

void FlatTable::require(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
        throw DataError({}, {.where = "arrow",
                             .expected = fmt::format("metadata within {} bytes", bytes_.size()),
                             .got = fmt::format("{} bytes at {}", size, at)});
    }
}

std::size_t FlatTable::target(std::size_t at) const {
    return at + read<std::uint32_t>(at);
}

FlatTable FlatTable::root(std::span<const std::byte> bytes) {
    return {bytes, FlatTable(bytes, 0).target(0)};
}

std::optional<std::size_t> FlatTable::place(std::size_t member) const {
    constexpr std::size_t kHeader = 2 * sizeof(std::uint16_t);
    const auto members = static_cast<std::size_t>(static_cast<std::int64_t>(at_) - read<std::int32_t>(at_));
    const std::size_t entry = kHeader + member * sizeof(std::uint16_t);
    if (entry + sizeof(std::uint16_t) > read<std::uint16_t>(members)) {
        return std::nullopt;
    }
    const auto offset = read<std::uint16_t>(members + entry);
    return offset == 0 ? std::nullopt : std::optional(at_ + offset);
}

std::optional<FlatTable> FlatTable::table(std::size_t member) const {
    const std::optional<std::size_t> at = place(member);
    return at ? std::optional(FlatTable(bytes_, target(*at))) : std::nullopt;
}

FlatVector FlatTable::vector(std::size_t member, std::size_t item) const {
    const std::optional<std::size_t> at = place(member);
    if (!at) {
        return {};
    }
    const std::size_t begin = target(*at);
    const FlatVector found{.begin = begin + sizeof(std::uint32_t), .count = read<std::uint32_t>(begin)};
    require(found.begin, found.count * item);
    return found;
}

std::string_view FlatTable::text(std::size_t member) const {
    const FlatVector letters = vector(member, 1);
    return as_text(bytes_.subspan(letters.begin, letters.count));
}

FlatTable FlatTable::table_in(const FlatVector& tables, std::size_t at) const {
    return {bytes_, target(tables.begin + at * sizeof(std::uint32_t))};
}

}  // namespace stoker
