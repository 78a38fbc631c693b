#include "stoker/pipeline/loader_fields.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/transforms/overlay.h"

namespace stoker {
namespace {

// The boxes' floats in `buffer`.
std::span<float> boxes_in(Buffer& buffer, std::span<const std::byte> bytes) {
    buffer.resize(bytes.size());
    std::ranges::copy(bytes, buffer.data());
    return {reinterpret_cast<float*>(buffer.data()), bytes.size() / sizeof(float)};
}

// Calls `run`, whose errors of a sample's bytes say that they are of this field.
template <typename Run>
void with_field(const Field& field, const Run& run) {
    const auto named = [&](ErrorInfo info) {
        info.expected += " for " + field.name;
        return info;
    };
    try {
        run();
    } catch (const SizeMismatch& error) {
        throw SizeMismatch(error.place(), named(error.info()));
    } catch (const DataError& error) {
        throw DataError(error.place(), named(error.info()));
    }
}

void set_number(std::size_t at, std::int64_t value, const ItemPlace& place) {
    std::memcpy(place.bytes(at).data(), &value, sizeof value);
}

}  // namespace

bool SampleScratch::decode_recording(const FrameWindow& wanted, std::int64_t channels) {
    const std::span<const std::byte> file = sample.bytes;
    sound = {};
    if (!decode_wanted(sample, wanted, recording, channels)) {
        return false;
    }
    if (!sample.encoded) {
        sound = file;
    }
    return true;
}

RngKey key_of_view(RngKey key, int view) {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
    key.seed ^= static_cast<std::uint64_t>(view) * kGolden;
    return key;
}

ConstImageView raw_pixels(const FieldValue& value) {
    return {reinterpret_cast<const std::uint8_t*>(value.bytes.data()), value.height, value.width, value.channels,
            std::ptrdiff_t{value.width} * value.channels};
}

void set_copy(ConstImageView pixels, FieldValue& value, Buffer& buffer) {
    buffer.resize(pixels.row_bytes() * static_cast<std::size_t>(pixels.height));
    copy_pixels(pixels, {reinterpret_cast<std::uint8_t*>(buffer.data()), pixels.height, pixels.width, pixels.channels,
                         static_cast<std::ptrdiff_t>(pixels.row_bytes())});
    value.set_raw(std::as_const(buffer).bytes(), pixels.height, pixels.width, pixels.channels);
}

LoaderFields::LoaderFields(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
                           std::int64_t capacity)
    : dataset_(dataset),
      transform_(transform),
      options_(options),
      capacity_(capacity),
      has_image_(dataset.has_image()),
      pixels_{.dtype = DType::uint8, .layout = Layout::hwc} {
    if (const auto* const images = std::get_if<PixelImages>(&options.images); images != nullptr && images->dtype) {
        deferred_ = false;
        pixels_ = {.dtype = *images->dtype, .layout = options.layout};
        if (!is_pixel_dtype(pixels_.dtype)) {
            throw InvalidArgument({.where = "loader",
                                   .expected = "a dtype of uint8, float16, bfloat16 or float32",
                                   .got = std::string(dtype_name(pixels_.dtype))});
        }
    }
    std::size_t at = key_at() + static_cast<std::size_t>(std::max(views(), 1));
    for (const Field& field : dataset.fields()) {
        plans_.push_back(plan_of(field));
        plans_.back().at = at++;
        plans_.back().length_at = plans_.back().pad ? at++ : 0;
    }
    sizes_at_ = at;
    const auto* const pixels = std::get_if<PixelImages>(&options.images);
    const bool prepares = pixels != nullptr && pixels->cache.bytes > 0 && !pixels->cache_encoded;
    if (options.image_sizes && (pixels == nullptr || prepares)) {
        throw InvalidArgument({.where = "loader",
                               .expected = "images that workers read, without a cache of pixels, for their sizes",
                               .got = "others"});
    }
    for (const FieldOptions& own : options.fields) {
        if (std::ranges::find(plans_, own.name, [](const Plan& plan) { return plan.field.name; }) == plans_.end()) {
            throw InvalidArgument(
                {.where = dataset.path(), .expected = "a field " + own.name, .got = describe_fields(dataset.fields())});
        }
    }
    require_names();
}

LoaderFields::Plan LoaderFields::plan_of(const Field& field) const {
    const auto refuse = [&](std::string expected, std::string got) {
        throw InvalidArgument({.where = fmt::format("{}: field {}", dataset_.path(), field.name),
                               .expected = std::move(expected),
                               .got = std::move(got)});
    };
    // Only the first side may have any length, and its entries must not be empty.
    const std::int64_t least = field.any_length() ? 1 : 0;
    if (std::ranges::any_of(std::span(field.shape).subspan(field.any_length() ? 1 : 0),
                            [&](std::int64_t side) { return side < least; })) {
        refuse(fmt::format("sides of at least {}", least), describe_fields({&field, 1}));
    }
    if (!has_image_ && (has_pixels(field.kind) || field.kind == FieldKind::boxes)) {
        refuse("an image that it belongs to", fmt::format("a data set without images, {}", dataset_.format()));
    }
    const auto found = std::ranges::find(options_.fields, field.name, &FieldOptions::name);
    const FieldOptions own = found == options_.fields.end() ? FieldOptions{.name = field.name} : *found;
    if (field.kind == FieldKind::boxes && own.transform) {
        refuse("no ops of its own: boxes move with the image", describe_fields({&field, 1}));
    }
    Plan plan{.field = field,
              .transform = own.transform ? own.transform.get() : &transform_,
              .own = own.transform,
              .pad = field.any_length() ? own.pad : std::nullopt,
              .bucketed = options_.buckets != nullptr && field.name == options_.bucket_by,
              .own_size = have_own_sizes() && has_pixels(field.kind) &&
                          !(own.transform && gives_one_size(own.transform->ops())),
              .classes = own.classes};
    if (plan.bucketed) {
        plan.pad = options_.buckets->longest();
    }
    if (own.classes && field.kind != FieldKind::mask) {
        refuse("a mask, as it has `values`", describe_fields({&field, 1}));
    }
    if (field.kind == FieldKind::mask || field.kind == FieldKind::boxes) {
        require_overlay_ops(plan.transform->ops(), field);
    }
    return plan;
}

bool LoaderFields::have_pixels() const {
    return has_image_ || std::ranges::any_of(plans_, [](const Plan& plan) { return has_pixels(plan.field.kind); });
}

ImageSlot LoaderFields::slot_of(ConstImageView image, std::optional<ImageSize> size) const {
    require_given(image.channels, size);
    const ImageSize wanted = size.value_or(ImageSize{image.height, image.width});
    const ImageSlot slot{.pixels = pixels_,
                         .channels = image.channels,
                         .height = wanted.height,
                         .width = wanted.width,
                         .given = size.has_value()};
    require_size(slot, image.channels, {image.height, image.width});
    return slot;
}

ImageSlot LoaderFields::planes_slot(ConstPlanesView image, std::optional<ImageSize> size) const {
    if (!deferred_ && pixels_.dtype == DType::uint8) {
        throw InvalidArgument({.where = "loader",
                               .expected = "a dtype of floats for images that are not uint8",
                               .got = "uint8",
                               .hint = "float32 batches have the values of torchvision's to_dtype(scale=True)"});
    }
    require_given(image.channels, size);
    const ImageSize wanted = size.value_or(ImageSize{image.height, image.width});
    ImageSlot slot{.pixels = {.dtype = deferred_ ? DType::float32 : pixels_.dtype, .layout = options_.layout},
                   .channels = image.channels,
                   .height = wanted.height,
                   .width = wanted.width,
                   .planes = true,
                   .given = size.has_value()};
    require_size(slot, image.channels, {image.height, image.width});
    return slot;
}

// With the size that the batch has.
ImageSlot LoaderFields::in_batch(ImageSlot slot, const Batch& batch) {
    slot.height = batch.image_size().height;
    slot.width = batch.image_size().width;
    return slot;
}

// The size of the square, if there is one: no other has more pixels.
void LoaderFields::use_largest_size(ImageSlot& slot) const {
    const auto rank = [](ImageSize size) {
        return std::pair(std::int64_t{size.height} * size.width, size.height == size.width);
    };
    const ImageSize most = *std::ranges::max_element(options_.bucket_sizes, {}, rank);
    slot.height = most.height;
    slot.width = most.width;
    slot.given = true;
}

bool LoaderFields::have_clips() const {
    return image_.frames > 0 || std::ranges::any_of(plans_, [](const Plan& plan) { return plan.slot.frames > 0; });
}

bool LoaderFields::have_planes() const {
    return image_.planes || std::ranges::any_of(plans_, [](const Plan& plan) { return plan.slot.planes; });
}

void LoaderFields::find_shapes(std::int64_t index, SampleScratch& scratch) {
    check_further(scratch.sample);
    scratch.drawn = true;
    StageTimes times;
    StageClock clock(times);
    const RngKey key{.seed = options_.seed, .sample = static_cast<std::uint64_t>(index)};
    // A PNG of 16 bits is then reduced to 8.
    const bool makes_bytes =
        std::holds_alternative<IndexedImages>(options_.images) || (!deferred_ && pixels_.dtype == DType::uint8);
    const auto slot_after = [&](const Transform& transform, const FieldValue& value, TransformScratch& to,
                                std::optional<ImageSize> size) {
        const FieldValue& image = first_image(value);
        const bool reduced = makes_bytes && !transform.needs_planes() && !is_deep(image);
        if (transform.takes_planes(image, to) && !reduced) {
            const ConstPlanesView planes = transform.planes(image, key, to, clock);
            scratch.image = to.input;
            return planes_slot(planes, size);
        }
        const ConstImageView prepared = transform.prepare(image, to, clock);
        scratch.image = to.input;
        return slot_of(transform.augment(prepared, key, to), size);
    };
    if (has_image_) {
        require_clip(scratch.sample);
        require_sound(scratch);
        image_ = slot_after(transform_, scratch.sample, scratch.transform, options_.size);
        image_.frames = static_cast<int>(scratch.sample.frames.size());
        if (deferred_ && image_.planes) {
            image_.pixels.dtype = options_.planes;
        }
        if (have_own_sizes()) {
            use_largest_size(image_);
        }
        transform_.require_channels(image_.channels);
        // A larger batch does not stay in the processor's caches until the training thread reads it, so it is written
        // past them.
        constexpr std::size_t kStreamBytes = std::size_t{8} << 20;
        image_.pixels.streamed = image_.pixels.dtype == DType::float32 &&
                                 view_spec(0).sample_bytes() >= kStreamBytes / static_cast<std::size_t>(capacity_);
    }
    const ImageSize image = scratch.image;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        Plan& plan = plans_[i];
        const FieldValue& value = scratch.sample.field(i);
        with_field(plan.field, [&] {
            if (plan.field.kind == FieldKind::image) {
                plan.slot = slot_after(*plan.transform, value, scratch.fields, std::nullopt);
                plan.transform->require_channels(plan.slot.channels);
            } else if (plan.field.kind == FieldKind::mask) {
                plan.slot = slot_of(plan.mask(first_image(value), image, OpRange::all, key, scratch.fields, clock),
                                    std::nullopt);
                plan.slot.pixels = {.dtype = DType::uint8, .layout = Layout::hwc};
            }
            plan.slot.frames = static_cast<int>(value.frames.size());
            if (plan.own_size) {
                use_largest_size(plan.slot);
            }
        });
    }
}

FieldSpec LoaderFields::image_spec(std::string name, const ImageSlot& slot, const Transform& transform) const {
    FieldSpec spec{.name = std::move(name),
                   .dtype = slot.pixels.dtype,
                   .shape = slot.shape(),
                   .layout = slot.pixels.layout == Layout::hwc ? FieldLayout::channels_last : FieldLayout::plain};
    if (deferred_ && !slot.planes) {
        spec.deferred = {.factors = transform.factors(), .layout = options_.layout};
    }
    return spec;
}

FieldSpec LoaderFields::spec_of(const Plan& plan) const {
    const Field& field = plan.field;
    if (field.kind == FieldKind::image) {
        FieldSpec spec = image_spec(field.name, plan.slot, *plan.transform);
        spec.own_size = plan.own_size;
        return spec;
    }
    if (field.kind == FieldKind::mask) {
        Shape shape = plan.slot.shape();
        shape.erase(shape.end() - 3);  // a mask lacks channels
        return {.name = field.name, .shape = std::move(shape), .own_size = plan.own_size};
    }
    Shape shape(field.shape.begin() + (field.any_length() ? 1 : 0), field.shape.end());
    if (plan.pad) {
        shape.insert(shape.begin(), *plan.pad);
    }
    FieldSpec spec{.name = field.name, .dtype = field.dtype, .shape = std::move(shape), .ragged = plan.ragged()};
    if (plan.bucketed) {
        spec.most_entries = options_.buckets->most_entries(options_.world_size);
    }
    return spec;
}

std::vector<FieldSpec> LoaderFields::specs(const std::function<FieldSpec(int view)>& image_of) const {
    std::vector<FieldSpec> all;
    if (views() > 0) {
        all.push_back(image_of(0));
    }
    all.push_back({.name = std::string(kLabelField), .dtype = DType::int64});
    all.push_back({.name = std::string(kIndexField), .dtype = DType::int64});
    all.push_back({.name = std::string(kKeyField), .ragged = true});
    for (int view = 1; view < views(); ++view) {
        all.push_back(image_of(view));
    }
    for (const Plan& plan : plans_) {
        all.push_back(spec_of(plan));
        if (plan.pad) {
            all.push_back({.name = length_name(plan.field.name), .dtype = DType::int64});
        }
    }
    if (options_.image_sizes) {
        all.push_back({.name = std::string(kImageSizeField), .dtype = DType::int32, .shape = {2}});
    }
    return all;
}

void LoaderFields::prepare(const SampleTask& task) const {
    SampleScratch& scratch = task.scratch;
    const auto keep = [](ConstImageView pixels, FieldValue& value) {
        Buffer copy;  // the pixels may be in the value's storage
        set_copy(pixels, value, copy);
        value.storage = std::move(copy);
    };
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        const Plan& plan = plans_[i];
        FieldValue& value = scratch.sample.field(i);
        with_field(plan.field, [&] {
            if (plan.field.kind == FieldKind::image) {
                keep(plan.transform->prepare(value, scratch.fields, task.clock), value);
            } else if (plan.field.kind == FieldKind::mask) {
                keep(plan.mask(value, scratch.image, OpRange::prepared, {}, scratch.fields, task.clock), value);
            } else if (plan.field.kind == FieldKind::boxes) {
                plan.transform->boxes(boxes_in(scratch.boxes, value.bytes), scratch.image, OpRange::prepared, {});
                value.copy_elements(std::as_const(scratch.boxes).bytes());
            }
        });
    }
}

void LoaderFields::write(const SampleTask& task, OpRange range) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        const FieldValue& value = task.scratch.sample.field(i);
        with_field(plans_[i].field, [&] { write_field(plans_[i], value, task, range); });
    }
    if (options_.image_sizes) {
        const std::array size{std::int32_t{task.scratch.image.height}, std::int32_t{task.scratch.image.width}};
        std::ranges::copy(std::as_bytes(std::span(size)), task.place.bytes(sizes_at_).begin());
    }
}

void LoaderFields::write_field(const Plan& plan, const FieldValue& value, const SampleTask& task, OpRange range) const {
    const Transform& transform = *plan.transform;
    SampleScratch& scratch = task.scratch;
    ImageSlot slot = plan.own_size ? in_batch(plan.slot, task.place.batch) : plan.slot;
    switch (plan.field.kind) {
        case FieldKind::image:
            slot.pixels.data = task.place.bytes(plan.at).data();
            if (range == OpRange::remaining) {
                transform.run(raw_pixels(value), task.key, scratch.fields, slot);
            } else {
                transform.run(value, task.key, scratch.fields, slot, task.clock);
            }
            return;
        case FieldKind::mask:
            slot.pixels.data = task.place.bytes(plan.at).data();
            for_frames(value, slot, [&](const FieldValue& own, const ImageSlot& place) {
                // A kept mask has the size that its own ops gave it.
                const ImageSize image = range == OpRange::remaining ? ImageSize{own.height, own.width} : scratch.image;
                const ConstImageView mask = plan.mask(own, image, range, task.key, scratch.fields, task.clock);
                require_size(slot, mask.channels, {mask.height, mask.width});
                auto* to = reinterpret_cast<std::uint8_t*>(place.pixels.data);
                copy_pixels(mask, {to, mask.height, mask.width, 1, mask.width});
            });
            return;
        case FieldKind::boxes:
            transform.boxes(boxes_in(scratch.boxes, value.bytes), scratch.image, range, task.key,
                            size_in(task.place.batch));
            write_elements(plan, std::as_const(scratch.boxes).bytes(), task.place);
            return;
        default:
            write_elements(plan, value.bytes, task.place);
    }
}

void LoaderFields::write_elements(const Plan& plan, std::span<const std::byte> bytes, const ItemPlace& place) const {
    if (plan.ragged()) {
        place.batch.payload(plan.at, place.item).assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return;
    }
    const std::span<std::byte> to = place.bytes(plan.at);
    const std::size_t copied = std::min(bytes.size(), to.size());
    std::ranges::copy(bytes.first(copied), to.begin());
    std::ranges::fill(to.subspan(copied), std::byte{0});
    if (plan.pad) {
        set_number(plan.length_at, static_cast<std::int64_t>(copied / plan.field.item_bytes()), place);
    }
}

void LoaderFields::write_labels(std::int64_t label, std::int64_t index, std::string key, const ItemPlace& place) const {
    set_number(key_at() - 2, label, place);
    set_number(key_at() - 1, index, place);
    place.batch.payload(key_at(), place.item) = std::move(key);
}

void LoaderFields::clear(const ItemPlace& place) const {
    for (const Plan& plan : plans_) {
        write_elements(plan, {}, place);
    }
    if (options_.image_sizes) {
        std::ranges::fill(place.bytes(sizes_at_), std::byte{0});
    }
}

}  // namespace stoker
