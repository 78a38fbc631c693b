// Finds a sample through the shards' indices and reads its bytes. Encoded images are not checked here; decoders do.
#include "stoker/formats/webdataset/webdataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/prefetch.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/shard_names.h"

namespace stoker {
namespace {

void read_npy(const auto& where, Sample& sample) {
    try {
        const ArrayView array = parse_npy(sample.bytes);
        const ImageArray layout = image_array(array.type, array.shape);
        const bool transposed = array.fortran || (layout.planes && layout.channels > 1);
        const Buffer file = transposed ? std::move(sample.storage) : Buffer();  // input and output must not overlap
        set_pixels(layout, array.fortran, array.bytes, sample);
    } catch (const DataError& error) {
        throw error.located(where());
    }
}

}  // namespace

WebDataset::WebDataset(const std::string& spec, const OpenOptions& options)
    : WebDataset(spec, shard_names(spec), options.fields,
                 [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); }) {}

WebDataset::WebDataset(std::string path, std::vector<std::string> shards, const FieldNames& fields,
                       ShardFiles::Open open, std::size_t most_open)
    : path_(shown_name(path)), files_(std::move(shards), std::move(open), most_open) {
    open_shards(fields);
    check_fields(fields);
    find_classes();
}

void WebDataset::open_shards(const FieldNames& fields) {
    const auto count = static_cast<std::int64_t>(files_.size());
    std::vector<std::optional<TarIndex>> found(files_.size());
    std::vector<std::uint64_t> sizes(files_.size());
    const auto work = [&](std::int64_t begin, std::int64_t end) {
        for (auto shard = static_cast<std::size_t>(begin); shard < static_cast<std::size_t>(end); ++shard) {
            const ShardFiles::Handle file = files_.open(shard);
            sizes[shard] = file->size();
            found[shard] = cached_tar_index(*file, fields);
        }
    };
    const int threads = files_.remote() ? kRemoteThreads : cpu_cores().usable;
    parallel_for(threads, count, 1, work);
    std::int64_t end = 0;
    for (std::size_t shard = 0; shard < files_.size(); ++shard) {
        indices_.push_back(std::move(*found[shard]));
        end += indices_.back().size();
        ends_.push_back(end);
        bytes_ += static_cast<std::int64_t>(sizes[shard]);
    }
    map_or_read_ = MapOrRead(static_cast<std::uint64_t>(bytes_));
}

void WebDataset::check_fields(const FieldNames& fields) const {
    const bool labels = std::ranges::any_of(indices_, &TarIndex::has_labels);
    const bool image = size() > 0;
    if (image && (labels || fields.label.empty())) {
        return;
    }
    std::set<std::string_view> listed;
    for (const TarIndex& index : indices_) {
        listed.insert(index.extensions());
    }
    const std::string present = listed.empty() ? "" : std::string(*listed.rbegin());
    const std::string name = image ? fields.label : fields.image;
    throw DataError(
        {.path = path_},
        {.where = "webdataset",
         .expected = image          ? fmt::format("samples with the label {}", name)
                     : name.empty() ? std::string("samples with an image: jpg, png, webp, bmp, ppm, dct or npy")
                                    : fmt::format("samples with the image {}", name),
         .got = present.empty() ? "no samples at all" : "none; there are " + present,
         .hint = image || present.empty() ? "" : "name the extension with data.fields.image"});
}

void WebDataset::find_classes() {
    std::int32_t largest = -1;
    for (const TarIndex& index : indices_) {
        largest = std::max(largest, index.max_label());
    }
    if (!files_.remote()) {
        classes_ = read_class_names(files_.name(0), largest);
    }
    if (classes_.empty()) {
        classes_ = numbered_classes(std::int64_t{largest} + 1);
    }
}

WebDataset::Place WebDataset::place(std::int64_t index) const {
    check_index(index);
    const auto shard = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {.shard = shard, .sample = index - (ends_[shard] - indices_[shard].size())};
}

std::span<const std::byte> WebDataset::bytes_of(const TarIndexEntry& entry, std::size_t shard, Buffer& storage) const {
    const ShardFiles::Handle file = files_.open(shard);
    const std::span<const std::byte> map = file.stays_open() ? file->map() : std::span<const std::byte>();
    const bool mapped = !map.empty() && entry.offset <= map.size() && entry.size <= map.size() - entry.offset;
    if (mapped && map_or_read_(entry.size, [&] { return file->in_memory(entry.offset, entry.size); })) {
        return map.subspan(entry.offset, entry.size);
    }
    storage.resize(entry.size);
    file->read(entry.offset, storage.bytes());
    return storage.bytes();
}

void WebDataset::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    const TarIndexEntry& entry = indices_[at.shard][at.sample];
    const auto where = [&] {
        return DataPlace{.path = shown_name(files_.name(at.shard)),
                         .key = std::string(indices_[at.shard].key(at.sample)),
                         .offset = static_cast<std::int64_t>(entry.offset)};
    };
    if (entry.label == kBadTarLabel) {
        throw DataError(where(), {.where = "webdataset",
                                  .expected = fmt::format("a class index of 0 to {} as label", kMaxTarLabel),
                                  .got = "other content"});
    }
    sample.set_encoded_image(bytes_of(entry, at.shard, sample.storage));
    sample.label = entry.label;
    if (entry.npy != 0) {
        read_npy(where, sample);
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

void WebDataset::prefetch_mapped(std::span<const std::int64_t> indices) const {
    for (const std::int64_t index : prefetched(indices)) {
        const Place at = place(index);
        __builtin_prefetch(&indices_[at.shard][at.sample]);
    }
    std::size_t ahead = 0;
    for (const std::int64_t index : indices) {
        const Place at = place(index);
        const TarIndexEntry& entry = indices_[at.shard][at.sample];
        const ShardFiles::Handle file = files_.open(at.shard);
        const auto map = file.stays_open() ? file->map() : std::span<const std::byte>();
        if (entry.offset <= map.size() && entry.size <= map.size() - entry.offset) {
            prefetch_bytes(map.subspan(entry.offset, entry.size), ahead++,
                           [&] { file->will_need(entry.offset, entry.size); });
        }
    }
}

void WebDataset::prefetch(std::span<const std::int64_t> indices) const {
    if (!files_.remote()) {
        prefetch_mapped(indices);
        return;
    }
    std::vector<std::int64_t> sorted(indices.begin(), indices.end());
    std::ranges::sort(sorted);
    for (auto at = sorted.begin(); at != sorted.end();) {
        const std::size_t shard = place(*at).shard;
        std::vector<ByteRange> ranges;
        for (; at != sorted.end() && *at < ends_[shard]; ++at) {
            const TarIndexEntry& entry = indices_[shard][place(*at).sample];
            ranges.push_back({entry.offset, entry.size});
        }
        files_.open(shard)->prefetch(merge_ranges(std::move(ranges), kNearBytes));
    }
}

// Only for remote shards; local ones are read in any order.
std::vector<std::int64_t> WebDataset::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (files_.remote()) {
        for (const TarIndex& index : indices_) {
            sizes.push_back(index.size());
        }
        std::erase(sizes, 0);
    }
    return sizes;
}

}  // namespace stoker
