// Finds a sample through the shards' indices, reads its record, checks it and parses it.
#include "stoker/formats/tfrecord/tfrecord.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/part_budget.h"
#include "stoker/formats/shard_names.h"

namespace stoker {
namespace {

// Labels of further writers, behind the usual ones of all formats.
constexpr std::string_view kMoreLabels[] = {"class", "target"};

TfLabelNames label_names(const FieldNames& fields) {
    if (!fields.label.empty()) {
        return {.names = {fields.label}, .strict = true};
    }
    TfLabelNames labels;
    const auto add = [&](std::string_view name) {
        if (std::ranges::find(fields.more, name, &FieldRequest::source) == fields.more.end()) {
            labels.names.emplace_back(name);
        }
    };
    std::ranges::for_each(usual_label_names(), add);
    std::ranges::for_each(kMoreLabels, add);
    return labels;
}

// A shard's name for keys: the same for any query of a URL.
std::string key_name(const std::string& shard) {
    return shown_name(without_query(shard));
}

// The length of the folder that all names begin with.
std::size_t common_folder(const ShardFiles& files) {
    const std::string first = key_name(files.name(0));
    std::size_t length = first.rfind('/') + 1;
    for (std::size_t shard = 1; shard < files.size() && length > 0; ++shard) {
        const std::string name = key_name(files.name(shard));
        const auto [end, other] = std::ranges::mismatch(
            first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length), name.begin(), name.end());
        const auto same = static_cast<std::size_t>(end - first.begin());
        length = same < length ? first.substr(0, same).rfind('/') + 1 : length;
    }
    return length;
}

}  // namespace

TfRecordDataset::TfRecordDataset(const std::string& spec, Split split, const OpenOptions& options)
    : TfRecordDataset(spec, tfrecord_shards(spec, split, options.remote), options.fields,
                      [remote = options.remote](const std::string& name) { return open_byte_file(name, remote); }) {}

TfRecordDataset::TfRecordDataset(std::string path, TfRecordShards shards, const FieldNames& fields,
                                 ShardFiles::Open open, std::size_t most_open)
    : path_(shown_name(path)),
      shards_(std::move(shards.names), std::move(open), most_open),
      left_out_(std::move(shards.left_out)),
      names_(fields),
      label_names_(label_names(fields)) {
    open_shards();
    name_shards();
    find_features();
    find_classes();
    find_fields();
}

void TfRecordDataset::open_shards() {
    std::vector<std::optional<TfIndex>> found(shards_.files().size());
    shards_.index([&](std::size_t shard, const ByteFile& file) {
        found[shard] = cached_tf_index(file, label_names_);
        return found[shard]->size();
    });
    PartSizes sizes{.stored = static_cast<std::uint64_t>(bytes())};
    for (std::optional<TfIndex>& index : found) {
        indices_.push_back(std::move(*index));
        if (indices_.back().form() != TfForm::plain) {
            sizes.add(indices_.back().decoded_bytes());
        }
    }
    const std::uint64_t budget = part_budget(sizes).bytes;
    parts_ = std::make_unique<PartCache<Buffer>>(budget);
    decodes_again_ = sizes.decoded > budget;
    if (size() == 0) {
        throw DataError({.path = path_}, {.where = "tfrecord", .expected = "records", .got = "none"});
    }
}

void TfRecordDataset::name_shards() {
    const ShardFiles& files = shards_.files();
    const std::size_t folder = common_folder(files);
    for (std::size_t shard = 0; shard < files.size(); ++shard) {
        key_names_.push_back(key_name(files.name(shard)).substr(folder));
    }
    make_unique(key_names_);
}

TfRecordDataset::Place TfRecordDataset::place(std::int64_t index) const {
    check_index(index);
    return shards_.place(index);
}

std::string TfRecordDataset::key(std::int64_t index) const {
    const Place at = place(index);
    return fmt::format("{}/{}", key_names_[at.shard], at.sample);
}

DataPlace TfRecordDataset::where(const Place& at) const {
    return {.path = shown_name(shards_.files().name(at.shard)),
            .key = fmt::format("record {}", at.sample),
            .offset = static_cast<std::int64_t>(entry(at).offset)};
}

std::span<const std::byte> TfRecordDataset::data_of(const Place& at, Buffer& storage) const {
    const ByteRange range = entry(at).range();
    if (!compressed(at.shard)) {
        return shards_.read_checked(at.shard, range, storage, checked_tf_data);
    }
    const TfIndex& index = indices_[at.shard];
    const auto part = parts_->get(at.shard, [&] {
        return decode_tf_shard(*shards_.files().open(at.shard), index.form(), index.decoded_bytes());
    });
    storage.resize(static_cast<std::size_t>(range.size));
    std::memcpy(storage.data(), part->data() + range.offset, storage.size());
    return checked_tf_data(storage.bytes());
}

void TfRecordDataset::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    with_place(where(at), [&] {
        const std::span<const std::byte> data = data_of(at, sample.storage);
        const std::int32_t label = entry(at).label;
        if (label == kBadTfLabel && !names_.unlabelled) {
            throw DataError({}, {.where = "tfrecord",
                                 .expected = fmt::format("one class index of 0 to {} as label", kMaxTfLabel),
                                 .got = "other values"});
        }
        sample.label = names_.unlabelled ? -1 : label;
        const auto found = find_tf_features(data, wanted_);
        FoundTfFeatures rest = found;
        const bool stays = data.data() != sample.storage.data();
        for (std::size_t i = 0; i < fields_.size(); ++i) {
            const std::size_t count = sources_[i].names.size();
            read_tf_field(fields_[i], sources_[i], rest.first(count), stays, sample.field(i));
            rest = rest.subspan(count);
        }
        if (!images_) {
            sample.set_raw({}, 0, 0, 0);
            return;
        }
        if (!rest.front()) {
            throw DataError(
                {},
                {.where = "tfrecord", .expected = fmt::format("an image as the feature {}", image_), .got = "none"});
        }
        set_encoded(single_bytes(*rest.front()), sample, names_.clips);
    });
}

std::optional<std::int64_t> TfRecordDataset::label(std::int64_t index) const {
    const std::int32_t label = entry(place(index)).label;
    return names_.unlabelled      ? std::optional<std::int64_t>(-1)
           : label == kBadTfLabel ? std::nullopt
                                  : std::optional<std::int64_t>(label);
}

void TfRecordDataset::prefetch(std::span<const std::int64_t> indices) const {
    shards_.prefetch(indices, [&](const Place& at, std::vector<ByteRange>& ranges) {
        if (!compressed(at.shard)) {
            ranges.push_back(entry(at).range());
        } else if (shards_.files().remote()) {
            ranges.push_back({0, shards_.file_size(at.shard)});
        }
    });
}

std::vector<std::int64_t> TfRecordDataset::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (shards_.files().remote() ||
        std::ranges::any_of(indices_, [](const TfIndex& index) { return index.form() != TfForm::plain; })) {
        std::ranges::transform(indices_, std::back_inserter(sizes), &TfIndex::size);
        std::erase(sizes, 0);
    }
    return sizes;
}

std::string TfRecordDataset::advice() const {
    std::string text;
    if (!left_out_.empty()) {
        text = fmt::format("left out: {} of other splits ({}{})", pluralize(std::ssize(left_out_), "shard"),
                           left_out_.front(), left_out_.size() > 1 ? ", ..." : "");
    }
    if (decodes_again_) {
        text += text.empty() ? "" : "; ";
        text +=
            "compressed shards are decoded as a whole: `stoker pack` to x.stk stores samples that are read one by one";
    }
    return text;
}

}  // namespace stoker
