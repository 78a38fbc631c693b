// Index of a TFRecord shard: offset, length and label of each record. It is built by reading the shard's lengths and
// labels once. It is one block of memory, which the user's cache stores as is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/io/byte_file.h"

namespace stoker {

inline constexpr std::int32_t kNoTfLabel = -1;
inline constexpr std::int32_t kBadTfLabel = -2;  // present, but no valid class index
inline constexpr std::int32_t kMaxTfLabel = (1 << 24) - 1;

// How the whole shard is compressed.
enum class TfForm : std::uint8_t { plain, gzip, zlib };

// The parts of a record around its data: length and its checksum in front, the data's checksum behind.
inline constexpr std::uint64_t kTfHead = 12;
inline constexpr std::uint64_t kTfTail = 4;

// protobuf's limit for a message.
inline constexpr std::uint64_t kMaxTfRecord = (std::uint64_t{1} << 31) - 1;

struct TfRecordPlace {
    std::uint64_t offset = 0;  // of the data, in the shard as decoded
    std::uint32_t size = 0;
    std::int32_t label = kNoTfLabel;  // or kBadTfLabel

    // With the checksum behind it.
    ByteRange range() const { return {offset, size + kTfTail}; }
};

// The features that may hold the label, by preference.
struct TfLabelNames {
    std::vector<std::string> names;
    bool strict = false;  // another value than one integer is a bad label; otherwise the next name counts
};

class TfIndex {
  public:
    // Returns empty for bytes that are not an index or that do not fit a shard of `shard_size` bytes.
    static std::optional<TfIndex> parse(Buffer bytes, std::uint64_t shard_size);

    std::int64_t size() const { return static_cast<std::int64_t>(records_.size()); }
    const TfRecordPlace& operator[](std::int64_t record) const { return records_[static_cast<std::size_t>(record)]; }
    std::span<const TfRecordPlace> records() const { return records_; }
    TfForm form() const { return form_; }
    std::uint64_t decoded_bytes() const { return decoded_bytes_; }  // of the whole shard; its size if it is plain
    std::int32_t max_label() const { return max_label_; }           // -1 without labels
    bool has_labels() const { return has_labels_; }                 // valid or bad ones
    std::span<const std::byte> bytes() const { return bytes_.bytes(); }

  private:
    TfIndex() = default;
    bool check(std::uint64_t shard_size);

    Buffer bytes_;
    std::span<const TfRecordPlace> records_;
    TfForm form_ = TfForm::plain;
    std::uint64_t decoded_bytes_ = 0;
    std::int32_t max_label_ = -1;
    bool has_labels_ = false;
};

// Builds the index. Checks the checksums of lengths, not those of data: a record without a label, or one that is
// damaged, has none. Throws DataError, with the offset, for a wrong length and for a shard that is cut short.
TfIndex make_tf_index(const ByteFile& shard, const TfLabelNames& labels);

// The same, through the user's cache. A cached index is used only if the shard has not changed since.
TfIndex cached_tf_index(const ByteFile& shard, const TfLabelNames& labels);

// The whole of a compressed shard. Throws DataError if it has changed or is damaged, MemoryError if it does not fit
// into memory.
Buffer decode_tf_shard(const ByteFile& shard, TfForm form, std::uint64_t decoded_bytes);

// The data of a record, without the checksum behind it. Throws DataError if it is wrong.
std::span<const std::byte> checked_tf_data(std::span<const std::byte> data_and_checksum);

}  // namespace stoker
