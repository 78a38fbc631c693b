// The fields of a batch: their shapes, and how the values of one sample get there. Further images and masks go through
// the ops like the image, boxes are moved with it, and all other values are copied.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/transforms/cut_ops.h"
#include "stoker/pipeline/transforms/gather_ops.h"
#include "stoker/pipeline/transforms/output_ops.h"
#include "stoker/pipeline/transforms/overlay.h"

namespace stoker {
namespace {

// Only the first side may have any length, and its entries must not be empty.
void check_sides(const Dataset& dataset, const Field& field) {
    const auto sides = std::span(field.shape).subspan(field.any_length() ? 1 : 0);
    const std::int64_t least = field.any_length() ? 1 : 0;
    if (std::ranges::any_of(sides, [&](std::int64_t side) { return side < least; })) {
        throw InvalidArgument({.where = fmt::format("{}: field {}", dataset.path(), field.name),
                               .expected = fmt::format("sides of at least {}", least),
                               .got = describe_fields({&field, 1})});
    }
}

bool moves_with_image(FieldKind kind) {
    return kind == FieldKind::mask || kind == FieldKind::boxes;
}

ConstImageView raw_pixels(const FieldValue& value) {
    return {reinterpret_cast<const std::uint8_t*>(value.bytes.data()), value.height, value.width, value.channels,
            std::ptrdiff_t{value.width} * value.channels};
}

// The value becomes a copy of the pixels, which may lie in its own memory.
void keep_pixels(ConstImageView pixels, FieldValue& value) {
    const std::size_t row = pixels.row_bytes();
    Buffer copy(row * static_cast<std::size_t>(pixels.height));
    copy_pixels(pixels, {reinterpret_cast<std::uint8_t*>(copy.data()), pixels.height, pixels.width, pixels.channels,
                         static_cast<std::ptrdiff_t>(row)});
    value.storage = std::move(copy);
    value.set_raw(value.storage.bytes(), pixels.height, pixels.width, pixels.channels);
}

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

// Before the first batch: assemble would refuse it.
void require_assembled(const ImageSlot& image) {
    if (image.width > kAssembleWidth) {
        throw InvalidArgument(
            {.where = "data.decode_on",
             .expected = fmt::format("images of at most {} pixels in width for \"device\"", kAssembleWidth),
             .got = fmt::format("{} x {}, as the ops make them", image.height, image.width),
             .hint = "use <data.decode_on = \"cpu\">, or ops that make smaller images"});
    }
}

// Independent random numbers for each view; those of the first are the sample's.
RngKey key_of_view(RngKey key, int view) {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
    key.seed ^= static_cast<std::uint64_t>(view) * kGolden;
    return key;
}

}  // namespace

ImageSlot Loader::slot_of(ConstImageView image, std::optional<ImageSize> size) const {
    const ImageSize wanted = size.value_or(ImageSize{image.height, image.width});
    const bool late = options_.normalize_late;
    const ImageSlot slot{
        .pixels = {.dtype = late ? DType::uint8 : options_.dtype, .layout = late ? Layout::hwc : options_.layout},
        .channels = image.channels,
        .height = wanted.height,
        .width = wanted.width,
        .given = size.has_value()};
    require_size(slot, image.channels, {image.height, image.width});
    return slot;
}

// Matches the options with the data set's fields.
void Loader::plan_fields() {
    for (const Field& field : dataset_->fields()) {
        check_sides(*dataset_, field);
        if (!has_image_ && (has_pixels(field.kind) || field.kind == FieldKind::boxes)) {
            throw InvalidArgument({.where = fmt::format("{}: field {}", dataset_->path(), field.name),
                                   .expected = "an image that it belongs to",
                                   .got = fmt::format("a data set without images, {}", dataset_->format())});
        }
        const auto found = std::ranges::find(options_.fields, field.name, &FieldOptions::name);
        const FieldOptions own = found == options_.fields.end() ? FieldOptions{.name = field.name} : *found;
        FieldPlan plan{.field = field,
                       .transform = own.transform ? own.transform.get() : &transform_,
                       .own = own.transform,
                       .pad = field.any_length() ? own.pad : std::nullopt};
        if (field.kind == FieldKind::boxes && own.transform) {
            throw InvalidArgument({.where = fmt::format("{}: field {}", dataset_->path(), field.name),
                                   .expected = "no ops of its own: boxes move with the image",
                                   .got = describe_fields({&field, 1})});
        }
        if (moves_with_image(field.kind)) {
            require_overlay_ops(plan.transform->ops(), field);
        }
        plans_.push_back(std::move(plan));
    }
    for (const FieldOptions& own : options_.fields) {
        if (std::ranges::find(plans_, own.name, [](const FieldPlan& plan) { return plan.field.name; }) ==
            plans_.end()) {
            throw InvalidArgument({.where = dataset_->path(),
                                   .expected = "a field " + own.name,
                                   .got = describe_fields(dataset_->fields())});
        }
    }
}

// From the sample in the caller's scratch.
void Loader::find_shapes_of(std::int64_t index) {
    StageTimes times;
    StageClock clock(times);
    const RngKey key{.seed = options_.seed, .sample = static_cast<std::uint64_t>(index)};
    WorkerScratch& scratch = own_scratch_;
    const auto augmented = [&](const Transform& transform, const FieldValue& image, TransformScratch& to) {
        const ConstImageView prepared = transform.prepare(image, to, clock);
        scratch.image = to.input;
        return transform.augment(prepared, key, to);
    };
    if (has_image_) {
        place_ = slot_of(augmented(transform_, scratch.sample, scratch.transform), options_.size);
        transform_.require_channels(place_.channels);
        if (options_.share_decoding && place_.width > kAssembleWidth) {
            options_.cut_bytes = 0;
        }
        if (options_.cut_bytes > 0) {
            require_assembled(place_);
        }
    }
    const ImageSize image = scratch.image;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        FieldPlan& plan = plans_[i];
        const FieldValue& value = scratch.sample.field(i);
        with_field(plan.field, [&] {
            if (plan.field.kind == FieldKind::image) {
                plan.slot = slot_of(augmented(*plan.transform, value, scratch.fields), std::nullopt);
                plan.transform->require_channels(plan.slot.channels);
            } else if (plan.field.kind == FieldKind::mask) {
                plan.slot =
                    slot_of(plan.transform->mask(value, image, OpRange::all, key, scratch.fields, clock), std::nullopt);
            }
        });
    }
}

FieldSpec Loader::image_spec(std::string name, const ImageSlot& slot, const Transform& transform) const {
    FieldSpec spec{.name = std::move(name),
                   .dtype = slot.pixels.dtype,
                   .shape = {slot.channels, slot.height, slot.width},
                   .layout = slot.pixels.layout == Layout::hwc ? FieldLayout::channels_last : FieldLayout::plain};
    if (options_.normalize_late) {
        spec.late = {.factors = transform.factors(), .layout = options_.layout};
    }
    if (options_.images != nullptr) {
        const std::shared_ptr<const ImageBlock>& images = options_.images->block();
        const GatherPlan plan = gather_plan(transform.slice(OpRange::remaining), images->size);
        spec.dtype = DType::uint8;
        spec.shape = {sizeof(GatherDraw)};
        spec.layout = FieldLayout::plain;
        spec.late = {.factors = transform.factors(),
                     .layout = options_.layout,
                     .gather = LateGather{.images = images, .ops = plan.ops, .to = plan.to}};
    }
    return spec;
}

// Of a view of the sample's image.
FieldSpec Loader::view_spec(int view) const {
    FieldSpec spec = image_spec(view_name(view), place_, transform_);
    if (options_.cut_bytes > 0) {
        const OutputOps output = output_ops(transform_.slice(OpRange::all));
        const LateDecode decode{.to = {place_.height, place_.width},
                                .channels = place_.channels,
                                .erased_value = output.erased_value,
                                .colors = output.colors,
                                .shared = options_.share_decoding};
        const auto pixels = static_cast<std::int64_t>(decode.image_bytes());
        spec.shape = {decode.shared ? CutSlot::shared_sample_bytes(options_.cut_bytes, pixels)
                                    : CutSlot::sample_bytes(options_.cut_bytes, pixels)};
        spec.layout = FieldLayout::plain;
        spec.late->decode = decode;
    }
    return spec;
}

// The names of a batch's fields must differ.
void Loader::make_fields() {
    fields_.clear();
    if (has_image_) {
        fields_.push_back(view_spec(0));
    }
    fields_.push_back({.name = std::string(kLabelField), .dtype = DType::int64});
    fields_.push_back({.name = std::string(kIndexField), .dtype = DType::int64});
    fields_.push_back({.name = std::string(kKeyField), .ragged = true});
    for (int view = 1; has_image_ && view < options_.views; ++view) {
        fields_.push_back(view_spec(view));
    }
    for (FieldPlan& plan : plans_) {
        plan.at = fields_.size();
        const Field& field = plan.field;
        if (field.kind == FieldKind::image) {
            fields_.push_back(image_spec(field.name, plan.slot, *plan.transform));
        } else if (field.kind == FieldKind::mask) {
            fields_.push_back({.name = field.name, .shape = {plan.slot.height, plan.slot.width}});
        } else {
            Shape shape(field.shape.begin() + (field.any_length() ? 1 : 0), field.shape.end());
            if (plan.pad) {
                shape.insert(shape.begin(), *plan.pad);
            }
            const bool ragged = field.any_length() && !plan.pad;
            fields_.push_back({.name = field.name, .dtype = field.dtype, .shape = std::move(shape), .ragged = ragged});
        }
        if (plan.pad) {
            plan.length_at = fields_.size();
            fields_.push_back({.name = length_name(field.name), .dtype = DType::int64});
        }
    }
    std::set<std::string_view> names;
    for (const FieldSpec& spec : fields_) {
        if (!names.insert(spec.name).second) {
            throw InvalidArgument({.where = dataset_->path(),
                                   .expected = "fields of different names, none of them image, label, index or key",
                                   .got = spec.name});
        }
    }
}

void Loader::write_images(const RngKey& key, const ItemPlace& place, bool prepared, WorkerScratch& scratch,
                          StageClock& clock) const {
    for (int view = 0; has_image_ && view < options_.views; ++view) {
        const RngKey own = key_of_view(key, view);
        if (options_.cut_bytes > 0) {
            make_cut(view, own, place, scratch, clock);
            continue;
        }
        ImageSlot slot = place_;
        slot.pixels.data = place.batch.item(view_at(view), place.item).data();
        if (prepared) {
            transform_.run(raw_pixels(scratch.sample), own, scratch.transform, slot);
        } else {
            transform_.run(scratch.sample, own, scratch.transform, slot, clock);
        }
    }
    scratch.image = scratch.transform.input;
}

// What a device decodes, or the image's bytes where the host must make them.
void Loader::make_cut(int view, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch,
                      StageClock& clock) const {
    scratch.cuts.resize(static_cast<std::size_t>(options_.views));
    CutView& to = scratch.cuts[static_cast<std::size_t>(view)];
    if (options_.share_decoding && !place.urgent) {
        make_cut_pixels(view, key, place, scratch, clock);
        return;
    }
    const std::size_t most = options_.share_decoding
                                 ? place.batch.cut_room(view_at(view)).left()
                                 : fields_[view_at(view)].sample_bytes() * static_cast<std::size_t>(place.batch.size());
    const auto image = transform_.cut(scratch.sample, key, most, scratch.transform, place_, clock);
    if (!image) {
        make_cut_pixels(view, key, place, scratch, clock);
        return;
    }
    to.bytes = image->cut;
    to.draw = image->draw;
    if (view + 1 < options_.views) {  // the next cut overwrites it
        to.own.resize(to.bytes.size());
        std::ranges::copy(to.bytes, to.own.data());
        to.bytes = std::as_const(to.own).bytes();
    }
}

// In the sample's place, where it has one.
void Loader::make_cut_pixels(int view, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch,
                             StageClock& clock) const {
    CutView& to = scratch.cuts[static_cast<std::size_t>(view)];
    const LateDecode& late = *fields_.front().late->decode;
    ImageSlot pixels = place_;
    if (late.shared) {
        const CutSlot slot = place.batch.cut_slot(view_at(view));
        pixels.pixels.data = slot.memory() + slot.pixels_at(place.item, late.image_bytes());
    } else {
        to.own.resize(late.image_bytes());
        pixels.pixels.data = to.own.data();
        to.bytes = std::as_const(to.own).bytes();
    }
    transform_.run(scratch.sample, key, scratch.transform, pixels, clock);
    to.draw.reset();
}

// Takes room, which an item of the batch does once. So it comes after all that may make the sample a bad one: where a
// cut could be made, so can the pixels.
void Loader::place_cuts(const RngKey& key, const ItemPlace& place, WorkerScratch& scratch, StageClock& clock) const {
    const ImageSize size{place_.height, place_.width};
    for (int view = 0; has_image_ && options_.cut_bytes > 0 && view < options_.views; ++view) {
        const LateDecode& late = *fields_[view_at(view)].late->decode;
        CutView& image = scratch.cuts[static_cast<std::size_t>(view)];
        const CutSlot slot = place.batch.cut_slot(view_at(view));
        CutRoom& room = place.batch.cut_room(view_at(view));
        if (image.draw) {
            if (const auto taken = room.take(image.bytes.size())) {
                slot.set_cut(place.item, *taken, image.bytes, *image.draw);
                scratch.stages.timed().on_device += view == 0 ? 1 : 0;
                continue;
            }
            make_cut_pixels(view, key_of_view(key, view), place, scratch, clock);
        }
        if (late.shared) {
            slot.set_pixels(place.item, slot.pixels_at(place.item, late.image_bytes()), size);
            continue;
        }
        const std::size_t at = room.take_least();
        std::ranges::copy(image.bytes, slot.memory() + at);
        slot.set_pixels(place.item, at, size);
    }
}

// Numbers and draws of images that lie on a device.
void Loader::write_draws(std::int64_t index, const RngKey& key, const ItemPlace& place) const {
    const OpSlice ops = transform_.slice(OpRange::remaining);
    for (int view = 0; view < options_.views; ++view) {
        GatherDraw draw = draw_gather(ops, options_.images->block()->size, key_of_view(key, view));
        draw.image = index + 1;
        std::memcpy(place.batch.item(view_at(view), place.item).data(), &draw, sizeof draw);
    }
}

// What `Transform::prepare` does to the image, for the fields: the ops before the first random one.
void Loader::prepare_fields(WorkerScratch& scratch, StageClock& clock) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        const FieldPlan& plan = plans_[i];
        FieldValue& value = scratch.sample.field(i);
        with_field(plan.field, [&] {
            if (plan.field.kind == FieldKind::image) {
                keep_pixels(plan.transform->prepare(value, scratch.fields, clock), value);
            } else if (plan.field.kind == FieldKind::mask) {
                keep_pixels(plan.transform->mask(value, scratch.image, OpRange::prepared, {}, scratch.fields, clock),
                            value);
            } else if (plan.field.kind == FieldKind::boxes) {
                plan.transform->boxes(boxes_in(scratch.boxes, value.bytes), scratch.image, OpRange::prepared, {});
                value.copy_elements(std::as_const(scratch.boxes).bytes());
            }
        });
    }
}

void Loader::write_fields(const RngKey& key, const ItemPlace& place, OpRange range, WorkerScratch& scratch,
                          StageClock& clock) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
        const FieldValue& value = scratch.sample.field(i);
        with_field(plans_[i].field, [&] { write_field(plans_[i], value, key, place, range, scratch, clock); });
    }
}

void Loader::write_field(const FieldPlan& plan, const FieldValue& value, const RngKey& key, const ItemPlace& place,
                         OpRange range, WorkerScratch& scratch, StageClock& clock) const {
    const Transform& transform = *plan.transform;
    ImageSlot slot = plan.slot;
    switch (plan.field.kind) {
        case FieldKind::image:
            slot.pixels.data = place.batch.item(plan.at, place.item).data();
            if (range == OpRange::remaining) {
                transform.run(raw_pixels(value), key, scratch.fields, slot);
            } else {
                transform.run(value, key, scratch.fields, slot, clock);
            }
            return;
        case FieldKind::mask: {
            // A kept mask has the size that its own ops gave it.
            const ImageSize image = range == OpRange::remaining ? ImageSize{value.height, value.width} : scratch.image;
            const ConstImageView mask = transform.mask(value, image, range, key, scratch.fields, clock);
            require_size(slot, mask.channels, {mask.height, mask.width});
            auto* to = reinterpret_cast<std::uint8_t*>(place.batch.item(plan.at, place.item).data());
            copy_pixels(mask, {to, mask.height, mask.width, 1, mask.width});
            return;
        }
        case FieldKind::boxes:
            transform.boxes(boxes_in(scratch.boxes, value.bytes), scratch.image, range, key);
            write_elements(plan, std::as_const(scratch.boxes).bytes(), place);
            return;
        default:
            write_elements(plan, value.bytes, place);
    }
}

void Loader::write_elements(const FieldPlan& plan, std::span<const std::byte> bytes, const ItemPlace& place) const {
    if (fields_[plan.at].ragged) {
        place.batch.payload(plan.at, place.item).assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return;
    }
    const std::span<std::byte> to = place.batch.item(plan.at, place.item);
    const std::size_t copied = std::min(bytes.size(), to.size());
    std::ranges::copy(bytes.first(copied), to.begin());
    std::ranges::fill(to.subspan(copied), std::byte{0});
    if (plan.pad) {
        const auto entries = static_cast<std::int64_t>(copied / plan.field.item_bytes());
        std::memcpy(place.batch.item(plan.length_at, place.item).data(), &entries, sizeof entries);
    }
}

// Zeros, label -1, and no entries.
void Loader::clear_item(const ItemPlace& place) const {
    for (std::size_t at = 0; at < fields_.size(); ++at) {
        if (fields_[at].ragged) {
            place.batch.payload(at, place.item).clear();
        } else if (fields_[at].late && fields_[at].late->decode) {
            const CutSlot slot = place.batch.cut_slot(at);
            slot.set_nothing(place.item);
            if (const LateDecode& late = *fields_[at].late->decode; late.shared) {
                std::memset(slot.memory() + slot.pixels_at(place.item, late.image_bytes()), 0, late.image_bytes());
            }
        } else if (at != index_at()) {
            std::ranges::fill(place.batch.item(at, place.item), at == label_at() ? std::byte{0xFF} : std::byte{0});
        }
    }
}

}  // namespace stoker
