// Buffers are listed by column, in the order of the schema: validity, offsets if values have any length, values.
#include "stoker/formats/litdata/arrow_batch.h"

#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/io/zstd.h"

namespace stoker {
namespace {

// Members of Arrow's tables, by their place in its schema files.
enum MessageMember : std::uint8_t { kMessageType = 1, kMessageHeader = 2 };
enum BatchMember : std::uint8_t { kBatchLength = 0, kBatchBuffers = 2, kBatchCompression = 3 };

struct Piece {
    std::int64_t offset;
    std::int64_t size;
};

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "arrow", .expected = std::move(expected), .got = std::move(got)});
}

FlatTable header_of(std::span<const std::byte> bytes, const ArrowBlock& block) {
    constexpr std::size_t kPrefix = 2 * sizeof(std::uint32_t);  // a mark and the size
    constexpr std::uint8_t kRecordBatch = 3;
    const FlatTable message =
        FlatTable::root(bytes.subspan(kPrefix, static_cast<std::size_t>(block.metadata) - kPrefix));
    const std::optional<FlatTable> header = message.table(kMessageHeader);
    if (!header || message.number<std::uint8_t>(kMessageType, 0) != kRecordBatch) {
        bad("a record batch", "another message");
    }
    return *header;
}

// The size as int64, or -1 for bytes that are not packed; then a frame.
std::span<const std::byte> unpacked(std::span<const std::byte> bytes, Buffer& storage) {
    std::int64_t size = 0;
    if (bytes.size() < sizeof size) {
        bad("a packed buffer", fmt::format("{} bytes", bytes.size()));
    }
    std::memcpy(&size, bytes.data(), sizeof size);
    const auto frame = bytes.subspan(sizeof size);
    if (size == -1) {
        return frame;
    }
    if (const std::uint64_t stated = zstd_content_size(frame); static_cast<std::uint64_t>(size) != stated) {
        bad(fmt::format("a buffer of {} bytes", size), fmt::format("{}", stated));
    }
    require_memory(static_cast<std::uint64_t>(size), "");
    storage.resize(static_cast<std::size_t>(size));
    unzstd(frame, storage.bytes());
    return storage.bytes();
}

bool bit(std::span<const std::byte> bits, std::size_t at) {
    return (std::to_integer<unsigned>(bits[at / 8]) >> (at % 8) & 1U) != 0;
}

}  // namespace

ArrowBatch::ArrowBatch(std::span<const std::byte> bytes, const ArrowBlock& block)
    : header_(header_of(bytes, block)),
      body_(bytes.subspan(static_cast<std::size_t>(block.metadata))),
      buffers_(header_.vector(kBatchBuffers, sizeof(Piece))) {
    if (const std::optional<FlatTable> compression = header_.table(kBatchCompression)) {
        packed_ = true;
        if (compression->number<std::int8_t>(0, 0) != 1) {
            bad("buffers without compression, or compressed by zstd", "another compression");
        }
    }
}

std::int64_t ArrowBatch::rows() const {
    return header_.number<std::int64_t>(kBatchLength, 0);
}

std::span<const std::byte> ArrowBatch::buffer(std::size_t at, Buffer& storage) const {
    if (at >= buffers_.count) {
        bad(fmt::format("a buffer {}", at), fmt::format("{} of them", buffers_.count));
    }
    const auto piece = header_.read<Piece>(buffers_.begin + at * sizeof(Piece));
    const auto offset = static_cast<std::uint64_t>(piece.offset);
    const auto size = static_cast<std::uint64_t>(piece.size);
    if (offset > body_.size() || size > body_.size() - offset) {
        bad(fmt::format("a buffer within {} bytes", body_.size()), fmt::format("{} at {}", piece.size, piece.offset));
    }
    const auto bytes = body_.subspan(offset, size);
    return packed_ && !bytes.empty() ? unpacked(bytes, storage) : bytes;
}

ArrowValues::ArrowValues(const ArrowBatch& batch, const ArrowColumn& column, std::size_t first_buffer)
    : type_(column.type) {
    const auto rows = static_cast<std::size_t>(batch.rows());
    const std::size_t bits = (rows + 7) / 8;
    validity_ = batch.buffer(first_buffer, storage_[0]);
    data_ = batch.buffer(first_buffer + column.buffers() - 1, storage_[2]);
    bool enough = type_ == ArrowType::boolean ? data_.size() >= bits : data_.size() / sizeof(std::int64_t) >= rows;
    if (column.is_bytes()) {
        offsets_ = batch.buffer(first_buffer + 1, storage_[1]);
        enough = offsets_.size() / sizeof(std::int32_t) > rows;
    }
    if (!enough || (!validity_.empty() && validity_.size() < bits)) {
        bad(fmt::format("{} values of {:?}", rows, column.name), "shorter buffers");
    }
}

std::span<const std::byte> ArrowValues::at(std::size_t row) const {
    static constexpr std::array kBits = {std::byte{0}, std::byte{1}};
    if (!validity_.empty() && !bit(validity_, row)) {
        return {};
    }
    if (type_ == ArrowType::boolean) {
        return std::span(kBits).subspan(bit(data_, row) ? 1 : 0, 1);
    }
    if (offsets_.empty()) {
        return data_.subspan(row * sizeof(std::int64_t), sizeof(std::int64_t));
    }
    std::array<std::int32_t, 2> ends{};
    std::memcpy(ends.data(), offsets_.data() + row * sizeof(std::int32_t), sizeof ends);
    if (ends[0] < 0 || ends[1] < ends[0] || static_cast<std::size_t>(ends[1]) > data_.size()) {
        bad(fmt::format("a value within {} bytes", data_.size()), fmt::format("{} to {}", ends[0], ends[1]));
    }
    return data_.subspan(static_cast<std::size_t>(ends[0]), static_cast<std::size_t>(ends[1] - ends[0]));
}

}  // namespace stoker
