// Large records of plain shards are skipped but for names and labels. Compressed shards are decoded record by record.
#include "stoker/formats/tfrecord/tf_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/crc32c.h"
#include "stoker/base/error.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/tfrecord/tf_example.h"
#include "stoker/formats/tfrecord/tf_wire.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums are little-endian");

// Read sizes in bytes. Shards of small records are read sequentially in large pieces; if records are large on average,
// only a short piece is read at each place. A remote request costs as much as reading some megabytes.
struct Window {
    std::size_t sequential;
    std::size_t piece;
    std::uint64_t skip_from;  // average size of a record from which the short pieces are read
};
constexpr Window kLocal{
    .sequential = std::size_t{1} << 20, .piece = std::size_t{4} << 10, .skip_from = std::uint64_t{32} << 10};
constexpr Window kRemote{
    .sequential = std::size_t{4} << 20, .piece = std::size_t{16} << 10, .skip_from = std::uint64_t{1} << 20};

// The shard's bytes through a window.
class FileBytes {
  public:
    explicit FileBytes(const ByteFile& file) : file_(file), window_(file.remote() ? kRemote : kLocal) {}

    // Within the file. Valid until the next call.
    std::span<const std::byte> view(const ByteRange& range) {
        const bool held = range.offset >= begin_ && range.offset - begin_ <= buffer_.size() &&
                          range.size <= buffer_.size() - (range.offset - begin_);
        if (!held) {
            const bool skips = average_ >= static_cast<double>(window_.skip_from);
            const std::uint64_t piece = std::max<std::uint64_t>(skips ? window_.piece : window_.sequential, range.size);
            buffer_.resize(static_cast<std::size_t>(std::min(piece, file_.size() - range.offset)));
            begin_ = range.offset;
            file_.read(begin_, buffer_.bytes());
        }
        return buffer_.bytes().subspan(static_cast<std::size_t>(range.offset - begin_),
                                       static_cast<std::size_t>(range.size));
    }
    void count_record(std::uint64_t size) { average_ += (static_cast<double>(size) - average_) / 8; }

  private:
    const ByteFile& file_;
    const Window& window_;
    double average_ = 0;
    Buffer buffer_;
    std::uint64_t begin_ = 0;
};

// The length in a record's head; empty if its checksum is wrong.
std::optional<std::uint64_t> length_of(std::span<const std::byte> head) {
    std::uint64_t length = 0;
    std::uint32_t checksum = 0;
    std::memcpy(&length, head.data(), sizeof length);
    std::memcpy(&checksum, head.data() + sizeof length, sizeof checksum);
    return masked_crc32c(head.first(sizeof length)) == checksum ? std::optional(length) : std::nullopt;
}

[[noreturn]] void refuse(const ByteFile& shard, std::uint64_t at, std::string expected, std::string got,
                         std::string hint) {
    throw DataError(
        {.path = shown_name(shard.name()), .offset = static_cast<std::int64_t>(at)},
        {.where = "tfrecord", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

[[noreturn]] void refuse_end(const ByteFile& shard, std::uint64_t at, std::uint64_t more) {
    refuse(shard, at, fmt::format("a record of {} bytes", more), "the end of the shard",
           "it was cut short: copy it again");
}

std::uint64_t checked_length(const ByteFile& shard, std::span<const std::byte> head, std::uint64_t at) {
    const std::optional<std::uint64_t> length = length_of(head);
    if (!length) {
        refuse(shard, at, "a record's length with its checksum", "another checksum",
               at == 0 ? "is it a TFRecord file, plain or compressed as gzip or zlib?" : "the shard is damaged");
    }
    if (*length > kMaxTfRecord) {
        refuse(shard, at, fmt::format("a tf.train.Example of at most {} bytes", kMaxTfRecord),
               fmt::format("{}", *length), "");
    }
    return *length;
}

// A feature of more bytes is not one integer.
constexpr std::uint64_t kMaxLabelBytes = 64;

// The label in a record; none in one that is damaged, which shows when it is read.
template <typename Bytes>
std::int32_t label_of(Bytes& bytes, const ByteRange& record, const TfLabelNames& labels) {
    std::vector<std::optional<ByteRange>> places(labels.names.size());
    try {
        walk_features(bytes, record, [&](std::string_view name, const ByteRange& value) {
            if (const auto found = std::ranges::find(labels.names, name); found != labels.names.end()) {
                places[static_cast<std::size_t>(found - labels.names.begin())] = value;
            }
        });
        for (const std::optional<ByteRange>& place : places) {
            if (!place) {
                continue;
            }
            const auto label =
                place->size <= kMaxLabelBytes ? single_integer(parse_tf_feature(bytes.view(*place))) : std::nullopt;
            if (label || labels.strict) {
                return label && *label >= kNoTfLabel && *label <= kMaxTfLabel ? static_cast<std::int32_t>(*label)
                                                                              : kBadTfLabel;
            }
        }
    } catch (const DataError&) {
    }
    return kNoTfLabel;
}

TfForm form_of(std::span<const std::byte> head) {
    if (head.size() == kTfHead && length_of(head)) {
        return TfForm::plain;
    }
    return is_gzip(head) ? TfForm::gzip : is_zlib(head) ? TfForm::zlib : TfForm::plain;
}

void scan_plain(const ByteFile& shard, const TfLabelNames& labels, TfScan& scan) {
    FileBytes bytes(shard);
    std::uint64_t at = 0;
    for (const std::uint64_t size = shard.size(); at < size;) {
        if (size - at < kTfHead) {
            refuse_end(shard, at, kTfHead + kTfTail);
        }
        const std::uint64_t length = checked_length(shard, bytes.view({at, kTfHead}), at);
        if (length + kTfTail > size - at - kTfHead) {
            refuse_end(shard, at, kTfHead + length + kTfTail);
        }
        const ByteRange data{at + kTfHead, length};
        push_checked(scan.records, TfRecordPlace{.offset = data.offset,
                                                 .size = static_cast<std::uint32_t>(length),
                                                 .label = label_of(bytes, data, labels)});
        bytes.count_record(length);
        at = data.offset + length + kTfTail;
    }
    scan.decoded_bytes = at;
}

// The shard's bytes as stored: its map, or a copy in `storage`.
std::span<const std::byte> packed_bytes(const ByteFile& shard, Buffer& storage) {
    if (const auto map = shard.map(); map.size() == shard.size()) {
        return map;
    }
    storage.resize(static_cast<std::size_t>(shard.size()));
    shard.read(0, storage.bytes());
    return storage.bytes();
}

void scan_compressed(const ByteFile& shard, const TfLabelNames& labels, TfScan& scan) {
    Buffer storage;
    const auto packed = packed_bytes(shard, storage);
    GzipReader reader(packed, scan.form == TfForm::zlib);
    constexpr std::uint64_t kInside = std::uint64_t{64} << 10;  // decoded bytes that zlib may hold
    std::array<std::byte, kTfHead> head{};
    Buffer record;
    std::uint64_t at = 0;
    while (const std::size_t found = reader.read(head)) {
        if (found < head.size()) {
            refuse_end(shard, at, kTfHead + kTfTail);
        }
        const std::uint64_t length = checked_length(shard, head, at);
        const std::uint64_t left = packed.size() - static_cast<std::uint64_t>(reader.offset());
        if (length + kTfTail > left * kMaxGzipRatio + kInside) {
            refuse_end(shard, at, kTfHead + length + kTfTail);
        }
        record.resize(static_cast<std::size_t>(length + kTfTail));
        if (reader.read(record.bytes()) < record.size()) {
            refuse_end(shard, at, kTfHead + length + kTfTail);
        }
        const MemoryBytes bytes{record.bytes()};
        push_checked(scan.records, TfRecordPlace{.offset = at + kTfHead,
                                                 .size = static_cast<std::uint32_t>(length),
                                                 .label = label_of(bytes, {0, length}, labels)});
        at += kTfHead + length + kTfTail;
    }
    if (reader.truncated()) {
        refuse_end(shard, at, kTfHead + kTfTail);
    }
    scan.decoded_bytes = at;
}

}  // namespace

TfScan scan_tf_shard(const ByteFile& shard, const TfLabelNames& labels) {
    std::array<std::byte, kTfHead> storage{};
    const auto head = std::span(storage).first(std::min<std::uint64_t>(shard.size(), kTfHead));
    if (!head.empty()) {
        shard.read(0, head);
    }
    TfScan scan{.form = form_of(head), .decoded_bytes = 0, .records = {}};
    if (scan.form == TfForm::plain) {
        scan_plain(shard, labels, scan);
    } else {
        with_place({.path = shown_name(shard.name())}, [&] { scan_compressed(shard, labels, scan); });
    }
    return scan;
}

Buffer decode_tf_shard(const ByteFile& shard, TfForm form, std::uint64_t decoded_bytes) {
    return with_place({.path = shown_name(shard.name())}, [&] {
        const auto decode = [&](std::span<const std::byte> packed) {
            GzipReader reader(packed, form == TfForm::zlib);
            Buffer decoded(static_cast<std::size_t>(decoded_bytes));
            if (reader.read(decoded.bytes()) < decoded.size()) {
                refuse_end(shard, reader.written(), decoded_bytes);
            }
            return decoded;
        };
        Buffer storage;
        try {
            return decode(packed_bytes(shard, storage));
        } catch (const DataError&) {  // perhaps a cached block is damaged
            if (!shard.remote()) {
                throw;
            }
        }
        storage.resize(static_cast<std::size_t>(shard.size()));
        shard.read_anew(0, storage.bytes());
        return decode(storage.bytes());
    });
}

}  // namespace stoker
