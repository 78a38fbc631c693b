// Finding a sample is arithmetic on the indices; what its bytes are worth is the decoders' to say.
#include "stoker/formats/webdataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/base/thread_pool.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/npy.h"
#include "stoker/formats/numbered_classes.h"
#include "stoker/formats/shard_names.h"

namespace stoker {
namespace {

constexpr int kRemoteThreads = 16;  // they wait for the network, not for a core

// Samples that lie closer to each other than this are fetched in one request.
constexpr std::uint64_t kNear = std::uint64_t{64} << 10;

void read_npy(const DataPlace& place, Sample& sample) {
    try {
        const ArrayView array = parse_npy(sample.bytes);
        const ImageArray layout = image_array(array.type, array.shape);
        const bool turned = array.fortran || (layout.planes && layout.channels > 1);
        const Buffer file = turned ? std::move(sample.storage) : Buffer();  // not onto itself
        set_pixels(layout, array.fortran, array.bytes, sample);
    } catch (const DataError& error) {
        throw error.located(place);
    }
}

// Merges what is near, in order of the offsets.
std::vector<ByteRange> merged(std::vector<ByteRange> ranges) {
    std::ranges::sort(ranges, {}, &ByteRange::offset);
    std::vector<ByteRange> merged;
    for (const ByteRange& range : ranges) {
        if (merged.empty() || range.offset > merged.back().offset + merged.back().size + kNear) {
            merged.push_back(range);
        } else {
            const std::uint64_t end = std::max(merged.back().offset + merged.back().size, range.offset + range.size);
            merged.back().size = end - merged.back().offset;
        }
    }
    return merged;
}

}  // namespace

WebDatasetSource::WebDatasetSource(const std::string& spec, const OpenOptions& options)
    : WebDatasetSource(spec, shard_names(spec), options.fields,
                       [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); }) {}

WebDatasetSource::WebDatasetSource(std::string path, std::vector<std::string> shards, const FieldNames& fields,
                                   ShardFiles::Open open, std::size_t most_open)
    : path_(shown_name(path)), files_(std::move(shards), std::move(open), most_open) {
    open_shards(fields);
    check_fields(fields);
    find_classes();
}

void WebDatasetSource::open_shards(const FieldNames& fields) {
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
    const int threads = files_.remote() ? kRemoteThreads : read_core_budget().usable;
    if (count > 1 && threads > 1) {
        ThreadPool(static_cast<int>(std::min<std::int64_t>(threads, count))).parallel_for(count, 1, work);
    } else {
        work(0, count);
    }
    std::int64_t end = 0;
    for (std::size_t shard = 0; shard < files_.size(); ++shard) {
        indices_.push_back(std::move(*found[shard]));
        end += indices_.back().size();
        ends_.push_back(end);
        bytes_ += static_cast<std::int64_t>(sizes[shard]);
    }
}

void WebDatasetSource::check_fields(const FieldNames& fields) const {
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

void WebDatasetSource::find_classes() {
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

WebDatasetSource::Place WebDatasetSource::place(std::int64_t index) const {
    if (index < 0 || index >= size()) {
        throw InvalidArgument(
            {.where = path_, .expected = fmt::format("an index below {}", size()), .got = fmt::format("{}", index)});
    }
    const auto shard = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {.shard = shard, .sample = index - (ends_[shard] - indices_[shard].size())};
}

void WebDatasetSource::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    const TarSample& entry = indices_[at.shard][at.sample];
    const auto where = [&] {
        return DataPlace{.path = shown_name(files_.name(at.shard)),
                         .key = std::string(indices_[at.shard].key(at.sample)),
                         .offset = static_cast<std::int64_t>(entry.offset)};
    };
    if (entry.label == kBadTarLabel) {
        throw DataError(where(), {.where = "webdataset",
                                  .expected = fmt::format("a class index of 0 to {} as label", kMaxTarLabel),
                                  .got = "something else"});
    }
    sample.storage.resize(entry.size);
    files_.open(at.shard)->read(entry.offset, sample.storage.bytes());
    sample.bytes = sample.storage.bytes();
    sample.encoded = true;
    sample.height = 0;
    sample.width = 0;
    sample.channels = 0;
    sample.label = entry.label;
    if (entry.npy != 0) {
        read_npy(where(), sample);
    }
}

std::string WebDatasetSource::key(std::int64_t index) const {
    const auto [shard, sample] = place(index);
    return std::string(indices_[shard].key(sample));
}

std::optional<std::int64_t> WebDatasetSource::label(std::int64_t index) const {
    const auto [shard, sample] = place(index);
    const std::int32_t label = indices_[shard][sample].label;
    return label == kBadTarLabel ? std::nullopt : std::optional<std::int64_t>(label);
}

void WebDatasetSource::prefetch(std::span<const std::int64_t> indices) const {
    if (!files_.remote()) {
        return;
    }
    std::vector<std::int64_t> sorted(indices.begin(), indices.end());
    std::ranges::sort(sorted);
    for (auto at = sorted.begin(); at != sorted.end();) {
        const std::size_t shard = place(*at).shard;
        std::vector<ByteRange> ranges;
        for (; at != sorted.end() && *at < ends_[shard]; ++at) {
            const TarSample& entry = indices_[shard][place(*at).sample];
            ranges.push_back({entry.offset, entry.size});
        }
        files_.open(shard)->prefetch(merged(std::move(ranges)));
    }
}

// For shards behind a network; local ones are read in any order.
std::vector<std::int64_t> WebDatasetSource::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (files_.remote()) {
        for (const TarIndex& index : indices_) {
            sizes.push_back(index.size());
        }
        std::erase(sizes, 0);
    }
    return sizes;
}

std::int64_t WebDatasetSource::other_samples() const {
    std::int64_t others = 0;
    for (const TarIndex& index : indices_) {
        others += index.others();
    }
    return others;
}

}  // namespace stoker
