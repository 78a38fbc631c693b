// Binary layout of a shard of an stk data set: header, payloads, index, schema, footer. FORMAT.md specifies
// it completely.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/stk/stk_schema.h"

namespace stoker {

static_assert(std::endian::native == std::endian::little, "stk stores little-endian values, which are read in place");

inline constexpr std::uint32_t kStkVersion = 1;
inline constexpr std::array<char, 8> kStkMagic = {'\x89', 's', 't', 'k', '\r', '\n', '\x1a', '\n'};
inline constexpr std::uint64_t kStkAlignment = 64;  // of payloads, the index and each of its columns
inline constexpr std::uint64_t kStkMaxKey = 65'535;
inline constexpr std::int64_t kStkMaxSide = std::int64_t{1} << 48;  // longest side of a tensor

constexpr std::uint64_t stk_align(std::uint64_t offset) {
    return (offset + kStkAlignment - 1) / kStkAlignment * kStkAlignment;
}

// Throws Unsupported for another version than kStkVersion.
void check_stk_version(std::uint64_t version, const std::string& path);

// "shard-000042.stk"
std::string stk_shard_name(std::uint64_t shard);

struct StkHeader {  // the first bytes of a shard
    std::array<char, 8> magic = kStkMagic;
    std::uint32_t version = kStkVersion;
    std::uint32_t shard = 0;  // number of the shard, from 0
    std::uint64_t first = 0;  // index of its first sample in the data set
    std::array<char, 40> reserved = {};

    bool operator==(const StkHeader&) const = default;
};
static_assert(sizeof(StkHeader) == 64);

struct StkFooter {  // the last bytes of a shard; offsets count from the start of the file
    std::uint64_t samples = 0;
    std::uint64_t index_offset = 0;
    std::uint64_t index_size = 0;
    std::uint64_t index_hash = 0;
    std::uint64_t schema_offset = 0;
    std::uint64_t schema_size = 0;
    std::uint64_t schema_hash = 0;
    std::uint64_t file_size = 0;
    std::uint64_t first = 0;
    std::uint32_t shard = 0;
    std::uint32_t version = kStkVersion;
    std::array<char, 32> reserved = {};
    std::uint64_t hash = 0;  // of the first kStkFooterHashed bytes of the footer
    std::array<char, 8> magic = kStkMagic;
};
static_assert(sizeof(StkFooter) == 128);
inline constexpr std::size_t kStkFooterHashed = 112;

// ---- Entries of the index's columns, one per sample ----

// Location and hash of a payload. Every entry of an image, bytes or tensor column starts with it.
struct StkPlace {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t hash = 0;
};

struct StkImageEntry {
    StkPlace place;
    std::uint16_t codec = 0;
    std::uint16_t flags = 0;
    std::uint32_t height = 0;  // height, width, channels: of raw pixels, 0 for an encoded image
    std::uint32_t width = 0;
    std::uint32_t channels = 0;
};
static_assert(sizeof(StkImageEntry) == 40);
inline constexpr std::uint16_t kStkOriginalFile = 1;  // flag: the packed file can be restored byte for byte

// Offsets of the columns from the start of the index.
struct StkLayout {
    std::uint64_t key_ends = 0;         // u64 per sample: end of its key in the text of all keys
    std::vector<std::uint64_t> fields;  // one column per field of the schema
    std::uint64_t key_text = 0;         // up to the end of the index
};

// `samples`: at most kStkMaxSamples, so that no offset overflows.
inline constexpr std::uint64_t kStkMaxSamples = std::uint64_t{1} << 40;
StkLayout stk_layout(const StkSchema& schema, std::uint64_t samples);

// Bytes of one entry in the field's column.
std::uint64_t stk_entry_size(const StkField& field);

}  // namespace stoker
