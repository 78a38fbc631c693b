// Opens the shards that the manifest lists and compares each with its entry there.
#include "stoker/formats/stk/stk.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/prefetch.h"
#include "stoker/formats/array.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk_clip.h"
#include "stoker/formats/stk/stk_manifest.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

void check_not_empty(const StkManifest& manifest, const std::string& path) {
    if (manifest.shards.empty()) {
        throw DataError({.path = path}, {.where = "stk", .expected = "at least one shard", .got = "none"});
    }
}

StkManifest read_finished_manifest(const fs::path& directory) {
    std::error_code unknown;
    if (!fs::exists(directory / kStkManifest, unknown) && fs::exists(directory / kStkPartManifest, unknown)) {
        throw DataError({.path = directory.string()}, {.where = "stk",
                                                       .expected = "a finished data set",
                                                       .got = "an unfinished packing",
                                                       .hint = "run the same `stoker pack` again to finish it"});
    }
    StkManifest manifest = read_manifest(directory / kStkManifest);
    check_not_empty(manifest, (directory / kStkManifest).string());
    return manifest;
}

void check_shard(const StkShard& shard, const StkShardInfo& listed, std::size_t number, std::uint64_t first,
                 const StkSchema& schema) {
    const StkShardInfo found{
        .samples = static_cast<std::uint64_t>(shard.samples()), .bytes = shard.bytes(), .hash = shard.hash()};
    if (found != listed || shard.number() != number || shard.first() != first) {
        throw DataError({.path = shard.path()},
                        {.where = "stk",
                         .expected = fmt::format("shard {}: {} samples from index {} on, {} bytes, hash {:016x}",
                                                 number, listed.samples, first, listed.bytes, listed.hash),
                         .got = fmt::format("shard {}: {} samples from index {} on, {} bytes, hash {:016x}",
                                            shard.number(), found.samples, shard.first(), found.bytes, found.hash),
                         .hint = "the shard belongs to another data set: copy the whole folder again, or pack again"});
    }
    if (shard.schema() != schema) {
        throw DataError({.path = shard.path()},
                        {.where = "stk", .expected = "the fields of the first shard", .got = "other fields"});
    }
}

}  // namespace

StkReader::StkReader(const fs::path& directory) : name_(directory.string()) {
    const StkManifest manifest = read_finished_manifest(directory);
    bytes_ = static_cast<std::int64_t>(fs::file_size(directory / kStkManifest));
    shards_.reserve(manifest.shards.size());
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
        add_shard(StkShard(directory / stk_shard_name(i)), manifest);
    }
    origin_ = manifest.origin;
}

StkReader::StkReader(const std::string& url, const RemoteOptions& options) : name_(shown_name(url)) {
    const std::unique_ptr<ByteFile> file = open_byte_file(stk_url(url, kStkManifest), options);
    const StkManifest manifest = read_manifest(*file);
    check_not_empty(manifest, file->name());
    bytes_ = static_cast<std::int64_t>(file->size());
    const auto count = static_cast<std::int64_t>(manifest.shards.size());
    std::vector<std::optional<StkShard>> opened(manifest.shards.size());
    parallel_for(kRemoteThreads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
            opened[i].emplace(open_byte_file(stk_url(url, stk_shard_name(i)), options));
        }
    });
    shards_.reserve(opened.size());
    for (std::optional<StkShard>& shard : opened) {
        add_shard(std::move(*shard), manifest);
        shard.reset();
    }
    origin_ = manifest.origin;
}

void StkReader::add_shard(StkShard opened, const StkManifest& manifest) {
    const std::size_t number = shards_.size();
    const StkShard& shard = shards_.emplace_back(std::move(opened));
    check_shard(shard, manifest.shards[number], number, static_cast<std::uint64_t>(size_), schema());
    size_ += shard.samples();
    bytes_ += static_cast<std::int64_t>(shard.bytes());
    ends_.push_back(size_);
}

std::size_t StkReader::field(std::string_view name, StkKind kind) const {
    const std::optional<std::size_t> found = schema().find(name);
    if (!found || schema().fields[*found].kind != kind) {
        throw InvalidArgument({.where = name_,
                               .expected = fmt::format("a field {} of kind {}", name, kind_name(kind)),
                               .got = found ? std::string(kind_name(schema().fields[*found].kind)) : "none"});
    }
    return *found;
}

StkReader::Place StkReader::place(std::int64_t index) const {
    if (index < 0 || index >= size_) {
        throw InvalidArgument(
            {.where = name_, .expected = fmt::format("an index below {}", size_), .got = fmt::format("{}", index)});
    }
    const bool in_first = index < ends_.front();  // often the only shard
    const auto number = in_first ? 0 : static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {shards_[number], index - (number == 0 ? 0 : ends_[number - 1])};
}

StkReader::Place StkReader::place(std::size_t field, StkKind kind, std::int64_t index) const {
    const auto& fields = schema().fields;
    const bool fits = field < fields.size() && (fields[field].kind == kind ||
                                                (kind == StkKind::integer && fields[field].kind == StkKind::label));
    if (!fits) {
        throw InvalidArgument({.where = name_,
                               .expected = fmt::format("a field of kind {}", kind_name(kind)),
                               .got = fmt::format("field {}", field)});
    }
    return place(index);
}

std::string_view StkReader::key(std::int64_t index) const {
    const Place at = place(index);
    return at.shard.key(at.sample);
}

StkImage StkReader::image(std::size_t field, std::int64_t index) const {
    const Place at = place(field, StkKind::image, index);
    return at.shard.image(field, at.sample);
}

std::int64_t StkReader::integer(std::size_t field, std::int64_t index) const {
    const Place at = place(field, StkKind::integer, index);
    return at.shard.integer(field, at.sample);
}

double StkReader::number(std::size_t field, std::int64_t index) const {
    const Place at = place(field, StkKind::number, index);
    return at.shard.number(field, at.sample);
}

StkBytes StkReader::bytes(std::size_t field, std::int64_t index) const {
    const Place at = place(field, StkKind::bytes, index);
    return at.shard.bytes(field, at.sample);
}

TensorView StkReader::tensor(std::size_t field, std::int64_t index) const {
    const Place at = place(field, StkKind::tensor, index);
    return at.shard.tensor(field, at.sample);
}

void StkReader::prefetch(std::size_t field, std::span<const std::int64_t> indices) const {
    if (!remote()) {
        return;
    }
    std::vector<std::int64_t> sorted(indices.begin(), indices.end());
    std::ranges::sort(sorted);
    for (auto at = sorted.begin(); at != sorted.end();) {
        const StkShard& shard = place(*at).shard;
        const auto end = static_cast<std::int64_t>(shard.first()) + shard.samples();
        std::vector<ByteRange> ranges;
        for (; at != sorted.end() && *at < end; ++at) {
            ranges.push_back(shard.payload_range(field, place(*at).sample));
        }
        shard.prefetch(merge_ranges(std::move(ranges), kNearBytes));
    }
}

void StkReader::verify(std::int64_t index) const {
    const Place at = place(index);
    at.shard.verify(at.sample);
}

// ---- StkDataset ----

StkDataset::StkDataset(StkReader reader, const std::vector<FieldRequest>& more) : reader_(std::move(reader)) {
    image_ = reader_.schema().first(StkKind::image);
    label_ = reader_.schema().first(StkKind::label);
    map_or_read_ = MapOrRead(static_cast<std::uint64_t>(reader_.bytes()));
    std::ranges::for_each(more, [&](const FieldRequest& request) { add_field(request); });
}

// The shape that a tensor field has in all samples; -1 for a first side that differs.
Shape StkDataset::common_shape(std::size_t column) const {
    Shape common = reader_.shards().front().tensor_shape(column, 0);
    for (const StkShard& shard : reader_.shards()) {
        for (std::int64_t i = 0; i < shard.samples(); ++i) {
            const Shape shape = shard.tensor_shape(column, i);
            if (!shape.empty() && shape.front() != common.front()) {
                common.front() = -1;
            }
            if (!std::equal(shape.begin() + (shape.empty() ? 0 : 1), shape.end(),
                            common.begin() + (common.empty() ? 0 : 1))) {
                throw Unsupported(
                    {.where = fmt::format("{}:{}", path(), reader_.schema().fields[column].name),
                     .expected = "tensors that differ in their first side only",
                     .got = fmt::format("({}) and ({})", fmt::join(common, ", "), fmt::join(shape, ", "))});
            }
        }
    }
    return common;
}

void StkDataset::add_field(const FieldRequest& request) {
    std::vector<std::string> names;
    std::ranges::transform(reader_.schema().fields, std::back_inserter(names), &StkField::name);
    const std::string& name = present_name(request, names);
    const std::optional<std::size_t> found = reader_.schema().find(name);
    if (!found) {
        throw DataError({.path = path()}, {.where = "stk", .expected = "a field " + name, .got = "none"});
    }
    const StkField& stored = reader_.schema().fields[*found];
    DType dtype = DType::int64;
    Shape shape;
    switch (stored.kind) {
        case StkKind::label:
        case StkKind::integer:
            break;
        case StkKind::number:
            dtype = DType::float64;
            break;
        case StkKind::bytes:
            dtype = DType::uint8;
            shape = {-1};
            break;
        case StkKind::tensor:
            dtype = stored.dtype;
            shape = common_shape(*found);
            break;
        case StkKind::image:
            dtype = DType::uint8;
            break;
    }
    if (stored.kind == StkKind::image) {
        const FieldKind kind = request.kind.value_or(FieldKind::image);
        if (!has_pixels(kind)) {
            throw Unsupported({.where = fmt::format("{}:{}", path(), name),
                               .expected = "is = \"image\" or \"mask\" for a field of images",
                               .got = std::string(field_kind_name(kind))});
        }
        fields_.push_back({.name = request.name, .kind = kind, .dtype = dtype});
    } else {
        FieldRequest known = request;
        if (!known.kind && stored.kind == StkKind::bytes) {
            known.kind = FieldKind::bytes;
        }
        fields_.push_back(array_field(known, dtype, shape, fmt::format("{}:{}", path(), name)));
    }
    columns_.push_back(*found);
}

void StkDataset::read_field(std::size_t at, const StkReader::Place& place, Sample& sample) const {
    const StkShard& shard = place.shard;
    const std::size_t column = columns_[at];
    const StkKind kind = reader_.schema().fields[column].kind;
    if (kind == StkKind::label || kind == StkKind::integer) {
        sample.field(at).copy_elements(std::array{shard.integer(column, place.sample)});
    } else if (kind == StkKind::number) {
        sample.field(at).copy_elements(std::array{shard.number(column, place.sample)});
    } else {
        FieldValue& value = sample.field(at);
        value.storage.resize(static_cast<std::size_t>(shard.payload_range(column, place.sample).size));
        shard.read(column, place.sample, value.storage.bytes());
        value.set_raw(value.storage.bytes(), 0, 0, 0);
        if (kind == StkKind::image) {
            StkImage image = shard.image(column, place.sample);
            image.bytes = value.storage.bytes();
            image.codec == StkCodec::clip ? set_stk_clip(image.bytes, value) : set_stk_image(image, value);
        } else if (kind == StkKind::tensor && has_pixels(fields_[at].kind)) {  // array_field took its shape
            const Shape shape = shard.tensor_shape(column, place.sample);
            const ImageArray pixels = image_array(fields_[at].dtype, shape, fields_[at].kind == FieldKind::mask);
            set_pixels(pixels, false, value.storage.bytes(), value);
        }
    }
}

StkImage StkDataset::image(std::int64_t index) const {
    if (!image_) {
        throw InvalidArgument({.where = path(), .expected = "samples with images", .got = "none"});
    }
    return reader_.image(*image_, index);
}

void StkDataset::read(std::int64_t index, Sample& sample) const {
    const StkReader::Place place = reader_.place(index);
    const StkShard& shard = place.shard;
    StkImage found = image_ ? shard.image(*image_, place.sample) : StkImage{};
    const bool mapped_clip = found.codec == StkCodec::clip && !shard.remote();  // few of its frames are read
    if (image_ && !mapped_clip &&
        (shard.remote() || !map_or_read_(found.bytes.size(), [&] { return shard.in_memory(*image_, place.sample); }))) {
        sample.storage.resize(static_cast<std::size_t>(shard.payload_range(*image_, place.sample).size));
        shard.read(*image_, place.sample, sample.storage.bytes());
        found.bytes = sample.storage.bytes();
    }
    if (found.codec == StkCodec::clip) {
        set_stk_clip(found.bytes, sample);
    } else {
        set_stk_image(found, sample);
    }
    sample.label = label_ ? shard.integer(*label_, place.sample) : -1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        read_field(i, place, sample);
    }
}

std::optional<std::int64_t> StkDataset::entries(std::int64_t index, std::size_t at) const {
    if (reader_.schema().fields[columns_[at]].kind != StkKind::tensor) {
        return std::nullopt;
    }
    const StkReader::Place place = reader_.place(index);
    return place.shard.tensor_shape(columns_[at], place.sample).front();
}

// Only for remote shards; local ones are read in any order.
std::vector<std::int64_t> StkDataset::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (reader_.remote()) {
        for (const StkShard& shard : reader_.shards()) {
            sizes.push_back(shard.samples());
        }
    }
    return sizes;
}

void StkDataset::prefetch(std::span<const std::int64_t> indices) const {
    if (reader_.remote()) {
        if (image_) {
            reader_.prefetch(*image_, indices);
        }
        for (const std::size_t column : columns_) {
            if (reader_.schema().fields[column].has_payload()) {
                reader_.prefetch(column, indices);
            }
        }
        return;
    }
    if (!image_) {
        return;
    }
    // Prefetch all index entries first, so that their cache misses overlap.
    const std::size_t image = *image_;
    const std::size_t label = label_.value_or(image);
    std::vector<StkReader::Place> places;
    places.reserve(indices.size());
    for (const std::int64_t index : indices) {
        const StkReader::Place& at = places.emplace_back(reader_.place(index));
        if (places.size() <= kPrefetchSamples) {
            at.shard.prefetch_entry(image, at.sample);
            at.shard.prefetch_entry(label, at.sample);
        }
    }
    std::size_t ahead = 0;
    for (const StkReader::Place& at : places) {
        const StkImage found = at.shard.image(image, at.sample);
        if (found.codec != StkCodec::clip) {  // most of its frames are not read
            prefetch_bytes(found.bytes, ahead++, [&] { at.shard.will_need(image, at.sample); });
        }
    }
}

std::span<const std::string> StkDataset::classes() const {
    return label_ ? std::span<const std::string>(reader_.schema().fields[*label_].classes)
                  : std::span<const std::string>();
}

std::map<std::string, std::int64_t> StkDataset::codecs() const {
    if (!image_) {
        return {{"none", size()}};
    }
    std::map<StkCodec, std::int64_t> counts;
    for (const StkShard& shard : reader_.shards()) {
        for (std::int64_t i = 0; i < shard.samples(); ++i) {
            ++counts[shard.image(*image_, i).codec];
        }
    }
    std::map<std::string, std::int64_t> named;
    for (const auto& [codec, count] : counts) {
        named[stk_codec_name(codec)] = count;
    }
    return named;
}

}  // namespace stoker
