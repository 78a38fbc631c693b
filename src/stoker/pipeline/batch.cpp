// Fields lie one after the other, each aligned to a cache line.
#include "stoker/pipeline/batch.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/hash.h"

namespace stoker {

std::vector<std::int64_t> channels_last_steps(const Shape& shape) {
    std::vector<std::int64_t> steps(shape.size(), 1);
    const std::size_t channels = shape.size() - 3;
    std::int64_t step = shape[channels];
    for (const std::size_t side : {channels + 2, channels + 1}) {  // width, then height
        steps[side] = step;
        step *= shape[side];
    }
    for (std::size_t side = channels; side-- > 0;) {
        steps[side] = step;
        step *= shape[side];
    }
    return steps;
}

std::string view_name(int view) {
    return view == 0 ? std::string(kImageField) : fmt::format("{}_{}", kImageField, view + 1);
}

std::string length_name(std::string_view name) {
    return fmt::format("{}_length", name);
}

std::int64_t replaced_items(std::span<const BadSample> bad) {
    std::int64_t items = 0;
    std::int64_t last = -1;
    for (const BadSample& sample : bad) {
        items += sample.item == last ? 0 : 1;
        last = sample.item;
    }
    return items;
}

Batch::Batch(std::vector<FieldSpec> fields, std::int64_t capacity, Allocator& allocator)
    : fields_(std::move(fields)),
      payloads_(fields_.size()),
      crop_capacities_(fields_.size()),
      sampled_(static_cast<std::size_t>(capacity)),
      capacity_(capacity),
      pinned_(allocator.pinned()) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        sample_bytes_.push_back(fields_[i].sample_bytes());
        offsets_.push_back(bytes);
        if (fields_[i].deferred && fields_[i].deferred->decode) {
            crop_capacities_[i] = std::make_unique<DctCropCapacity>();
        }
        if (fields_[i].ragged) {
            payloads_[i].resize(static_cast<std::size_t>(capacity));
        } else {
            const std::size_t field_bytes = fields_[i].batch_bytes(capacity);
            bytes += (field_bytes + kAlignment - 1) / kAlignment * kAlignment;
        }
    }
    memory_ = Buffer(bytes, allocator);
}

std::size_t Batch::find(std::string_view name, bool ragged) const {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (fields_[i].name == name && fields_[i].ragged == ragged) {
            return i;
        }
    }
    std::string names;
    for (const auto& field : fields_) {
        names += fmt::format("{}{}{}", names.empty() ? "" : ", ", field.name, field.ragged ? " (ragged)" : "");
    }
    throw InvalidArgument({.where = "batch", .expected = "one of the fields " + names, .got = std::string(name)});
}

TensorView Batch::field(std::string_view name) const {
    const std::size_t i = find(name, false);
    Shape shape = shape_of(fields_[i]);
    shape.insert(shape.begin(), size_);
    // Views of a const batch are writable: workers fill the batch through them.
    return {const_cast<std::byte*>(memory_.data()) + offsets_[i], fields_[i].dtype, std::move(shape)};
}

Shape Batch::shape_of(const FieldSpec& spec) const {
    Shape shape = spec.shape;
    if (spec.most_entries > 0) {
        shape.front() = entries_;
    }
    if (spec.own_size) {
        shape[shape.size() - 2] = image_size_.height;
        shape.back() = image_size_.width;
    }
    return shape;
}

std::span<std::byte> Batch::item(std::size_t field, std::int64_t i) {
    const std::size_t bytes = sample_bytes_[field];
    return {memory_.data() + offsets_[field] + static_cast<std::size_t>(i) * bytes, bytes};
}

DctCropSlot Batch::crop_slot(std::size_t field) {
    return {memory_.data() + offsets_.at(field), size_};
}

bool Batch::has_only_pixels(std::size_t field) const {
    return fields_.at(field).deferred->decode->shared && crop_capacities_[field]->taken() == 0;
}

std::vector<UsedRange> Batch::used_ranges(std::size_t field) const {
    const DeferredDecode& decode = *fields_.at(field).deferred->decode;
    const std::size_t used = crop_capacities_[field]->used();
    const std::size_t pixels = DctCropSlot::front(size_);
    const bool all_crops = decode.shared && crop_capacities_[field]->taken() == size_;
    if (has_only_pixels(field)) {
        return {{pixels, pixels + static_cast<std::size_t>(size_) * decode.image_bytes()}};
    }
    return all_crops
               ? std::vector<UsedRange>{{0, pixels}, {DctCropSlot::shared_front(size_, decode.image_bytes()), used}}
               : std::vector<UsedRange>{{0, used}};
}

std::size_t Batch::used_bytes(std::string_view name) const {
    const std::size_t at = find(name, false);
    return crop_capacities_[at] != nullptr ? crop_capacities_[at]->used()
                                           : sample_bytes_[at] * static_cast<std::size_t>(size_);
}

std::string& Batch::payload(std::string_view name, std::int64_t i) {
    return payloads_[find(name, true)].at(static_cast<std::size_t>(i));
}

RaggedView Batch::ragged(std::string_view name) const {
    const std::size_t at = find(name, true);
    const FieldSpec& spec = fields_[at];
    const std::span<const std::string> payloads = std::span(payloads_[at]).first(static_cast<std::size_t>(size_));
    RaggedView view{.storage = {}, .values = {}, .offsets = {0}};
    std::size_t bytes = 0;
    for (const std::string& payload : payloads) {
        bytes += payload.size();
        view.offsets.push_back(static_cast<std::int64_t>(bytes / spec.sample_bytes()));
    }
    view.storage.resize(bytes);
    std::byte* to = view.storage.data();
    for (const std::string& payload : payloads) {
        to = std::ranges::copy(std::as_bytes(std::span(payload)), to).out;
    }
    Shape shape = spec.shape;
    shape.insert(shape.begin(), view.offsets.back());
    view.values = {view.storage.data(), spec.dtype, std::move(shape)};
    return view;
}

std::uint64_t Batch::hash() const {
    const auto& keys = payloads_[find(kKeyField, true)];
    std::uint64_t hash = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
        hash = hash_text(keys[static_cast<std::size_t>(i)], hash);
    }
    return hash;
}

void Batch::reset(std::int64_t epoch, std::int64_t number, std::int64_t size, std::int64_t entries,
                  ImageSize image_size) {
    entries_ = entries;
    image_size_ = image_size;
    epoch_ = epoch;
    number_ = number;
    size_ = size;
    bad_samples_.clear();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (fields_[i].most_entries > 0 || fields_[i].own_size) {
            const std::int64_t elements = element_count(shape_of(fields_[i]));
            sample_bytes_[i] = static_cast<std::size_t>(elements) * item_size(fields_[i].dtype);
        }
        if (crop_capacities_[i] != nullptr) {
            const DeferredDecode& decode = *fields_[i].deferred->decode;
            const std::size_t pixels = decode.image_bytes();
            crop_capacities_[i]->reset(
                decode.shared ? DctCropSlot::shared_front(size, pixels) : DctCropSlot::front(size),
                fields_[i].sample_bytes() * static_cast<std::size_t>(size), decode.shared ? 0 : size, pixels);
        }
    }
}

}  // namespace stoker
