// The packing itself: what is kept of an earlier run, the stream of samples, the verification.
#include "stoker/pack/pack.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pack/equal_keys.h"
#include "stoker/pack/ordered.h"
#include "stoker/pack/pack_plan.h"
#include "stoker/pack/tally.h"
#include "stoker/pack/target.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct Slot {  // what a worker makes of one sample
    Sample sample;
    Recoded recoded;
    std::int64_t bytes_in = 0;
    std::string key;
    std::optional<SkippedSample> bad;
};

DataError with_skip_hint(const DataError& error) {
    return {error.place(),
            {.where = error.info().where,
             .expected = error.info().expected,
             .got = error.info().got,
             .hint = "repair or remove it, or leave bad samples out with --skip-bad"}};
}

SkippedSample skipped(const std::string& key, std::int64_t index, const DataError& error) {
    DataPlace place = error.place();
    place.key.clear();  // it stands beside the reason
    place.index = index;
    return {key, DataError(std::move(place), error.info()).what()};
}

PackOptions resolved(PackOptions options, const TargetFormat& format) {
    options.recode.codec = options.recode.codec.value_or(format.codec);
    return options;
}

class Packing {
  public:
    Packing(const Dataset& dataset, const fs::path& path, const PackOptions& options)
        : dataset_(dataset),
          stk_(dynamic_cast<const StkDataset*>(&dataset)),
          path_(path),
          format_(target_format(path)),
          options_(resolved(options, format_)),
          plan_(plan_of(dataset, options_, format_.shards)) {}

    PackResult run() {
        refuse_inside_source();
        if (const auto origin = format_.finished(path_)) {
            return finished_before(*origin);
        }
        if (const auto origin = format_.begun(path_)) {
            check_plan(path_.string(), *origin, plan_, "begun", "finish it so, or name another target");
        }
        {
            const auto target = format_.open(path_, {.origin = text_of({{"plan", plan_}}),
                                                     .classes = dataset_.classes(),
                                                     .samples = dataset_.size(),
                                                     .shard_size = options_.shard_size,
                                                     .workers = options_.workers});
            take_up(*target);
            result_.resumed_samples = target->samples();
            check_keys(*target);
            target->begin();
            stream(*target);
            total_.add(std::exchange(part_, {}));  // bad samples after the last part
            target->seal(text_of({{"plan", plan_}, {"result", to_json(total_)}}), told("write"));
            target->verify(told("verify"));
            target->publish();
        }
        return report();
    }

  private:
    // There it would be taken for a part of the dataset from then on.
    void refuse_inside_source() const {
        std::error_code unknown;
        if (!fs::is_directory(dataset_.path(), unknown)) {
            return;
        }
        const fs::path dataset = fs::weakly_canonical(dataset_.path(), unknown);
        const fs::path within = fs::weakly_canonical(path_, unknown).lexically_relative(dataset);
        if (!within.empty() && *within.begin() != "..") {
            throw InvalidArgument({.where = path_.string(),
                                   .expected = "a target outside of the source " + dataset_.path(),
                                   .got = "one within it",
                                   .hint = "the source would be another data set with it"});
        }
    }

    // The result of a packing that was complete before this one began.
    PackResult finished_before(const std::string& text) {
        check_plan(path_.string(), text, plan_, "packed", "name another target, or remove it first");
        const Json origin = Json::parse(text);
        total_ = tally_from_json(origin.value("result", Json()));
        result_.nothing_to_do = true;
        PackResult result = report();
        result.resumed_samples = result.samples;
        return result;
    }

    // Checks the parts of an earlier run and drops what is not good.
    void take_up(PackTarget& target) {
        for (std::size_t part = 0; part < target.parts(); ++part) {
            try {
                target.check_part(part, told("check"));
                const PackTally tally = tally_from_json(Json::parse(target.part_notes(part), nullptr, false));
                if (tally.samples_in != target.part_samples(part) + static_cast<std::int64_t>(tally.skipped.size()) ||
                    tally.samples_in > dataset_.size() - total_.samples_in) {
                    throw DataError({}, {.where = "pack", .expected = "notes that fit the part", .got = "others"});
                }
                total_.add(tally);
            } catch (const DataError&) {  // damaged or gone: packed again, as it never had been
                target.keep(part);
            }
        }
    }

    // Before the first sample: a key at the end that the format cannot hold shall not cost all the work before it.
    void check_keys(const PackTarget& target) const {
        for (std::int64_t i = 0; !options_.skip_bad && i < dataset_.size(); ++i) {
            const std::string key = dataset_.key(i);
            try {
                target.check_key(key);
            } catch (const DataError& error) {
                throw error.located({.path = dataset_.path(), .key = key, .index = i});
            }
        }
        if (target.needs_different_keys()) {
            refuse_equal_keys(dataset_, format_.name);
        }
    }

    void stream(PackTarget& target) {
        const OrderedWork range{.begin = total_.samples_in, .end = dataset_.size(), .threads = options_.workers};
        std::vector<Slot> slots(static_cast<std::size_t>(range.places()));
        std::vector<Recoder> recoders;
        for (int i = 0; i < range.threads; ++i) {
            recoders.emplace_back(options_.recode);
        }
        std::int64_t bytes = 0;
        run_ordered(
            range,
            [&](std::int64_t index, int place, int thread) {
                work(index, recoders[static_cast<std::size_t>(thread)], slots[static_cast<std::size_t>(place)]);
            },
            [&](std::int64_t index, int place) {
                const Slot& slot = slots[static_cast<std::size_t>(place)];
                take(target, index, slot);
                bytes += slot.bytes_in;
                tell("pack", index + 1, bytes);
            });
        close_part(target);
    }

    // On a worker's thread.
    void work(std::int64_t index, Recoder& recoder, Slot& slot) const {
        slot.bad.reset();
        slot.bytes_in = 0;
        slot.key = dataset_.key(index);
        slot.sample.label = -1;
        try {
            if (stk_ != nullptr) {
                stk_->reader().verify(index);  // else damage would get a good hash
            }
            dataset_.read(index, slot.sample);
            slot.bytes_in = static_cast<std::int64_t>(slot.sample.bytes.size());
            const bool original = stk_ == nullptr || stk_->image(index).original_file;
            recoder.run(slot.sample, original, slot.recoded);
        } catch (const DataError& error) {
            if (!options_.skip_bad) {
                throw with_skip_hint(error.located({.path = dataset_.path(), .key = slot.key, .index = index}));
            }
            slot.bad = skipped(slot.key, index, error);
        } catch (const IoError& error) {
            if (!options_.skip_bad) {
                throw;
            }
            slot.bad = {slot.key, error.what()};
        }
    }

    // Why the target cannot hold the sample; without --skip-bad that ends the packing.
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

    void take(PackTarget& target, std::int64_t index, const Slot& slot) {
        const PackedSample sample{.key = slot.key, .image = slot.recoded.image, .label = slot.sample.label};
        const std::optional<SkippedSample> bad = slot.bad ? slot.bad : refused(target, index, sample);
        if (!bad) {
            if (target.closes_part(sample)) {
                close_part(target);
            }
            target.add(sample);
            open_ = true;
            if (!slot.recoded.kept.empty()) {
                ++part_.kept[slot.recoded.kept];
            }
            part_.exif_lost += slot.recoded.exif_lost ? 1 : 0;
        } else {
            part_.skipped.push_back(*bad);
        }
        ++part_.samples_in;
        part_.bytes_in += slot.bytes_in;
    }

    void close_part(PackTarget& target) {
        if (!std::exchange(open_, false)) {
            return;  // only bad samples since the last one
        }
        target.close_part(text_of(to_json(part_)));
        total_.add(std::exchange(part_, {}));
    }

    PackResult report() {
        const PackedFigures packed = format_.figures(path_);
        const std::int64_t expected = dataset_.size() - static_cast<std::int64_t>(total_.skipped.size());
        if (packed.samples != expected) {
            throw DataError({.path = path_.string()}, {.where = "pack",
                                                       .expected = fmt::format("{} samples", expected),
                                                       .got = fmt::format("{}", packed.samples)});
        }
        result_.format = format_.name;
        result_.path = packed.path;
        result_.samples = packed.samples;
        result_.bytes_in = total_.bytes_in;
        result_.bytes_out = packed.bytes;
        result_.shards = packed.shards;
        result_.codecs = packed.codecs;
        result_.kept = total_.kept;
        result_.exif_lost = total_.exif_lost;
        result_.skipped = total_.skipped;
        return std::move(result_);
    }

    void tell(const char* phase, std::int64_t done, std::int64_t bytes) const {
        if (options_.progress) {
            options_.progress({.phase = phase, .done = done, .total = dataset_.size(), .bytes = bytes});
        }
    }

    TargetProgress told(const char* phase) const {
        return [this, phase](std::int64_t done, std::int64_t bytes) { tell(phase, done, bytes); };
    }

    const Dataset& dataset_;
    const StkDataset* stk_;  // the dataset, where it is packed already
    const fs::path path_;
    const TargetFormat& format_;
    const PackOptions options_;
    const Json plan_;
    PackTally total_;    // of closed parts
    PackTally part_;     // of the one under way
    bool open_ = false;  // there is one
    PackResult result_;
};

}  // namespace

PackResult pack(const Dataset& dataset, const fs::path& target, const PackOptions& options) {
    return Packing(dataset, target, options).run();
}

}  // namespace stoker
