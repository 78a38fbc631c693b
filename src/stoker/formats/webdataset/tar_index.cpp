// The piece of memory: a header, the samples, the text of all keys, the extensions' names.
#include "stoker/formats/webdataset/tar_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/user_cache.h"
#include "stoker/formats/webdataset/tar_samples.h"

namespace stoker {
namespace {

struct Header {
    std::array<char, 8> magic = {'t', 'a', 'r', 'i', 'd', 'x', '0', '1'};
    std::uint64_t samples = 0;
    std::uint64_t others = 0;
    std::uint32_t key_bytes = 0;
    std::uint32_t extension_bytes = 0;
};

static_assert(sizeof(TarSample) == 24 && sizeof(Header) % alignof(TarSample) == 0);

// Behind a network a request costs as much as some megabytes.
constexpr TarWindow kLocal = {};
constexpr TarWindow kRemote = {.through = std::size_t{4} << 20, .peek = std::size_t{16} << 10, .skip = 1 << 20};

// Smaller archives that lie here are indexed as fast as an index is found.
constexpr std::uint64_t kLeastKept = 64 << 10;

struct Parts {
    std::vector<TarSample> samples;
    std::string keys;
    std::string extensions;
    std::int64_t others = 0;
};

Buffer join(const Parts& parts) {
    const Header header{.samples = parts.samples.size(),
                        .others = static_cast<std::uint64_t>(parts.others),
                        .key_bytes = static_cast<std::uint32_t>(parts.keys.size()),
                        .extension_bytes = static_cast<std::uint32_t>(parts.extensions.size())};
    const std::span<const std::byte> pieces[] = {
        std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(parts.samples)),
        std::as_bytes(std::span(parts.keys)), std::as_bytes(std::span(parts.extensions))};
    std::size_t size = 0;
    for (const auto piece : pieces) {
        size += piece.size();
    }
    Buffer bytes(size);
    std::byte* to = bytes.data();
    for (const auto piece : pieces) {
        to = std::ranges::copy(piece, to).out;
    }
    return bytes;
}

void add_image(const std::string& shard, const TarImage& image, Parts& parts) {
    if (image.key.size() > std::numeric_limits<std::uint32_t>::max() - parts.keys.size()) {
        throw DataError({.path = shard, .key = image.key.substr(0, 100)},
                        {.where = "webdataset", .expected = "keys of less than 4 GiB in all", .got = "more"});
    }
    parts.keys += image.key;
    parts.samples.push_back({.offset = image.payload.offset,
                             .size = static_cast<std::uint32_t>(image.payload.size),
                             .label = image.label,
                             .key_end = static_cast<std::uint32_t>(parts.keys.size()),
                             .npy = image.npy});
}

// What the index depends on but for the shard's bytes.
std::string cache_name(const ByteFile& shard, const FieldNames& wanted) {
    std::string name = shard.identity();
    std::error_code unknown;  // without a working directory the name stands as it is
    if (const auto absolute = std::filesystem::absolute(name, unknown); !shard.remote() && !unknown) {
        name = absolute.lexically_normal().string();
    }
    return wanted.image.empty() && wanted.label.empty() ? name
                                                        : fmt::format("{}\n{}\n{}", name, wanted.image, wanted.label);
}

}  // namespace

std::string_view TarIndex::key(std::int64_t sample) const {
    const std::uint32_t begin = sample == 0 ? 0 : (*this)[sample - 1].key_end;
    return keys_.substr(begin, (*this)[sample].key_end - begin);
}

std::optional<TarIndex> TarIndex::parse(Buffer bytes, std::uint64_t shard_size) {
    TarIndex index;
    index.bytes_ = std::move(bytes);
    return index.check(shard_size) ? std::optional(std::move(index)) : std::nullopt;
}

bool TarIndex::check(std::uint64_t shard_size) {
    const std::byte* at = bytes_.data();
    std::size_t rest = bytes_.size();
    Header header;
    if (rest < sizeof header) {
        return false;
    }
    std::memcpy(&header, at, sizeof header);
    rest -= sizeof header;
    at += sizeof header;
    const std::uint64_t text = std::uint64_t{header.key_bytes} + header.extension_bytes;
    if (header.magic != Header{}.magic || text > rest || header.samples != (rest - text) / sizeof(TarSample) ||
        (rest - text) % sizeof(TarSample) != 0 || header.others > shard_size) {
        return false;
    }
    samples_ = {reinterpret_cast<const TarSample*>(at), static_cast<std::size_t>(header.samples)};
    const char* letters = reinterpret_cast<const char*>(at + samples_.size_bytes());
    keys_ = {letters, header.key_bytes};
    extensions_ = {letters + header.key_bytes, header.extension_bytes};
    others_ = static_cast<std::int64_t>(header.others);
    std::uint32_t key = 0;
    for (const TarSample& sample : samples_) {
        if (sample.offset > shard_size || sample.size > shard_size - sample.offset || sample.key_end < key ||
            sample.key_end > header.key_bytes || sample.npy > 1 || sample.label < kBadTarLabel ||
            sample.label > kMaxTarLabel) {
            return false;
        }
        key = sample.key_end;
        max_label_ = std::max(max_label_, sample.label);
        has_labels_ = has_labels_ || sample.label != kNoTarLabel;
    }
    return true;
}

TarIndex make_tar_index(const ByteFile& shard, const FieldNames& wanted) {
    TarReader reader(
        shard.name(), shard.size(), [&](std::uint64_t offset, std::span<std::byte> out) { shard.read(offset, out); },
        shard.remote() ? kRemote : kLocal);
    Parts parts;
    TarSamples samples(shard.name(), wanted, [&](const TarImage& image) { add_image(shard.name(), image, parts); });
    TarMember member;
    while (reader.next(member)) {
        samples.add(member, [&] { return reader.bytes(member.payload); });
    }
    samples.finish();
    parts.others = samples.others();
    parts.extensions = fmt::format("{}", fmt::join(samples.extensions(), ", "));
    std::optional<TarIndex> index = TarIndex::parse(join(parts), shard.size());
    if (!index) {
        throw InternalError({.where = shard.name(), .expected = "an index that holds", .got = "another"});
    }
    return std::move(*index);
}

TarIndex cached_tar_index(const ByteFile& shard, const FieldNames& wanted) {
    constexpr std::string_view kKind = "tar_index";
    const std::string name = cache_name(shard, wanted);
    const std::string stamp = shard.stamp();
    const bool kept_at_all = shard.settled() && (shard.remote() || shard.size() >= kLeastKept);
    if (std::optional<Buffer> kept = kept_at_all ? read_user_cache(kKind, name, stamp) : std::nullopt) {
        if (std::optional<TarIndex> index = TarIndex::parse(std::move(*kept), shard.size())) {
            return std::move(*index);
        }
    }
    TarIndex index = make_tar_index(shard, wanted);
    if (kept_at_all) {
        write_user_cache(kKind, name, stamp, index.bytes());  // without it the next start reads the shard again
    }
    return index;
}

}  // namespace stoker
