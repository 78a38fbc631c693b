// A chunk with frames of several samples begins with "LDFZ01\0\0", whatever the index says: release 0.2.76 names such
// frames in the index of tuples, and writes none.
#include "stoker/formats/litdata/litdata_chunk.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/litdata/litdata_rows.h"
#include "stoker/io/zstd.h"

namespace stoker {
namespace {

constexpr std::string_view kMagic("LDFZ01\0\0", 8);

struct Header {
    std::array<char, 8> magic;
    std::uint16_t version;
    std::uint16_t flags;
    std::uint32_t samples;
    std::uint32_t rows;  // in each frame but the last
    std::uint32_t frames;
};
static_assert(sizeof(Header) == 24);

struct Frame {
    std::uint32_t first;
    std::uint32_t samples;
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t raw_size;
};
static_assert(sizeof(Frame) == 24);

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "litdata", .expected = std::move(expected), .got = std::move(got)});
}

template <typename Item>
std::vector<Item> read_items(const ByteFile& file, std::uint64_t at, std::uint64_t count) {
    if (at > file.size() || count > (file.size() - at) / sizeof(Item)) {
        bad(fmt::format("{} entries at {}", count, at), fmt::format("a file of {} bytes", file.size()));
    }
    require_memory(count * sizeof(Item), "");
    std::vector<Item> items(static_cast<std::size_t>(count));
    file.read(at, std::as_writable_bytes(std::span(items)));
    return items;
}

ShardTable read_framed(const ByteFile& file, const ShardInfo& chunk) {
    const Header header = read_items<Header>(file, 0, 1).front();
    const auto samples = static_cast<std::uint64_t>(chunk.samples);
    if (header.version != 1 || header.samples != samples || header.rows == 0) {
        bad(fmt::format("frames of version 1 with {} samples, as the index says", samples),
            fmt::format("version {} with {} samples", header.version, header.samples));
    }
    ShardTable table;
    table.offsets = read_items<std::uint32_t>(file, sizeof(Header), samples + 1);
    const std::uint64_t begin = sizeof(Header) + table.offsets.size() * sizeof(std::uint32_t);
    std::uint64_t next = 0;
    for (const Frame& frame : read_items<Frame>(file, begin, header.frames)) {
        const bool inside = frame.offset <= file.size() && frame.size <= file.size() - frame.offset;
        if (frame.first != next || frame.samples == 0 || !inside || frame.raw_size > frame.size * kMaxZstdRatio) {
            bad(fmt::format("a frame from sample {} on, within {} bytes", next, file.size()),
                fmt::format("{} samples from {} on, {} bytes at {}", frame.samples, frame.first, frame.size,
                            frame.offset));
        }
        table.parts.push_back(
            {.first = frame.first, .range = {.offset = frame.offset, .size = frame.size}, .raw_size = frame.raw_size});
        next += frame.samples;
    }
    if (next != samples) {
        bad(fmt::format("frames of {} samples", samples), fmt::format("{}", next));
    }
    return table;
}

}  // namespace

bool is_framed_chunk(std::span<const std::byte> head) {
    return head.size() >= kMagic.size() && std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
}

ShardTable read_litdata_table(const ByteFile& file, const ShardInfo& chunk, const LitIndex& index) {
    if (file.size() >= sizeof(Header)) {
        std::array<std::byte, kMagic.size()> head{};
        file.read(0, head);
        if (is_framed_chunk(head)) {
            return read_framed(file, chunk);
        }
    }
    ShardTable table = read_shard_table(file, chunk);
    // Rows that are numbers, text and bytes alone are written behind empty samples if pyarrow is installed.
    if (table.offsets.front() == table.offsets.back() && has_arrow_rows(file)) {
        return read_arrow_rows(file, chunk, index.layout);
    }
    table.each_packed = index.frames == LitFrames::sample;
    return table;
}

}  // namespace stoker
