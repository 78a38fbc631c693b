// Finds a sample through the shards' indices and reads its bytes. Encoded images are not checked here; decoders do.
#include "stoker/formats/webdataset/webdataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/prefetch.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/shard_names.h"
#include "stoker/formats/webdataset/sample_grouper.h"

namespace stoker {
namespace {

// Empty for a clip: which frames are read is not known before.
ByteRange range_of(const TarIndexEntry& entry) {
    return entry.image == static_cast<std::uint32_t>(TarImage::frames) ? ByteRange{}
                                                                       : ByteRange{entry.offset, entry.size};
}

ByteRange range_of(const TarFieldPlace& place) {
    return {place.offset, place.size};
}

}  // namespace

WebDataset::WebDataset(const std::string& spec, const OpenOptions& options)
    : WebDataset(spec, shard_names(spec, options.remote), options.fields,
                 [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); }) {}

WebDataset::WebDataset(std::string path, std::vector<std::string> shards, const FieldNames& fields,
                       ShardFiles::Open open, std::size_t most_open)
    : path_(shown_name(path)), shards_(std::move(shards), std::move(open), most_open), names_(fields) {
    open_shards();
    if (take_own_names()) {
        open_shards();
    }
    images_ = std::ranges::any_of(indices_, &TarIndex::has_images);
    check_fields(fields);
    find_classes();
    find_fields(fields.more);
}

void WebDataset::open_shards() {
    std::vector<std::optional<TarIndex>> found(shards_.files().size());
    shards_.index([&](std::size_t shard, const ByteFile& file) {
        found[shard] = cached_tar_index(file, names_);
        return found[shard]->size();
    });
    indices_.clear();
    for (std::optional<TarIndex>& index : found) {
        indices_.push_back(std::move(*index));
    }
}

// Packed shards have fields under their own names. True if a field that they lack is asked for by its own name now.
bool WebDataset::take_own_names() {
    bool taken = false;
    for (std::size_t i = 0; i < names_.more.size(); ++i) {
        FieldRequest& request = names_.more[i];
        if (request.source() != request.name && find_members(i).first.empty()) {
            request.from.clear();
            taken = true;
        }
    }
    return taken;
}

void WebDataset::check_fields(const FieldNames& fields) const {
    const bool labels = std::ranges::any_of(indices_, &TarIndex::has_labels);
    const bool image = size() > 0;
    if (image && (labels || fields.label.empty() || fields.unlabelled)) {
        return;
    }
    const std::string present = extensions();
    const std::string name = image ? fields.label : fields.image;
    throw DataError(
        {.path = path_},
        {.where = "webdataset",
         .expected = image          ? fmt::format("samples with the label {}", name)
                     : name.empty() ? std::string("samples with an image: jpg, png, webp, bmp, ppm, tif, dct or npy")
                                    : fmt::format("samples with the image {}", name),
         .got = present.empty() ? "no samples at all" : "none; there are " + present,
         .hint = image || present.empty()
                     ? ""
                     : "name its extension with data.fields.image (--image-field), or read members as further fields"});
}

std::string WebDataset::advice() const {
    std::int64_t count = 0;
    std::string_view key;
    for (const TarIndex& index : indices_) {
        key = key.empty() ? index.left_out_key() : key;
        count += index.left_out();
    }
    return count == 0 ? ""
                      : fmt::format("left out: {} without one image ({}{})", pluralize(count, "sample"), key,
                                    count > 1 ? ", ..." : "");
}

// The extensions of one shard.
std::string WebDataset::extensions() const {
    std::set<std::string_view> listed;
    for (const TarIndex& index : indices_) {
        listed.insert(index.extensions());
    }
    return listed.empty() ? "" : std::string(*listed.rbegin());
}

void WebDataset::find_fields(const std::vector<FieldRequest>& requests) {
    sources_ = std::vector<TarFieldSource>(names_.more.begin(), names_.more.end());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        fields_.push_back(describe(requests[i], i));
    }
}

// The field as the first readable sample that has it says. Arrays of one shape have files of one size, so the sizes say
// whether the shapes differ; lists in JSON are compared in some samples.
Field WebDataset::describe(const FieldRequest& request, std::size_t at) const {
    const std::string where = fmt::format("{}:{}", path_, request.source());
    const FieldMembers members = find_members(at);
    if (members.first.empty()) {
        throw DataError({.path = path_}, {.where = "webdataset",
                                          .expected = fmt::format("samples with the field {}", request.source()),
                                          .got = "none; there are " + extensions()});
    }
    const bool json = !sources_[at].key.empty();
    const auto described = [&](std::int64_t sample) {
        const Place found = place(sample);
        const TarFieldPlace& member = indices_[found.shard].field(found.sample, at);
        Buffer storage;
        return with_place(this->where(found, member.offset), [&] {
            return describe_tar_field(request, sources_[at], shards_.read(found.shard, range_of(member), storage),
                                      members.sizes_differ && !json, where);
        });
    };
    if (json) {
        std::vector<std::int64_t> probes = probed_samples(size());
        std::erase_if(probes, [&](std::int64_t sample) {
            const Place probe = place(sample);
            return indices_[probe.shard].field(probe.sample, at).present == 0;
        });
        return common_field(probes.empty() ? members.first : probes, described, where);
    }
    for (std::size_t i = 0; i + 1 < members.first.size(); ++i) {
        try {
            return described(members.first[i]);
        } catch (const DataError&) {  // a bad sample, unless all of them are
        } catch (const Unsupported&) {
        }
    }
    return described(members.first.back());
}

WebDataset::FieldMembers WebDataset::find_members(std::size_t at) const {
    FieldMembers found;
    std::optional<std::uint32_t> size;
    std::int64_t sample = 0;
    for (const TarIndex& index : indices_) {
        for (std::int64_t i = 0; i < index.size(); ++i, ++sample) {
            const TarFieldPlace& place = index.field(i, at);
            if (place.present == 0) {
                continue;
            }
            if (std::ssize(found.first) < kProbedSamples) {
                found.first.push_back(sample);
            }
            size = size.value_or(place.size);
            found.sizes_differ = found.sizes_differ || place.size != size;
        }
    }
    return found;
}

void WebDataset::find_classes() {
    std::int32_t largest = -1;
    for (const TarIndex& index : indices_) {
        largest = std::max(largest, index.max_label());
    }
    if (!shards_.files().remote()) {
        classes_ = read_class_names(shards_.files().name(0), largest);
    }
    if (classes_.empty()) {
        classes_ = numbered_classes(std::int64_t{largest} + 1);
    }
}

WebDataset::Place WebDataset::place(std::int64_t index) const {
    check_index(index);
    return shards_.place(index);
}

DataPlace WebDataset::where(const Place& at, std::uint64_t offset) const {
    return {.path = shown_name(shards_.files().name(at.shard)),
            .key = std::string(indices_[at.shard].key(at.sample)),
            .offset = static_cast<std::int64_t>(offset)};
}

void WebDataset::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    const TarIndexEntry& entry = indices_[at.shard][at.sample];
    if (entry.label == kBadTarLabel && !names_.unlabelled) {
        throw DataError(where(at, entry.offset),
                        {.where = "webdataset",
                         .expected = fmt::format("a class index of 0 to {} as label", kMaxTarLabel),
                         .got = "other content"});
    }
    sample.label = names_.unlabelled ? -1 : entry.label;
    read_image(at, entry, sample);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        read_field(at, i, sample);
    }
}

void WebDataset::read_image(const Place& at, const TarIndexEntry& entry, Sample& sample) const {
    const auto stored = static_cast<TarImage>(entry.image);
    if (stored == TarImage::none) {
        if (images_) {
            throw DataError(where(at, 0), {.where = "webdataset", .expected = "an image", .got = "none"});
        }
        sample.set_raw({}, 0, 0, 0);
        return;
    }
    if (stored == TarImage::frames) {
        read_frames(at, entry, sample);
        return;
    }
    try {
        set_image_file(shards_.read(at.shard, range_of(entry), sample.storage), sample, names_.clips);
        if (stored == TarImage::npy && sample.encoded) {
            refuse_npy(0, "a .npy file", describe_bytes(sample.bytes));
        }
    } catch (const DataError& error) {
        throw error.located(where(at, entry.offset));
    }
}

void WebDataset::read_frames(const Place& at, const TarIndexEntry& entry, Sample& sample) const {
    const std::span<const TarFieldPlace> frames = indices_[at.shard].frames(entry);
    for (const std::int64_t number : sample.begin_clip(std::ssize(frames))) {
        const TarFieldPlace& frame = frames[static_cast<std::size_t>(number)];
        FieldValue& value = sample.frames.emplace_back();
        try {
            set_image_file(shards_.read(at.shard, range_of(frame), value.storage), value);
        } catch (const DataError& error) {
            throw error.located(where(at, frame.offset));
        }
    }
}

void WebDataset::read_field(const Place& at, std::size_t field, Sample& sample) const {
    const TarFieldPlace& stored = indices_[at.shard].field(at.sample, field);
    const TarFieldSource& source = sources_[field];
    try {
        if (stored.present == 0) {
            throw DataError(
                {}, {.where = "webdataset",
                     .expected = fmt::format("a member {} for the field {}", source.extension, fields_[field].name),
                     .got = "none"});
        }
        FieldValue& value = sample.field(field);
        read_tar_field(fields_[field], source, shards_.read(at.shard, range_of(stored), value.storage), value);
    } catch (const DataError& error) {
        throw error.located(where(at, stored.offset));
    }
}

std::string WebDataset::key(std::int64_t index) const {
    const auto [shard, sample] = place(index);
    return std::string(indices_[shard].key(sample));
}

std::optional<std::int64_t> WebDataset::label(std::int64_t index) const {
    const auto [shard, sample] = place(index);
    const std::int32_t label = indices_[shard][sample].label;
    return label == kBadTarLabel ? std::nullopt : std::optional<std::int64_t>(label);
}

void WebDataset::prefetch(std::span<const std::int64_t> indices) const {
    for (const std::int64_t index : prefetched(indices)) {
        const Place at = place(index);
        __builtin_prefetch(&indices_[at.shard][at.sample]);
    }
    shards_.prefetch(indices, [&](const Place& at, std::vector<ByteRange>& ranges) {
        ranges.push_back(range_of(indices_[at.shard][at.sample]));
        for (std::size_t i = 0; i < fields_.size(); ++i) {
            ranges.push_back(range_of(indices_[at.shard].field(at.sample, i)));
        }
    });
}

// Only for remote shards; local ones are read in any order.
std::vector<std::int64_t> WebDataset::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (shards_.files().remote()) {
        for (const TarIndex& index : indices_) {
            sizes.push_back(index.size());
        }
        std::erase(sizes, 0);
    }
    return sizes;
}

}  // namespace stoker
