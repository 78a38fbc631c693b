// One packing: checks what an earlier run left, streams the samples into the target, verifies the result.
#include "stoker/pack/pack.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/map_damage.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pack/ordered_parallel_for.h"
#include "stoker/pack/pack_plan.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/target.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Slot {  // a worker's result for one sample
    Sample sample;
    std::vector<StkValue> fields;
    TranscodedImage transcoded;
    std::int64_t bytes_in = 0;
    std::string key;
    std::optional<SkippedSample> bad;
};

DataError with_skip_hint(const DataError& error) {
    const std::string own = error.info().hint;
    return {error.place(),
            {.where = error.info().where,
             .expected = error.info().expected,
             .got = error.info().got,
             .hint = (own.empty() ? "repair or remove it" : own) + ", or leave bad samples out with --skip-bad"}};
}

SkippedSample skipped(const std::string& key, std::int64_t index, const DataError& error) {
    DataPlace place = error.place();
    place.key.clear();  // SkippedSample has the key already
    place.index = index;
    return {key, DataError(std::move(place), error.info()).what()};
}

PackOptions with_codec(PackOptions options, const TargetFormat& format) {
    options.transcode.codec = options.transcode.codec.value_or(format.codec);
    return options;
}

// Samples without images have nothing to encode again.
void check_recoding(const Dataset& dataset, const TranscodeOptions& options) {
    const bool recodes =
        options.codec.value_or(PackCodec::keep) != PackCodec::keep || options.resize_shorter > 0 || options.quality > 0;
    if (recodes && !dataset.has_image()) {
        throw InvalidArgument({.where = dataset.path(),
                               .expected = "a data set with images, for --codec, --resize-shorter or --quality",
                               .got = fmt::format("{} without images", dataset.format()),
                               .hint = "leave these options out"});
    }
}

// Throws DataError that names two samples with the same key. Takes 16 bytes per sample: sorts the keys' hashes and
// compares only keys with the same hash. A sample whose key is damaged is a bad one, which is not stored.
void check_unique_keys(const Dataset& dataset, std::string_view format) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> keys;
    keys.reserve(static_cast<std::size_t>(dataset.size()));
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        try {
            keys.emplace_back(hash_text(dataset.key(i)), i);
        } catch (const DataError&) {
        }
    }
    std::ranges::sort(keys);
    for (std::size_t i = 1; i < keys.size(); ++i) {
        if (keys[i].first != keys[i - 1].first) {
            continue;
        }
        std::string key = dataset.key(keys[i].second);
        if (key == dataset.key(keys[i - 1].second)) {
            throw DataError({.path = dataset.path(), .key = std::move(key), .index = keys[i].second},
                            {.where = std::string(format),
                             .expected = "a unique key for each sample",
                             .got = fmt::format("the key of sample {}", keys[i - 1].second),
                             .hint = "x.stk holds samples with equal keys"});
        }
    }
}

// Indices of the data set, from `begin` to below `end`.
struct Indices {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    std::int64_t size() const { return end - begin; }
};

// Throws InvalidArgument for a part that is none, or that would have no samples.
Indices indices_of(const PackPart& part, const Dataset& dataset, const TargetFormat& format) {
    const auto refuse = [&part](std::string expected, std::string got, std::string hint) {
        throw InvalidArgument({.where = fmt::format("--part {}/{}", part.index, part.count),
                               .expected = std::move(expected),
                               .got = std::move(got),
                               .hint = std::move(hint)});
    };
    const auto [begin, end] = part.of(dataset.size());
    if (part.count > 1 && format.name != "stk") {
        refuse("a target x.stk", fmt::format("one of format {}", format.name),
               "pack the parts to x.stk, merge them, and pack x.stk to the other format");
    }
    if (part.count > 1 && part.count > dataset.size()) {
        refuse("at most as many parts as samples", fmt::format("{} samples", dataset.size()), "use fewer parts");
    }
    return {.begin = begin, .end = end};
}

class Packing {
  public:
    Packing(const Dataset& dataset, const fs::path& path, const PackOptions& options)
        : dataset_(dataset),
          stk_(dynamic_cast<const StkDataset*>(&dataset)),
          path_(part_path(path, options.part)),
          format_(target_format(path)),
          options_(with_codec(options, format_)),
          indices_(indices_of(options_.part, dataset, format_)),
          plan_(plan_of(dataset, options_, format_.shards)) {}

    PackResult run() {
        refuse_inside_source();
        if (!dataset_.has_image() && !format_.imageless) {
            throw InvalidArgument({.where = path_.string(),
                                   .expected = "a data set with images",
                                   .got = fmt::format("{} without images", dataset_.format()),
                                   .hint = "x.stk and x.tar hold samples without images"});
        }
        check_field_names(dataset_.fields(), path_.string());
        refuse_resized_fields();
        refuse_first_sample();
        if (const auto origin = format_.finished_origin(path_)) {
            return finished_before(*origin);
        }
        if (const auto origin = format_.unfinished_origin(path_)) {
            check_plan(path_.string(), *origin, plan_, "begun",
                       "finish it with these options, name another target, or remove this one");
        }
        {
            const auto target = format_.open(path_, {.origin = json_text(Json{{"plan", plan_}}),
                                                     .classes = dataset_.classes(),
                                                     .fields = dataset_.fields(),
                                                     .images = dataset_.has_image(),
                                                     .samples = indices_.size(),
                                                     .shard_size = options_.shard_size,
                                                     .workers = options_.workers});
            const std::size_t parts = check_parts(*target);
            check_keys(*target);
            target->begin(parts);
            stream(*target);
            add_stats(total_, std::exchange(part_, {}));  // bad samples after the last part
            target->finish(json_text(Json{{"plan", plan_}, {"result", to_json(total_)}}), progress_for("write"),
                           progress_for("verify"));
        }
        return result();
    }

  private:
    // A target inside the source would be read as a part of it from then on.
    void refuse_inside_source() const {
        if (!is_folder(dataset_.path())) {
            return;
        }
        std::error_code unknown;
        const fs::path source = fs::weakly_canonical(dataset_.path(), unknown);
        const fs::path within = fs::weakly_canonical(path_, unknown).lexically_relative(source);
        if (!within.empty() && *within.begin() != "..") {
            throw InvalidArgument({.where = path_.string(),
                                   .expected = "a target outside of the source " + dataset_.path(),
                                   .got = "one within it",
                                   .hint = "inside it the target would change the source"});
        }
    }

    // Masks and boxes would no longer fit their images.
    void refuse_resized_fields() const {
        const std::span<const Field> fields = dataset_.fields();
        const auto fits = std::ranges::find_if(
            fields, [](const Field& field) { return field.kind == FieldKind::mask || field.kind == FieldKind::boxes; });
        if (options_.transcode.resize_shorter > 0 && fits != fields.end()) {
            throw InvalidArgument({.where = "--resize-shorter",
                                   .expected = "a data set whose masks and boxes are left out",
                                   .got = describe_fields(std::span(&*fits, 1)),
                                   .hint = "they belong to images of the old size: resize in data.train_ops instead"});
        }
    }

    // The result of a packing that an earlier run completed.
    PackResult finished_before(const std::string& text) {
        check_plan(path_.string(), text, plan_, "packed", "name another target, or remove it first");
        total_ = pack_stats_from_json(parse_own_json<Json>(text).value("result", Json()));
        result_.nothing_to_do = true;
        PackResult before = result();
        before.resumed_samples = before.samples;
        return before;
    }

    // Checks the parts of an earlier run. Returns how many are whole, up to the first bad one.
    std::size_t check_parts(PackTarget& target) {
        std::size_t whole = 0;
        try {
            while (const auto part = target.check_part(whole, progress_for("check"))) {
                const PackStats stats = pack_stats_from_json(parse_json<Json>(part->notes));
                if (stats.samples_in != part->samples + static_cast<std::int64_t>(stats.skipped.size()) ||
                    stats.samples_in > indices_.size() - total_.samples_in) {
                    break;
                }
                add_stats(total_, stats);
                result_.resumed_samples += part->samples;
                ++whole;
            }
        } catch (const DataError&) {  // damaged or missing: packed again
        }
        return whole;
    }

    std::string key_of(std::int64_t index) const {
        try {
            return dataset_.key(index);
        } catch (const DataError& error) {  // the key is part of a damaged record
            throw with_skip_hint(error.located({.path = dataset_.path(), .index = index}));
        }
    }

    // Runs before the first sample, so that a bad key at the end does not waste all the work before it.
    void check_keys(const PackTarget& target) const {
        for (std::int64_t i = indices_.begin; !options_.skip_bad && i < indices_.end; ++i) {
            const std::string key = key_of(i);
            try {
                target.check_key(key);
            } catch (const DataError& error) {
                throw error.located({.path = dataset_.path(), .key = key, .index = i});
            }
        }
        if (format_.unique_keys) {
            check_unique_keys(dataset_, format_.name);
        }
    }

    void stream(PackTarget& target) {
        const OrderedRange range{
            .begin = indices_.begin + total_.samples_in, .end = indices_.end, .threads = options_.workers};
        std::vector<Slot> slots(static_cast<std::size_t>(range.slots()));
        std::vector<Transcoder> transcoders;
        for (int i = 0; i < range.threads; ++i) {
            transcoders.emplace_back(options_.transcode);
        }
        std::int64_t bytes = 0;
        ordered_parallel_for(
            range,
            [&](std::int64_t index, int slot, int thread) {
                read(index, transcoders[static_cast<std::size_t>(thread)], slots[static_cast<std::size_t>(slot)]);
            },
            [&](std::int64_t index, int number) {
                const Slot& slot = slots[static_cast<std::size_t>(number)];
                write(target, index, slot);
                bytes += slot.bytes_in;
                report("pack", index + 1 - indices_.begin, bytes);
            });
        close_part(target);
    }

    // Runs on a worker's thread.
    void read(std::int64_t index, Transcoder& transcoder, Slot& slot) const {
        slot.bad.reset();
        slot.bytes_in = 0;
        slot.key = std::to_string(index);  // of a sample whose key is damaged
        slot.sample.label = -1;
        try {
            slot.key = dataset_.key(index);
            if (stk_ != nullptr) {
                stk_->reader().verify(index);  // otherwise damaged bytes would get a valid hash
            }
            read_sample(dataset_, index, slot.sample);
            require_target_of(slot.sample);
            slot.bytes_in = static_cast<std::int64_t>(slot.sample.bytes.size());
            for (const FieldValue& frame : slot.sample.frames) {
                slot.bytes_in += static_cast<std::int64_t>(frame.bytes.size());
            }
            if (dataset_.has_image()) {
                const bool original = stk_ == nullptr || stk_->image(index).original_file;
                transcoder.run(slot.sample, original, slot.transcoded);
            }
            read_fields(transcoder, slot);
        } catch (const DataError& error) {
            bad_sample(error, index, slot);
        } catch (const Unsupported& error) {  // this sample, not the data set
            bad_sample({{}, {.where = "sample", .expected = "a sample that can be read", .got = error.what()}}, index,
                       slot);
        }
        check_maps();
    }

    bool changes_images() const {
        const TranscodeOptions& images = options_.transcode;
        return images.codec == PackCodec::raw || images.quality > 0 || images.resize_shorter > 0;
    }

    // By the first sample, before anything is written.
    void refuse_first_sample() const {
        if ((!format_.clips || dataset_.fields().empty()) && !changes_images()) {
            return;
        }
        Sample sample;
        try {
            read_sample(dataset_, indices_.begin, sample, {.count = 1});
        } catch (const DataError&) {  // reported when it is packed
            return;
        } catch (const Unsupported&) {
            return;
        }
        require_target_of(sample);
    }

    void require_target_of(const Sample& sample) const {
        const auto is_clip = [](const FieldValue& value) { return !value.frames.empty() || is_video(value.bytes); };
        if (is_sound(sample.bytes) && sample.encoded && (!format_.sounds || changes_images())) {
            throw InvalidArgument({.where = path_.string(),
                                   .expected = format_.sounds
                                                   ? "no --codec raw, --quality or --resize-shorter for sounds"
                                                   : "a target named like data.stk or data.tar, for sounds",
                                   .got = format_.sounds ? "one of them" : "another one"});
        }
        const bool fields = std::ranges::any_of(sample.fields, is_clip);
        if (fields || (is_clip(sample) && !format_.clips)) {
            throw InvalidArgument({.where = path_.string(),
                                   .expected = fields ? "clips whose fields are single images and values"
                                                      : "a target named like data.stk, which holds clips",
                                   .got = fields ? "fields that are clips as well" : "another one",
                                   .hint = fields ? "leave them out" : ""});
        }
    }

    void read_fields(Transcoder& transcoder, Slot& slot) const {
        const std::span<const Field> fields = dataset_.fields();
        slot.fields.clear();
        for (std::size_t i = 0; i < fields.size(); ++i) {
            const FieldValue& value = slot.sample.field(i);
            if (has_pixels(fields[i].kind)) {
                transcoder.check(value);
            }
            slot.bytes_in += static_cast<std::int64_t>(value.bytes.size());
            slot.fields.push_back(packed_value(fields[i], value));
        }
    }

    // Throws the error unless bad samples are skipped.
    void bad_sample(const DataError& error, std::int64_t index, Slot& slot) const {
        check_maps();  // zeros in place of lost bytes are not the sample's fault
        if (!options_.skip_bad) {
            throw with_skip_hint(error.located({.path = dataset_.path(), .key = slot.key, .index = index}));
        }
        slot.bad = skipped(slot.key, index, error);
    }

    // The reason why the target cannot store the sample. Throws it unless bad samples are skipped.
    std::optional<SkippedSample> refused(const PackTarget& target, std::int64_t index,
                                         const PackedSample& sample) const {
        try {
            target.check_key(sample.key);
            target.check(sample);
            return std::nullopt;
        } catch (const DataError& error) {
            if (!options_.skip_bad) {
                throw error.located({.path = dataset_.path(), .key = std::string(sample.key), .index = index});
            }
            return skipped(std::string(sample.key), index, error);
        }
    }

    void write(PackTarget& target, std::int64_t index, const Slot& slot) {
        const PackedSample sample{
            .key = slot.key, .image = slot.transcoded.image, .label = slot.sample.label, .fields = slot.fields};
        const std::optional<SkippedSample> bad = slot.bad ? slot.bad : refused(target, index, sample);
        if (!bad) {
            if (target.closes_part(sample)) {
                close_part(target);
            }
            target.add(sample);
            check_maps();  // it may read the sample's bytes again
            part_open_ = true;
            if (!slot.transcoded.kept.empty()) {
                ++part_.kept[slot.transcoded.kept];
            }
            part_.exif_lost += slot.transcoded.exif_lost ? 1 : 0;
        } else {
            part_.skipped.push_back(*bad);
        }
        ++part_.samples_in;
        part_.bytes_in += slot.bytes_in;
    }

    void close_part(PackTarget& target) {
        if (!std::exchange(part_open_, false)) {
            return;  // no sample, or only bad ones, since the last part
        }
        target.close_part(json_text(to_json(part_)));
        add_stats(total_, std::exchange(part_, {}));
    }

    PackResult result() {
        const PackedSummary packed = format_.summary(path_);
        const std::int64_t expected = indices_.size() - static_cast<std::int64_t>(total_.skipped.size());
        if (packed.samples != expected) {
            throw DataError({.path = path_.string()}, {.where = "pack",
                                                       .expected = fmt::format("{} samples", expected),
                                                       .got = fmt::format("{}", packed.samples)});
        }
        static_cast<PackStats&>(result_) = total_;
        result_.format = format_.name;
        result_.path = packed.path;
        result_.samples = packed.samples;
        result_.bytes_out = packed.bytes;
        result_.shards = packed.shards;
        result_.codecs = packed.codecs;
        for (const Field& field : dataset_.fields()) {
            result_.fields.push_back(field.name);
        }
        return std::move(result_);
    }

    void report(const char* phase, std::int64_t done, std::int64_t bytes) const {
        if (options_.progress) {
            options_.progress(
                {.phase = phase, .done = done, .total = indices_.size(), .bytes = bytes, .kept = total_.samples_in});
        }
    }

    TargetProgress progress_for(const char* phase) const {
        return [this, phase](std::int64_t done, std::int64_t bytes) { report(phase, done, bytes); };
    }

    const Dataset& dataset_;
    const StkDataset* stk_;  // the data set if it is an stk one, else null
    const fs::path path_;
    const TargetFormat& format_;
    const PackOptions options_;
    const Indices indices_;
    const Json plan_;
    PackStats total_;  // of closed parts
    PackStats part_;   // since the last closed part
    bool part_open_ = false;
    PackResult result_;
};

}  // namespace

std::pair<std::int64_t, std::int64_t> PackPart::of(std::int64_t size) const {
    if (count < 1 || index < 0 || index >= count) {
        throw InvalidArgument({.where = "--part",
                               .expected = "INDEX/COUNT with an index from 0 to below the count",
                               .got = fmt::format("{}/{}", index, count),
                               .hint = "the parts of four are 0/4 to 3/4"});
    }
    const auto before = [&](std::int64_t parts) {  // samples of so many parts, without overflow
        return size / count * parts + size % count * parts / count;
    };
    return {before(index), before(index + 1)};
}

fs::path part_path(const fs::path& target, const PackPart& part) {
    if (part.count == 1) {
        return target;
    }
    return target.parent_path() / fmt::format("{}.part-{}-of-{}.stk", target.stem().string(), part.index, part.count);
}

PackResult pack(const Dataset& dataset, const fs::path& target, const PackOptions& options) {
    check_recoding(dataset, options.transcode);
    return with_checked_maps([&] { return Packing(dataset, target, options).run(); });
}

}  // namespace stoker
