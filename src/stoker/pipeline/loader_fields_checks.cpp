// The checks of a loader: names, channels and kinds of samples that do not fit its options, and values that are not
// their field's, are refused.
#include <fmt/format.h>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/codecs/codec.h"
#include "stoker/formats/image_kind.h"
#include "stoker/pipeline/loader_fields.h"

namespace stoker {
namespace {

// Throws DataError for a value that the data set's field does not have; null: the sample has none.
void check_field(const Field& field, const FieldValue* value) {
    const auto refuse = [&](const std::string& expected, std::string got, std::string hint = "") {
        throw DataError({}, {.where = fmt::format("field {}", field.name),
                             .expected = fmt::format("{} for {}", expected, field.name),
                             .got = std::move(got),
                             .hint = std::move(hint)});
    };
    const std::size_t bytes = value != nullptr ? value->bytes.size() : 0;
    if (has_pixels(field.kind)) {
        if (bytes == 0 && (value == nullptr || value->frames.empty())) {
            refuse("pixels", "none");
        }
        return;
    }
    const std::optional<DType> given = value != nullptr ? value->dtype : std::nullopt;
    if (given.value_or(field.dtype) != field.dtype) {
        refuse(std::string(dtype_name(field.dtype)), std::string(dtype_name(*given)),
               "Dataset::fields() says the type, as Field::dtype");
    }
    const bool fits = field.any_length() ? bytes % field.item_bytes() == 0 : bytes == field.item_bytes();
    if (!fits) {
        refuse(fmt::format("{}{} bytes", field.any_length() ? "a multiple of " : "", field.item_bytes()),
               fmt::to_string(bytes));
    }
}

}  // namespace

void LoaderFields::require_names() const {
    std::set<std::string> names;
    for (const FieldSpec& spec : specs([](int view) { return FieldSpec{.name = view_name(view)}; })) {
        if (!names.insert(spec.name).second) {
            throw InvalidArgument({.where = dataset_.path(),
                                   .expected = "fields of different names, none of them image, label, index or key",
                                   .got = spec.name});
        }
    }
}

void LoaderFields::require_given(int channels, std::optional<ImageSize> size) const {
    if (size && options_.channels != 0 && channels != options_.channels) {
        throw InvalidArgument(
            {.where = dataset_.path(),
             .expected = fmt::format("images of {}, as in training", pluralize(options_.channels, "channel")),
             .got = fmt::to_string(channels)});
    }
}

void LoaderFields::require_clip(const FieldValue& value) const {
    if (options_.clips.frames == 0 || !value.frames.empty()) {
        return;
    }
    if (value.encoded && !sniff_codec(value.bytes)) {  // a damaged video
        throw DataError({}, {.where = "clip", .expected = "a clip or a video", .got = describe_bytes(value.bytes)});
    }
    throw InvalidArgument({.where = dataset_.path(),
                           .expected = fmt::format("clips or volumes, for {} frames of each", options_.clips.frames),
                           .got = "single images",
                           .hint = "arrays of three sides and folders of frames are clips if the data are opened, or "
                                   "packed, with clips (--clips); else leave data.frames out"});
}

void LoaderFields::require_sound(const SampleScratch& scratch) const {
    const FieldValue& value = scratch.sample;
    const bool wanted = options_.clips.sample_rate > 0;
    if (wanted != scratch.sound.empty()) {
        return;
    }
    if (!wanted) {
        throw InvalidArgument({.where = "data.sample_rate",
                               .expected = "the rate in Hz that sounds are resampled to",
                               .got = "none",
                               .hint = "such as data.sample_rate = 16000"});
    }
    if (value.encoded && !sniff_codec(value.bytes)) {  // a damaged sound
        throw DataError({}, {.where = "audio", .expected = "a sound", .got = describe_bytes(value.bytes)});
    }
    throw InvalidArgument({.where = dataset_.path(),
                           .expected = "sounds, for data.sample_rate",
                           .got = "other samples",
                           .hint = "leave data.sample_rate out"});
}

void LoaderFields::check_label(std::int64_t label) const {
    const std::int64_t classes = options_.classes;
    if (classes > 0 && (label < 0 || label >= classes)) {
        throw DataError({}, {.where = "label",
                             .expected = fmt::format("a class from 0 to {}", classes - 1),
                             .got = label == -1 ? "none" : fmt::to_string(label),
                             .hint = label < 0 ? "name the field that holds the labels, or leave such samples out"
                                               : "set model.classes to the number of classes"});
    }
}

void LoaderFields::check(const Sample& sample) const {
    check_label(sample.label);
    check_further(sample);
}

void LoaderFields::check_further(const Sample& sample) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        check_field(plans_[i].field, i < sample.fields.size() ? &sample.fields[i] : nullptr);
        if (plans_[i].field.kind == FieldKind::mask && sample.fields[i].clip_frames != sample.clip_frames) {
            throw DataError({}, {.where = fmt::format("field {}", plans_[i].field.name),
                                 .expected = sample.clip_frames > 0
                                                 ? fmt::format("a mask for each of {} slices", sample.clip_frames)
                                                 : "one mask for an image",
                                 .got = fmt::to_string(sample.fields[i].clip_frames),
                                 .hint = "data of volumes are opened with clips (--clips, or data.frames)"});
        }
    }
}

}  // namespace stoker
