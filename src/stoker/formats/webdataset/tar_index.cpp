// Layout of the index: header, entries, places of the further fields, of the frames, text of all keys, extensions.
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
#include "stoker/formats/webdataset/sample_grouper.h"

namespace stoker {
namespace {

struct Header {
    std::array<char, 8> magic = {'t', 'a', 'r', 'i', 'd', 'x', '0', '5'};
    std::uint64_t samples = 0;
    std::uint64_t frames = 0;  // of all clips
    std::uint32_t key_bytes = 0;
    std::uint32_t extension_bytes = 0;
    std::uint32_t fields = 0;  // of each sample
    std::uint32_t left_out = 0;
};

constexpr std::uint32_t kMostFields = 4096;

static_assert(sizeof(TarIndexEntry) == 24 && sizeof(TarFieldPlace) == 16 &&
              sizeof(Header) % alignof(TarIndexEntry) == 0);

// A remote request costs as much as reading some megabytes, so remote pieces are larger.
constexpr TarWindow kLocal = {};
constexpr TarWindow kRemote = {
    .sequential = std::size_t{4} << 20, .header = std::size_t{16} << 10, .skip_from = 1 << 20};

// Smaller local archives are indexed as fast as a cached index is found.
constexpr std::uint64_t kMinCachedShard = 64 << 10;

struct Parts {
    std::vector<TarIndexEntry> samples;
    std::vector<TarFieldPlace> places;
    std::vector<TarFieldPlace> frames;
    std::uint32_t fields = 0;
    std::string keys;
    std::string extensions;  // and behind a zero byte the key of a sample that was left out
    std::uint32_t left_out = 0;
};

Buffer join(const Parts& parts) {
    const Header header{.samples = parts.samples.size(),
                        .frames = parts.frames.size(),
                        .key_bytes = static_cast<std::uint32_t>(parts.keys.size()),
                        .extension_bytes = static_cast<std::uint32_t>(parts.extensions.size()),
                        .fields = parts.fields,
                        .left_out = parts.left_out};
    const std::span<const std::byte> pieces[] = {
        std::as_bytes(std::span(&header, 1)),   std::as_bytes(std::span(parts.samples)),
        std::as_bytes(std::span(parts.places)), std::as_bytes(std::span(parts.frames)),
        std::as_bytes(std::span(parts.keys)),   std::as_bytes(std::span(parts.extensions))};
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

void add_sample(const std::string& shard, const GroupedSample& sample, Parts& parts) {
    if (sample.key.size() > std::numeric_limits<std::uint32_t>::max() - parts.keys.size()) {
        throw DataError({.path = shard, .key = sample.key.substr(0, 100)},
                        {.where = "webdataset", .expected = "keys of less than 4 GiB in all", .got = "more"});
    }
    parts.keys += sample.key;
    const bool clip = sample.image == TarImage::frames;
    parts.samples.push_back({.offset = clip ? parts.frames.size() : sample.payload.offset,
                             .size = static_cast<std::uint32_t>(clip ? sample.frames.size() : sample.payload.size),
                             .label = sample.label,
                             .key_end = static_cast<std::uint32_t>(parts.keys.size()),
                             .image = static_cast<std::uint32_t>(sample.image)});
    for (const TarFrame& frame : sample.frames) {
        parts.frames.push_back(
            {.offset = frame.payload.offset, .size = static_cast<std::uint32_t>(frame.payload.size), .present = 1});
    }
    for (const std::optional<ByteRange>& field : sample.fields) {
        const ByteRange range = field.value_or(ByteRange{});
        parts.places.push_back(
            {.offset = range.offset, .size = static_cast<std::uint32_t>(range.size), .present = field ? 1U : 0U});
    }
}

// Everything that the index depends on except the shard's bytes.
std::string cache_name(const ByteFile& shard, const FieldNames& wanted) {
    std::string name = shard.identity();
    std::error_code unknown;  // without a working directory the name stays relative
    if (const auto absolute = std::filesystem::absolute(name, unknown); !shard.remote() && !unknown) {
        name = absolute.lexically_normal().string();
    }
    if (!wanted.image.empty() || !wanted.label.empty() || !wanted.more.empty()) {
        name += fmt::format("\n{}\n{}", wanted.image, wanted.label);
    }
    name += wanted.clips ? "\nclips" : "";
    for (const FieldRequest& request : wanted.more) {  // a key of JSON does not change the member
        name += fmt::format("\n{} {}", TarFieldSource(request).extension,
                            request.kind ? field_kind_name(*request.kind) : "");
    }
    return name;
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
    const std::uint64_t each = sizeof(TarIndexEntry) + std::uint64_t{header.fields} * sizeof(TarFieldPlace);
    if (header.magic != Header{}.magic || header.fields > kMostFields || text > rest ||
        header.frames > (rest - text) / sizeof(TarFieldPlace)) {
        return false;
    }
    const std::uint64_t entries = rest - text - header.frames * sizeof(TarFieldPlace);
    if (header.samples != entries / each || entries % each != 0) {
        return false;
    }
    samples_ = {reinterpret_cast<const TarIndexEntry*>(at), static_cast<std::size_t>(header.samples)};
    at += samples_.size_bytes();
    fields_ = header.fields;
    places_ = {reinterpret_cast<const TarFieldPlace*>(at), samples_.size() * fields_};
    at += places_.size_bytes();
    frames_ = {reinterpret_cast<const TarFieldPlace*>(at), static_cast<std::size_t>(header.frames)};
    const char* letters = reinterpret_cast<const char*>(at + frames_.size_bytes());
    keys_ = {letters, header.key_bytes};
    const std::string_view further(letters + header.key_bytes, header.extension_bytes);
    extensions_ = further.substr(0, further.find('\0'));
    left_out_ = header.left_out;
    left_out_key_ = further.substr(std::min(extensions_.size() + 1, further.size()));
    std::uint32_t key = 0;
    for (const TarIndexEntry& sample : samples_) {
        const bool clip = sample.image == static_cast<std::uint32_t>(TarImage::frames);
        const std::uint64_t all = clip ? header.frames : shard_size;
        if (sample.offset > all || sample.size > all - sample.offset || (clip && sample.size == 0) ||
            sample.key_end < key || sample.key_end > header.key_bytes ||
            sample.image > static_cast<std::uint32_t>(TarImage::frames) || sample.label < kBadTarLabel ||
            sample.label > kMaxTarLabel) {
            return false;
        }
        key = sample.key_end;
        max_label_ = std::max(max_label_, sample.label);
        has_labels_ = has_labels_ || sample.label != kNoTarLabel;
        has_images_ = has_images_ || sample.image != static_cast<std::uint32_t>(TarImage::none);
    }
    const auto fits = [&](const TarFieldPlace& place) {
        return place.offset <= shard_size && place.size <= shard_size - place.offset && place.present <= 1;
    };
    return std::ranges::all_of(places_, fits) && std::ranges::all_of(frames_, fits);
}

namespace {

TarIndex build_tar_index(const ByteFile& shard, const FieldNames& wanted, bool imageless) {
    TarReader reader(
        shard.name(), shard.size(), [&](std::uint64_t offset, std::span<std::byte> out) { shard.read(offset, out); },
        shard.remote() ? kRemote : kLocal);
    Parts parts;
    parts.fields = static_cast<std::uint32_t>(wanted.more.size());
    SampleGrouper samples(shard.name(), wanted, imageless,
                          [&](const GroupedSample& sample) { add_sample(shard.name(), sample, parts); });
    TarMember member;
    while (reader.next(member)) {
        samples.add(member, [&] { return reader.bytes(member.payload); });
    }
    samples.finish();
    parts.extensions = fmt::format("{}", fmt::join(samples.extensions(), ", "));
    parts.left_out = samples.left_out();
    if (parts.left_out > 0) {
        parts.extensions += '\0' + samples.left_out_key();
    }
    std::optional<TarIndex> index = TarIndex::parse(join(parts), shard.size());
    if (!index) {
        throw InternalError({.where = shard.name(), .expected = "a valid index", .got = "an invalid one"});
    }
    return std::move(*index);
}

}  // namespace

TarIndex make_tar_index(const ByteFile& shard, const FieldNames& wanted) {
    if (wanted.more.size() > kMostFields) {
        throw InvalidArgument({.where = shard.name(),
                               .expected = fmt::format("at most {} fields", kMostFields),
                               .got = fmt::format("{}", wanted.more.size())});
    }
    TarIndex index = build_tar_index(shard, wanted, wanted.image.empty() && !wanted.more.empty());
    const auto none = [](const TarIndexEntry& sample) { return static_cast<TarImage>(sample.image) == TarImage::none; };
    return index.has_images() && std::ranges::any_of(index.samples(), none) ? build_tar_index(shard, wanted, false)
                                                                            : std::move(index);
}

TarIndex cached_tar_index(const ByteFile& shard, const FieldNames& wanted) {
    constexpr std::string_view kKind = "tar_index";
    const std::string name = cache_name(shard, wanted);
    const std::string stamp = shard.stamp();
    const bool cacheable = shard.settled() && (shard.remote() || shard.size() >= kMinCachedShard);
    if (std::optional<Buffer> cached = cacheable ? read_user_cache(kKind, name, stamp) : std::nullopt) {
        if (std::optional<TarIndex> index = TarIndex::parse(std::move(*cached), shard.size());
            index && index->fields() == wanted.more.size()) {
            return std::move(*index);
        }
    }
    TarIndex index = make_tar_index(shard, wanted);
    if (cacheable) {
        write_user_cache(kKind, name, stamp, index.bytes());  // if this fails, the next start reads the shard again
    }
    return index;
}

}  // namespace stoker
