// Puts the shards together: the manifest says which and with which hash, and they have to agree.
#include "stoker/formats/stk.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/prefetch.h"
#include "stoker/formats/stk_manifest.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

StkManifest read_finished_manifest(const fs::path& directory) {
    std::error_code unknown;
    if (!fs::exists(directory / kStkManifest, unknown) && fs::exists(directory / kStkPartManifest, unknown)) {
        throw DataError({.path = directory.string()}, {.where = "stk",
                                                       .expected = "a finished data set",
                                                       .got = "one whose packing was stopped",
                                                       .hint = "run the same `stoker pack` again to finish it"});
    }
    StkManifest manifest = read_manifest(directory / kStkManifest);
    if (manifest.shards.empty()) {
        throw DataError({.path = (directory / kStkManifest).string()},
                        {.where = "stk", .expected = "at least one shard", .got = "none"});
    }
    return manifest;
}

void check_shard(const StkShard& shard, const StkShardInfo& promised, std::size_t number, std::uint64_t first,
                 const StkSchema& schema, const fs::path& path) {
    const StkShardInfo found{
        .samples = static_cast<std::uint64_t>(shard.samples()), .bytes = shard.bytes(), .hash = shard.hash()};
    if (found != promised || shard.number() != number || shard.first() != first) {
        throw DataError({.path = path.string()},
                        {.where = "stk",
                         .expected = fmt::format("shard {} with samples from {} on: {} in {} bytes of hash {:016x}",
                                                 number, first, promised.samples, promised.bytes, promised.hash),
                         .got = fmt::format("shard {} with samples from {} on: {} in {} bytes of hash {:016x}",
                                            shard.number(), shard.first(), found.samples, found.bytes, found.hash),
                         .hint = "the shard is of another data set: copy the whole folder again, or pack again"});
    }
    if (shard.schema() != schema) {
        throw DataError({.path = path.string()},
                        {.where = "stk", .expected = "the fields of the first shard", .got = "others"});
    }
}

// Payloads from this size on are read, not mapped: the copy costs some 7 % of an image's time from dct, and keeps a
// whole epoch's pages from counting as this process's memory.
constexpr std::size_t kReadBytes = std::size_t{16} << 10;

}  // namespace

StkReader::StkReader(const fs::path& directory) : directory_(directory) {
    const StkManifest manifest = read_finished_manifest(directory);
    origin_ = manifest.origin;
    bytes_ = static_cast<std::int64_t>(fs::file_size(directory / kStkManifest));
    shards_.reserve(manifest.shards.size());
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
        const fs::path path = directory / stk_shard_name(i);
        const StkShard& shard = shards_.emplace_back(path);
        check_shard(shard, manifest.shards[i], i, static_cast<std::uint64_t>(size_), schema(), path);
        size_ += shard.samples();
        bytes_ += static_cast<std::int64_t>(shard.bytes());
        ends_.push_back(size_);
    }
}

std::size_t StkReader::field(std::string_view name, StkKind kind) const {
    const std::optional<std::size_t> found = schema().find(name);
    if (!found || schema().fields[*found].kind != kind) {
        throw InvalidArgument({.where = directory_.string(),
                               .expected = fmt::format("a field {} of kind {}", name, kind_name(kind)),
                               .got = found ? std::string(kind_name(schema().fields[*found].kind)) : "none"});
    }
    return *found;
}

StkReader::Place StkReader::place(std::int64_t index) const {
    if (index < 0 || index >= size_) {
        throw InvalidArgument({.where = directory_.string(),
                               .expected = fmt::format("an index below {}", size_),
                               .got = fmt::format("{}", index)});
    }
    const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {shards_[number], index - (number == 0 ? 0 : ends_[number - 1])};
}

void StkReader::check_field(std::size_t field, StkKind kind) const {
    const auto& fields = schema().fields;
    const bool fits = field < fields.size() && (fields[field].kind == kind ||
                                                (kind == StkKind::integer && fields[field].kind == StkKind::label));
    if (!fits) {
        throw InvalidArgument({.where = directory_.string(),
                               .expected = fmt::format("a field of kind {}", kind_name(kind)),
                               .got = fmt::format("field {}", field)});
    }
}

std::string_view StkReader::key(std::int64_t index) const {
    const Place at = place(index);
    return at.shard.key(at.sample);
}

StkImage StkReader::image(std::size_t field, std::int64_t index) const {
    check_field(field, StkKind::image);
    const Place at = place(index);
    return at.shard.image(field, at.sample);
}

void StkReader::prefetch_image(std::size_t field, std::int64_t index) const {
    const Place at = place(index);
    at.shard.prefetch_image(field, at.sample);
}

std::int64_t StkReader::integer(std::size_t field, std::int64_t index) const {
    check_field(field, StkKind::integer);
    const Place at = place(index);
    return at.shard.integer(field, at.sample);
}

double StkReader::number(std::size_t field, std::int64_t index) const {
    check_field(field, StkKind::number);
    const Place at = place(index);
    return at.shard.number(field, at.sample);
}

StkBytes StkReader::bytes(std::size_t field, std::int64_t index) const {
    check_field(field, StkKind::bytes);
    const Place at = place(index);
    return at.shard.bytes(field, at.sample);
}

TensorView StkReader::tensor(std::size_t field, std::int64_t index) const {
    check_field(field, StkKind::tensor);
    const Place at = place(index);
    return at.shard.tensor(field, at.sample);
}

void StkReader::read(std::int64_t index, std::span<const std::byte> payload, std::span<std::byte> out) const {
    place(index).shard.read(payload, out);
}

void StkReader::verify(std::int64_t index) const {
    const Place at = place(index);
    at.shard.verify(at.sample);
}

// ---- StkSource ----

StkSource::StkSource(const fs::path& directory) : path_(directory.string()), reader_(directory) {
    const std::optional<std::size_t> image = reader_.schema().first(StkKind::image);
    if (!image) {
        throw DataError({.path = path_}, {.where = "stk", .expected = "a field of kind image", .got = "none"});
    }
    image_ = *image;
    label_ = reader_.schema().first(StkKind::label);
}

void StkSource::read(std::int64_t index, Sample& sample) const {
    const StkImage found = image(index);
    sample.bytes = found.bytes;
    if (found.bytes.size() >= kReadBytes) {
        sample.storage.resize(found.bytes.size());
        reader_.read(index, found.bytes, sample.storage.bytes());
        sample.bytes = sample.storage.bytes();
    }
    sample.encoded = found.codec != StkCodec::raw;
    sample.height = found.height;
    sample.width = found.width;
    sample.channels = found.channels;
    sample.label = *label(index);
}

void StkSource::prefetch(std::span<const std::int64_t> indices) const {
    const auto soon = prefetched(indices);
    for (const std::int64_t index : soon) {
        reader_.prefetch_image(image_, index);
    }
    for (const std::int64_t index : soon) {
        if (const auto bytes = image(index).bytes; bytes.size() < kReadBytes) {
            prefetch_memory(bytes.data(), bytes.size());
        }
    }
}

std::span<const std::string> StkSource::classes() const {
    return label_ ? std::span<const std::string>(reader_.schema().fields[*label_].classes)
                  : std::span<const std::string>();
}

std::map<std::string, std::int64_t> StkSource::codecs() const {
    std::map<StkCodec, std::int64_t> counts;
    for (const StkShard& shard : reader_.shards()) {
        for (std::int64_t i = 0; i < shard.samples(); ++i) {
            ++counts[shard.image(image_, i).codec];
        }
    }
    std::map<std::string, std::int64_t> named;
    for (const auto& [codec, count] : counts) {
        named[stk_codec_name(codec)] = count;
    }
    return named;
}

std::vector<std::int64_t> StkSource::class_counts() const {
    std::vector<std::int64_t> counts(classes().size());
    for (std::int64_t i = 0; i < size(); ++i) {
        const std::int64_t at = *label(i);
        if (at >= 0 && at < static_cast<std::int64_t>(counts.size())) {
            ++counts[static_cast<std::size_t>(at)];
        }
    }
    return counts;
}

}  // namespace stoker
