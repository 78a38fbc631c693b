// The packing itself: what is kept of an earlier run, the stream of samples, the verification.
#include "stoker/pack/pack.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/stk.h"
#include "stoker/formats/stk_writer.h"
#include "stoker/pack/ordered.h"
#include "stoker/pack/plan.h"
#include "stoker/pack/tally.h"

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

class Packing {
  public:
    Packing(const Source& source, const fs::path& directory, const PackOptions& options)
        : source_(source),
          stk_(dynamic_cast<const StkSource*>(&source)),
          directory_(directory),
          options_(options),
          plan_(plan_of(source, options)) {}

    PackResult run() {
        if (fs::exists(directory_ / kStkManifest)) {
            return finished_before();
        }
        if (const fs::path part = directory_ / kStkPartManifest; fs::exists(part)) {
            check_plan(directory_.string(), read_manifest(part).origin, plan_, "begun",
                       "finish it so, or name another target");
        }
        StkWriter writer(directory_, stk_image_schema(source_.classes()),
                         {.shard_size = options_.shard_size, .origin = text_of({{"plan", plan_}})});
        const std::size_t kept = take_up(writer);
        result_.resumed_samples = static_cast<std::int64_t>(writer.samples());
        stream(writer);
        for (std::size_t shard = kept; shard < writer.manifest().shards.size(); ++shard) {
            verify(writer, shard, "verify");
        }
        total_.add(std::exchange(shard_, {}));  // bad samples after the last shard
        writer.finish(text_of({{"plan", plan_}, {"result", to_json(total_)}}));
        return report();
    }

  private:
    // The result of a packing that was complete before this one began.
    PackResult finished_before() {
        const Json origin = Json::parse(read_manifest(directory_ / kStkManifest).origin);
        check_plan(directory_.string(), text_of(origin), plan_, "packed", "name another target, or remove it first");
        total_ = tally_from_json(origin.value("result", Json()));
        result_.nothing_to_do = true;
        PackResult result = report();
        result.resumed_samples = result.samples;
        return result;
    }

    // Checks the shards of an earlier run and drops what is not good; gives back how many stay.
    std::size_t take_up(StkWriter& writer) {
        for (std::size_t shard = 0; shard < writer.manifest().shards.size(); ++shard) {
            try {
                verify(writer, shard, "check");
                const PackTally tally = tally_from_json(Json::parse(writer.manifest().notes[shard]));
                const auto samples = static_cast<std::int64_t>(writer.manifest().shards[shard].samples);
                if (tally.samples_in != samples + static_cast<std::int64_t>(tally.skipped.size()) ||
                    tally.samples_in > source_.size() - total_.samples_in) {
                    throw DataError({}, {.where = "pack", .expected = "notes that fit the shard", .got = "others"});
                }
                total_.add(tally);
            } catch (const DataError&) {  // damaged: packed again, as it never had been
                writer.keep(shard);
            } catch (const IoError&) {  // gone
                writer.keep(shard);
            }
        }
        return writer.manifest().shards.size();
    }

    void verify(const StkWriter& writer, std::size_t number, const char* phase) {
        const fs::path path = directory_ / stk_shard_name(number);
        const StkShardInfo& info = writer.manifest().shards[number];
        const StkShard shard(path);
        if (shard.hash() != info.hash || shard.samples() != static_cast<std::int64_t>(info.samples)) {
            throw DataError({.path = path.string()},
                            {.where = "pack", .expected = "the shard that was written", .got = "another"});
        }
        if (shard.schema() != stk_image_schema(source_.classes())) {
            throw DataError({.path = path.string()},
                            {.where = "pack", .expected = "the classes of the source", .got = "others"});
        }
        constexpr std::int64_t kPiece = 256;
        const OrderedWork range{.end = (shard.samples() + kPiece - 1) / kPiece, .threads = options_.workers};
        run_ordered(
            range,
            [&](std::int64_t piece, int, int) {
                for (std::int64_t i = piece * kPiece; i < std::min(shard.samples(), (piece + 1) * kPiece); ++i) {
                    shard.verify(i);
                }
            },
            [&](std::int64_t piece, int) {
                const std::int64_t done = std::min(shard.samples(), (piece + 1) * kPiece);
                tell(phase, static_cast<std::int64_t>(shard.first()) + done,
                     verified_ + static_cast<std::int64_t>(shard.bytes()) * done / shard.samples());
            });
        verified_ += static_cast<std::int64_t>(shard.bytes());
    }

    void stream(StkWriter& writer) {
        const OrderedWork range{.begin = total_.samples_in, .end = source_.size(), .threads = options_.workers};
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
                take(writer, slot);
                bytes += slot.bytes_in;
                tell("pack", index + 1, bytes);
            });
        close_shard(writer);
    }

    // On a worker's thread.
    void work(std::int64_t index, Recoder& recoder, Slot& slot) const {
        slot.bad.reset();
        slot.bytes_in = 0;
        slot.key = source_.key(index);
        slot.sample.label = -1;
        try {
            if (stk_ != nullptr) {
                stk_->reader().verify(index);  // else damage would get a good hash
            }
            source_.read(index, slot.sample);
            slot.bytes_in = static_cast<std::int64_t>(slot.sample.bytes.size());
            const bool original = stk_ == nullptr || stk_->image(index).original_file;
            recoder.run(slot.sample, original, slot.recoded);
        } catch (const DataError& error) {
            if (!options_.skip_bad) {
                const DataError full = error.located({.path = source_.path(), .key = slot.key, .index = index});
                throw DataError(full.place(),
                                {.where = full.info().where,
                                 .expected = full.info().expected,
                                 .got = full.info().got,
                                 .hint = "repair or remove it, or leave bad samples out with --skip-bad"});
            }
            DataPlace place = error.place();
            place.key.clear();  // it stands beside the reason
            place.index = index;
            slot.bad = {slot.key, DataError(std::move(place), error.info()).what()};
        } catch (const IoError& error) {
            if (!options_.skip_bad) {
                throw;
            }
            slot.bad = {slot.key, error.what()};
        }
    }

    void take(StkWriter& writer, const Slot& slot) {
        if (!slot.bad) {
            const StkValue values[] = {slot.recoded.image, slot.sample.label};
            if (writer.closes_shard(values)) {
                close_shard(writer);
            }
            writer.add(slot.key, values);
            if (!slot.recoded.kept.empty()) {
                ++shard_.kept[slot.recoded.kept];
            }
            shard_.exif_lost += slot.recoded.exif_lost ? 1 : 0;
        } else {
            shard_.skipped.push_back(*slot.bad);
        }
        ++shard_.samples_in;
        shard_.bytes_in += slot.bytes_in;
    }

    void close_shard(StkWriter& writer) {
        if (writer.samples() == writer.manifest().samples()) {
            return;  // only bad samples since the last one
        }
        writer.close_shard(text_of(to_json(shard_)));
        total_.add(std::exchange(shard_, {}));
    }

    PackResult report() {
        const StkSource packed(directory_);
        const std::int64_t expected = source_.size() - static_cast<std::int64_t>(total_.skipped.size());
        if (packed.size() != expected) {
            throw DataError({.path = directory_.string()}, {.where = "pack",
                                                            .expected = fmt::format("{} samples", expected),
                                                            .got = fmt::format("{}", packed.size())});
        }
        result_.samples = packed.size();
        result_.bytes_in = total_.bytes_in;
        result_.bytes_out = packed.bytes();
        result_.shards = static_cast<std::int64_t>(packed.reader().shards().size());
        result_.codecs = packed.codecs();
        result_.kept = total_.kept;
        result_.exif_lost = total_.exif_lost;
        result_.skipped = total_.skipped;
        return std::move(result_);
    }

    void tell(const char* phase, std::int64_t done, std::int64_t bytes) const {
        if (options_.progress) {
            options_.progress({.phase = phase, .done = done, .total = source_.size(), .bytes = bytes});
        }
    }

    const Source& source_;
    const StkSource* stk_;  // the source, where it is packed already
    const fs::path directory_;
    const PackOptions& options_;
    const Json plan_;
    PackTally total_;  // of finished shards
    PackTally shard_;  // of the one under way
    std::int64_t verified_ = 0;
    PackResult result_;
};

}  // namespace

PackResult pack(const Source& source, const fs::path& directory, const PackOptions& options) {
    return Packing(source, directory, options).run();
}

}  // namespace stoker
