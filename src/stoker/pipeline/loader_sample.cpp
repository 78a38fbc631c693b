// Prepares one sample: reads it from the cache or the data set, transforms it into its place in the batch, and replaces
// it where it is bad.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <new>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/transforms/gather_ops.h"

namespace stoker {
namespace {

std::string reason_of(const DataError& error) {
    return fmt::format("expected {}, got {}", error.info().expected, error.info().got);
}

// Makes the prepared image a sample of raw pixels; copies it to `packed` if its rows are not contiguous, or if `copy`.
void set_pixels(ConstImageView image, bool copy, Sample& sample, Buffer& packed) {
    const std::size_t row = image.row_bytes();
    const std::size_t bytes = row * static_cast<std::size_t>(image.height);
    const auto* data = reinterpret_cast<const std::byte*>(image.data);
    if (copy || image.stride != static_cast<std::ptrdiff_t>(row)) {
        packed.resize(bytes);
        copy_pixels(image, {reinterpret_cast<std::uint8_t*>(packed.data()), image.height, image.width, image.channels,
                            static_cast<std::ptrdiff_t>(row)});
        data = packed.data();
    }
    sample.bytes = {data, bytes};
    sample.encoded = false;
    sample.height = image.height;
    sample.width = image.width;
    sample.channels = image.channels;
}

void check_label(std::int64_t label, std::int64_t classes) {
    if (classes > 0 && (label < 0 || label >= classes)) {
        throw DataError({}, {.where = "label",
                             .expected = fmt::format("a class from 0 to {}", classes - 1),
                             .got = label == -1 ? "none" : fmt::to_string(label),
                             .hint = label < 0 ? "name the field that holds the labels, or leave such samples out"
                                               : "set model.classes to the number of classes"});
    }
}

void check_fields(std::span<const Field> fields, const Sample& sample) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Field& field = fields[i];
        if (has_pixels(field.kind)) {
            if (i >= sample.fields.size() || sample.fields[i].bytes.empty()) {
                throw DataError({}, {.where = fmt::format("field {}", field.name),
                                     .expected = fmt::format("pixels for {}", field.name),
                                     .got = "none"});
            }
            continue;
        }
        const std::optional<DType> given = i < sample.fields.size() ? sample.fields[i].dtype : std::nullopt;
        if (given.value_or(field.dtype) != field.dtype) {
            throw DataError({}, {.where = fmt::format("field {}", field.name),
                                 .expected = fmt::format("{} for {}", dtype_name(field.dtype), field.name),
                                 .got = std::string(dtype_name(*given)),
                                 .hint = "Dataset::fields() says the type, as Field::dtype"});
        }
        const std::size_t bytes = i < sample.fields.size() ? sample.fields[i].bytes.size() : 0;
        const bool fits = field.any_length() ? bytes % field.item_bytes() == 0 : bytes == field.item_bytes();
        if (!fits) {
            throw DataError({},
                            {.where = fmt::format("field {}", field.name),
                             .expected = fmt::format("{}{} bytes for {}", field.any_length() ? "a multiple of " : "",
                                                     field.item_bytes(), field.name),
                             .got = fmt::to_string(bytes)});
        }
    }
}

}  // namespace

void Loader::prefetch_batch(std::int64_t sequence) const {
    if (options_.images != nullptr) {
        return;
    }
    const BatchSlice slice = batch_sampler_.slice(sequence % batches_per_epoch());
    std::vector<SampledIndex> draws(static_cast<std::size_t>(slice.count));
    sampler_->draw(sequence / batches_per_epoch(), slice.first, draws);
    std::vector<std::int64_t> indices;
    for (const SampledIndex& draw : draws) {
        if (cache_ == nullptr || !cache_->holds(draw.index)) {
            indices.push_back(draw.index);
        }
    }
    if (indices.empty()) {
        return;
    }
    try {
        dataset_->prefetch(indices);
    } catch (const Error&) {  // a hint: what is wrong with a sample shows when it is read
    }
}

// The first good sample gives the shapes of all images and masks.
void Loader::find_shapes() {
    std::vector<BadSample> bad;
    const bool known =
        !has_image_ && std::ranges::none_of(plans_, [](const FieldPlan& plan) { return has_pixels(plan.field.kind); });
    for (std::int64_t index = 0; !known; ++index) {
        try {
            try {
                own_scratch_.drawn = false;
                read_sample(*dataset_, index, own_scratch_.sample);
                check_fields(dataset_->fields(), own_scratch_.sample);
                own_scratch_.drawn = true;
                find_shapes_of(index);
                check_maps();
                return;
            } catch (...) {
                rethrow_located(*dataset_, index);
            }
        } catch (const DataError& error) {
            if (options_.bad_samples == 0) {
                throw;
            }
            bad.push_back(record_bad_sample(index, error, /*remember=*/!own_scratch_.drawn));
            if (index + 1 == dataset_->size() || std::ssize(bad) > most_substitutes(options_.bad_samples)) {
                ErrorInfo info = error.info();
                const std::string none = index + 1 == dataset_->size()
                                             ? "no sample can be read"
                                             : fmt::format("none of the first {} samples can be read", bad.size());
                info.hint += (info.hint.empty() ? "" : "; ") + none;
                throw TooManyBadSamples(error.place(), info, std::move(bad));
            }
        }
    }
}

// Prepares the sample that the sampler chose, or its first good substitute. A substitute is augmented with the random
// numbers of the original sample, which no other item of the epoch uses.
void Loader::fill_batch_item(const ItemPlace& place, WorkerScratch& scratch) {
    Batch& batch = place.batch;
    const SampledIndex chosen = batch.sampled()[static_cast<std::size_t>(place.item)];
    const RngKey key{.seed = options_.seed,
                     .epoch = static_cast<std::uint32_t>(batch.epoch()),
                     .sample = static_cast<std::uint64_t>(chosen.index),
                     .occurrence = chosen.occurrence};
    std::optional<BadSample> bad = try_sample(chosen.index, key, place, scratch);
    std::optional<std::int64_t> used = bad ? std::nullopt : std::optional(chosen.index);
    const std::int64_t position = batch_sampler_.slice(batch.number()).first + place.item;
    const std::int64_t most = options_.replace ? most_substitutes(options_.bad_samples) : 0;
    for (std::int64_t attempt = 0; !used && attempt < most && !ring_->stopped(); ++attempt) {
        const std::optional<std::int64_t> other = sampler_->substitute(batch.epoch(), position, attempt);
        if (!other) {
            break;  // no good sample
        }
        used = try_sample(*other, key, place, scratch) ? std::nullopt : other;
    }
    const auto set = [&](std::size_t at, std::int64_t value) {
        std::memcpy(batch.item(at, place.item).data(), &value, sizeof value);
    };
    if (!used && !options_.replace) {
        clear_item(place);
        set(index_at(), chosen.index);
    }
    if (used) {
        set(label_at(), scratch.sample.label);
        set(index_at(), *used);
        batch.payload(key_at(), place.item) = dataset_->key(*used);
    }
    if (bad) {
        bad->item = place.item;
        bad->replaced_by = used;
        const std::lock_guard lock(bad_mutex_);
        batch.bad_samples().push_back(std::move(*bad));
    }
}

// Returns why the sample is bad; empty for a good one. Samples that are bad whatever is drawn are not read again.
std::optional<BadSample> Loader::try_sample(std::int64_t index, const RngKey& key, const ItemPlace& place,
                                            WorkerScratch& scratch) {
    if (auto known = find_bad_sample(index)) {
        return known;
    }
    try {
        try {
            load_sample(index, key, place, scratch);
            return std::nullopt;
        } catch (...) {
            rethrow_located(*dataset_, index);
        }
    } catch (const DataError& error) {
        if (!options_.size && dynamic_cast<const SizeMismatch*>(&error) != nullptr) {
            throw;
        }
        // What depends on the draw, such as whether a crop reaches the damage, is found again each time: otherwise
        // a restart or another rank, which knows nothing of it, would replace other samples.
        BadSample bad = record_bad_sample(index, error, /*remember=*/!scratch.drawn);
        if (options_.bad_samples == 0) {
            ErrorInfo info = error.info();
            if (info.hint.empty()) {
                info.hint =
                    "`stoker inspect --verify` lists all bad samples; <data.bad_samples = 10> replaces up to ten";
            }
            throw TooManyBadSamples(error.place(), info, {std::move(bad)});
        }
        return bad;
    }
}

BadSample Loader::record_bad_sample(std::int64_t index, const DataError& error, bool remember) {
    BadSample bad{.index = index,
                  .key = key_or_index(*dataset_, index),
                  .offset = error.place().offset,
                  .reason = reason_of(error),
                  .other_size = dynamic_cast<const SizeMismatch*>(&error) != nullptr,
                  .hint = error.info().hint};
    if (options_.bad_samples > 0 && remember) {
        const std::lock_guard lock(bad_mutex_);
        recorded_bad_.emplace(index, bad);
        any_bad_.store(true, std::memory_order_release);
    }
    return bad;
}

std::optional<BadSample> Loader::find_bad_sample(std::int64_t index) {
    if (!any_bad_.load(std::memory_order_acquire)) {
        return std::nullopt;
    }
    const std::lock_guard lock(bad_mutex_);
    const auto found = recorded_bad_.find(index);
    return found == recorded_bad_.end() ? std::nullopt : std::optional(found->second);
}

void Loader::load_sample(std::int64_t index, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch) {
    StageClock clock(scratch.stages.timed(), scratch.stages.on());
    Sample& sample = scratch.sample;
    scratch.drawn = false;
    if (options_.images != nullptr) {
        sample.label = options_.images->label(index);
        check_label(sample.label, options_.classes);
        write_draws(index, key, place);
        clock.lap(Stage::augment);
        ++scratch.stages.timed().samples;
        return;
    }
    const bool kept = cache_ != nullptr && cache_->get(index, sample);
    if (!kept) {
        read_sample(*dataset_, index, sample);
    }
    clock.lap(Stage::read);
    check_label(sample.label, options_.classes);
    check_fields(dataset_->fields(), sample);
    const bool keeps_prepared = cache_ != nullptr && !options_.cache.encoded;
    if (keeps_prepared && !kept) {
        if (has_image_) {
            const bool copy = options_.views > 1;  // the ops of the first view write to the scratch
            set_pixels(transform_.prepare(sample, scratch.transform, clock), copy, sample, scratch.packed);
            scratch.image = scratch.transform.input;
        }
        prepare_fields(scratch, clock);
        cache_->put(index, sample);
    }
    scratch.drawn = true;
    write_images(key, place, keeps_prepared, scratch, clock);
    write_fields(key, place, keeps_prepared ? OpRange::remaining : OpRange::all, scratch, clock);
    if (cache_ != nullptr && !keeps_prepared && !kept) {
        cache_->put(index, sample);
    }
    place_cuts(key, place, scratch, clock);
    clock.lap(Stage::augment);
    ++scratch.stages.timed().samples;
}

}  // namespace stoker
