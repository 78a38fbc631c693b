// Layout of the index: header, then the places of all records.
#include "stoker/formats/tfrecord/tf_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>

#include "stoker/base/crc32c.h"
#include "stoker/base/error.h"
#include "stoker/base/user_cache.h"
#include "stoker/formats/tfrecord/tf_scan.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

struct Header {
    std::array<char, 8> magic = {'t', 'f', 'r', 'i', 'd', 'x', '0', '1'};
    std::uint64_t form = 0;
    std::uint64_t decoded_bytes = 0;
    std::uint64_t records = 0;
};

static_assert(sizeof(TfRecordPlace) == 16 && sizeof(Header) % alignof(TfRecordPlace) == 0);

// Smaller local shards are indexed as fast as a cached index is found.
constexpr std::uint64_t kMinCachedShard = 64 << 10;

// Everything that the index depends on except the shard's bytes.
std::string cache_name(const ByteFile& shard, const TfLabelNames& labels) {
    std::string name = shard.identity();
    std::error_code unknown;  // without a working directory the name stays relative
    if (const auto absolute = std::filesystem::absolute(name, unknown); !shard.remote() && !unknown) {
        name = absolute.lexically_normal().string();
    }
    return fmt::format("{}\n{}\n{}", name, fmt::join(labels.names, "\n"), labels.strict);
}

}  // namespace

std::optional<TfIndex> TfIndex::parse(Buffer bytes, std::uint64_t shard_size) {
    TfIndex index;
    index.bytes_ = std::move(bytes);
    return index.check(shard_size) ? std::optional(std::move(index)) : std::nullopt;
}

bool TfIndex::check(std::uint64_t shard_size) {
    Header header;
    if (bytes_.size() < sizeof header) {
        return false;
    }
    std::memcpy(&header, bytes_.data(), sizeof header);
    const std::size_t rest = bytes_.size() - sizeof header;
    const bool plain = header.form == static_cast<std::uint64_t>(TfForm::plain);
    if (header.magic != Header{}.magic || header.form > static_cast<std::uint64_t>(TfForm::zlib) ||
        rest % sizeof(TfRecordPlace) != 0 || header.records != rest / sizeof(TfRecordPlace) ||
        (plain ? header.decoded_bytes != shard_size : header.decoded_bytes / kMaxGzipRatio > shard_size)) {
        return false;
    }
    form_ = static_cast<TfForm>(header.form);
    decoded_bytes_ = header.decoded_bytes;
    records_ = {reinterpret_cast<const TfRecordPlace*>(bytes_.data() + sizeof header), header.records};
    std::uint64_t end = 0;  // of the record before
    for (const TfRecordPlace& record : records_) {
        const bool behind = record.offset >= end && record.offset - end >= kTfHead;
        if (!behind || record.offset > decoded_bytes_ || record.range().size > decoded_bytes_ - record.offset ||
            record.label < kBadTfLabel || record.label > kMaxTfLabel) {
            return false;
        }
        end = record.offset + record.range().size;
        max_label_ = std::max(max_label_, record.label);
        has_labels_ = has_labels_ || record.label != kNoTfLabel;
    }
    return true;
}

TfIndex make_tf_index(const ByteFile& shard, const TfLabelNames& labels) {
    const TfScan scan = scan_tf_shard(shard, labels);
    const Header header{.form = static_cast<std::uint64_t>(scan.form),
                        .decoded_bytes = scan.decoded_bytes,
                        .records = scan.records.size()};
    const auto places = std::as_bytes(std::span(scan.records));
    Buffer bytes(sizeof header + places.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::ranges::copy(places, bytes.data() + sizeof header);
    std::optional<TfIndex> index = TfIndex::parse(std::move(bytes), shard.size());
    if (!index) {
        throw InternalError({.where = shard.name(), .expected = "a valid index", .got = "an invalid one"});
    }
    return std::move(*index);
}

TfIndex cached_tf_index(const ByteFile& shard, const TfLabelNames& labels) {
    constexpr std::string_view kKind = "tf_index";
    const std::string name = cache_name(shard, labels);
    const std::string stamp = shard.stamp();
    const bool cacheable = shard.settled() && (shard.remote() || shard.size() >= kMinCachedShard);
    if (std::optional<Buffer> cached = cacheable ? read_user_cache(kKind, name, stamp) : std::nullopt) {
        if (std::optional<TfIndex> index = TfIndex::parse(std::move(*cached), shard.size())) {
            return std::move(*index);
        }
    }
    TfIndex index = make_tf_index(shard, labels);
    if (cacheable) {
        write_user_cache(kKind, name, stamp, index.bytes());  // if this fails, the next start reads the shard again
    }
    return index;
}

std::span<const std::byte> checked_tf_data(std::span<const std::byte> data_and_checksum) {
    const auto data = data_and_checksum.first(data_and_checksum.size() - kTfTail);
    std::uint32_t stored = 0;
    std::memcpy(&stored, data_and_checksum.data() + data.size(), sizeof stored);
    if (const std::uint32_t found = masked_crc32c(data); found != stored) {
        throw DataError({}, {.where = "tfrecord",
                             .expected = fmt::format("data with the checksum {:08x}", stored),
                             .got = fmt::format("{:08x}", found)});
    }
    return data;
}

}  // namespace stoker
