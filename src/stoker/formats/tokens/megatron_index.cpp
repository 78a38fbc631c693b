// Little-endian: the magic, the version, a code for the type, the numbers of sequences and of document bounds; then the
// length of each sequence (int32), its first byte (int64), and the document bounds (int64).
#include "stoker/formats/tokens/megatron_index.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <string_view>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::size_t kHeader = kMagic.size() + 8 + 1 + 8 + 8;

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "Megatron index", .expected = std::move(expected), .got = std::move(got)});
}

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

ArrayType type_of(std::uint8_t code) {
    switch (code) {
        case 1:
            return {.kind = ArrayKind::unsigned_integer, .item_size = 1};
        case 4:
            return {.kind = ArrayKind::signed_integer, .item_size = 4};
        case 5:
            return {.kind = ArrayKind::signed_integer, .item_size = 8};
        case 8:
            return {.kind = ArrayKind::unsigned_integer, .item_size = 2};
        default:
            throw Unsupported({.where = "Megatron index",
                               .expected = "tokens of uint8, uint16, int32 or int64 (codes 1, 8, 4, 5)",
                               .got = fmt::format("type code {}", code)});
    }
}

}  // namespace

bool is_megatron_index(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

MegatronIndex parse_megatron_index(std::span<const std::byte> bytes) {
    if (!is_megatron_index(bytes) || bytes.size() < kHeader) {
        bad("an index of Megatron-LM", fmt::format("{} bytes of another kind", bytes.size()));
    }
    if (const auto version = number_at<std::uint64_t>(bytes, kMagic.size()); version != 1) {
        bad("version 1", fmt::format("version {}", version));
    }
    const auto sequences = number_at<std::uint64_t>(bytes, kMagic.size() + 9);
    const auto bounds = number_at<std::uint64_t>(bytes, kMagic.size() + 17);
    constexpr std::size_t kSequence = sizeof(std::int32_t) + sizeof(std::int64_t);
    const std::size_t rest = bytes.size() - kHeader;
    if (sequences > rest / kSequence || bounds > (rest - sequences * kSequence) / sizeof(std::int64_t)) {
        bad(fmt::format("{} sequences and {} document bounds", sequences, bounds),
            fmt::format("{} bytes for them", rest));
    }
    MegatronIndex index{.type = type_of(number_at<std::uint8_t>(bytes, kMagic.size() + 8)),
                        .documents = bounds > 0 ? static_cast<std::int64_t>(bounds) - 1 : 0};
    const std::size_t lengths = kHeader;
    const std::size_t begins = lengths + sequences * sizeof(std::int32_t);
    for (std::size_t i = 0; i < sequences; ++i) {
        const auto length = number_at<std::int32_t>(bytes, lengths + i * sizeof(std::int32_t));
        const auto begin = number_at<std::int64_t>(bytes, begins + i * sizeof(std::int64_t));
        if (length < 0 || begin != index.tokens * index.type.item_size) {
            bad("sequences that follow each other",
                fmt::format("sequence {} of {} tokens at byte {}", i, length, begin));
        }
        index.tokens += length;
    }
    return index;
}

}  // namespace stoker
