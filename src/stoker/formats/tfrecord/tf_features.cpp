// Opening a TFRecord data set: which features are its image, label, classes and further fields.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>

#include "stoker/base/error.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/tfrecord/tfrecord.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// The value of a feature that holds one.
std::span<const std::byte> bytes_or_none(const TfFeature& feature) {
    return feature.kind == TfKind::bytes && count_values(feature) == 1 ? single_bytes(feature)
                                                                       : std::span<const std::byte>();
}

constexpr std::size_t kListed = 20;

std::string listed(std::span<const std::string> names) {
    return names.empty() ? "no features"
                         : fmt::format("{}{}", fmt::join(names.first(std::min(names.size(), kListed)), ", "),
                                       names.size() > kListed ? ", ..." : "");
}

}  // namespace

// Records behind a network and in compressed shards are taken from the first shard.
std::vector<std::int64_t> TfRecordDataset::probes() const {
    if (const std::vector<std::int64_t> shards = shard_sizes(); !shards.empty()) {
        std::vector<std::int64_t> first(static_cast<std::size_t>(std::min(shards.front(), kProbedSamples)));
        std::iota(first.begin(), first.end(), std::int64_t{0});
        return first;
    }
    return probed_samples(size());
}

// Looks at records until one has an image.
void TfRecordDataset::find_features() {
    std::set<std::string> all;
    std::set<std::string> images;
    std::set<std::string> recordings;
    std::exception_ptr bad;
    Buffer storage;
    for (const std::int64_t index : probes()) {
        const Place at = place(index);
        try {
            with_place(where(at), [&] {
                const auto data = data_of(at, storage);
                if (is_sequence_example(data)) {
                    throw Unsupported({.where = path_,
                                       .expected = "records of tf.train.Example",
                                       .got = "tf.train.SequenceExample",
                                       .hint = "write each step, or its features as lists, as an Example"});
                }
                for (const NamedTfFeature& found : all_tf_features(data)) {
                    const auto bytes = bytes_or_none(found.feature);
                    all.insert(found.name);
                    if (is_encoded_image(bytes) || is_npy(bytes)) {
                        images.insert(found.name);
                    } else if (is_video(bytes) || is_sound(bytes)) {
                        recordings.insert(found.name);
                    }
                }
            });
        } catch (const DataError&) {  // a bad sample, unless all of them are
            bad = bad == nullptr ? std::current_exception() : bad;
        }
        if (!images.empty()) {
            break;
        }
    }
    if (all.empty() && bad != nullptr) {
        std::rethrow_exception(bad);
    }
    all_.assign(all.begin(), all.end());
    const std::set<std::string>& kind = images.empty() ? recordings : images;
    choose_image(std::vector<std::string>(kind.begin(), kind.end()), all_);
    find_label(all_);
}

void TfRecordDataset::choose_image(std::span<const std::string> images, std::span<const std::string> all) {
    images_ = true;
    if (!names_.image.empty()) {
        image_ = stoker::find_fields(all, {.image = names_.image, .label = ""}, Split::train, path_).image;
        return;
    }
    std::vector<std::string> free;  // not asked for as further fields
    std::ranges::copy_if(images, std::back_inserter(free), [&](const std::string& name) {
        return std::ranges::none_of(names_.more, [&](const FieldRequest& request) {
            return TfFieldSource(request, all, path_).names.front() == name;
        });
    });
    if (!free.empty()) {
        image_ = stoker::find_fields(free, {}, Split::train, path_).image;
    } else if (names_.more.empty()) {
        throw DataError({.path = path_}, {.where = "tfrecord",
                                          .expected = "a feature that holds an encoded image",
                                          .got = listed(all),
                                          .hint = "read features as further fields ([data.fields], --field)"});
    } else {
        images_ = false;
    }
}

void TfRecordDataset::find_label(std::span<const std::string> all) {
    const auto found = std::ranges::find_if(
        label_names_.names, [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); });
    label_ = found == label_names_.names.end() ? "" : *found;
    const bool labels = std::ranges::any_of(indices_, &TfIndex::has_labels);
    if (!labels && label_.empty() && label_names_.strict && !names_.unlabelled) {
        throw DataError({.path = path_}, {.where = "tfrecord",
                                          .expected = fmt::format("records with the feature {}", names_.label),
                                          .got = listed(all)});
    }
}

void TfRecordDataset::find_fields() {
    for (const FieldRequest& request : names_.more) {
        const std::string where = fmt::format("{}:{}", path_, request.source());
        sources_.emplace_back(request, all_, where);
        fields_.push_back(describe(request, sources_.back()));
        wanted_.insert(wanted_.end(), sources_.back().names.begin(), sources_.back().names.end());
    }
    if (images_) {
        wanted_.push_back(image_);
    }
}

// The field as the readable ones of some samples say; a number of values that differs between them is any length.
Field TfRecordDataset::describe(const FieldRequest& request, const TfFieldSource& source) const {
    const std::string shown = fmt::format("{}:{}", path_, request.source());
    Buffer storage;
    Field field = common_field(
        probes(),
        [&](std::int64_t index) {
            const Place at = place(index);
            return with_place(where(at), [&] {
                return describe_tf_field(request, source, find_tf_features(data_of(at, storage), source.names), shown);
            });
        },
        shown);
    make_scalar(field, request);
    return field;
}

std::vector<Field> TfRecordDataset::stored_fields() const {
    std::vector<Field> found;
    for (const std::string& name : all_) {
        if ((images_ && name == image_) || name == label_) {
            continue;
        }
        try {
            const FieldRequest request{.name = name};
            Field field = describe(request, TfFieldSource(request, all_, path_));
            field.kind = field.kind == FieldKind::image   ? guessed_image_kind(name)
                         : field.kind == FieldKind::value ? guessed_kind(name, field.dtype, field.shape)
                                                          : field.kind;
            found.push_back(std::move(field));
        } catch (const DataError&) {  // lists of several texts
        } catch (const Unsupported&) {
        }
    }
    return found;
}

void TfRecordDataset::find_classes() {
    std::int32_t largest = -1;
    for (const TfIndex& index : indices_) {
        largest = std::max(largest, index.max_label());
    }
    if (!shards_.files().remote()) {
        const fs::path first = shards_.files().name(0);
        std::string stored = label_;
        std::ranges::replace(stored, '/', '-');
        std::vector<fs::path> files =
            class_name_files(first.parent_path() / (tfrecord_set_name(first.filename().string()) + ".tfrecord"));
        if (!stored.empty()) {
            files.insert(files.begin(), first.parent_path() / (stored + ".labels.txt"));
        }
        classes_ = read_class_names(files, largest);
    }
    if (classes_.empty()) {
        classes_ = numbered_classes(std::int64_t{largest} + 1);
    }
}

}  // namespace stoker
