// The parts are read one after the other, so that a merging of thousands of shards maps few of them at a time.
#include "stoker/pack/stk_parts.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/parse_number.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_writer.h"
#include "stoker/pack/pack_plan.h"
#include "stoker/pack/target.h"
#include "stoker/pack/written_shard.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const fs::path& target, std::string expected, std::string got, std::string hint) {
    throw InvalidArgument({.where = "--merge " + target.string(),
                           .expected = std::move(expected),
                           .got = std::move(got),
                           .hint = std::move(hint)});
}

// The part that a file of this name is, if any: "x.part-3-of-8.stk".
std::optional<PackPart> part_of(const fs::path& target, const fs::path& path) {
    const std::string name = path.filename().string();
    const std::string begin = target.stem().string() + ".part-";
    const std::size_t of = name.rfind("-of-");
    if (!name.starts_with(begin) || !name.ends_with(".stk") || of == std::string::npos || of < begin.size()) {
        return std::nullopt;
    }
    const auto index = parse_number<std::int64_t>(name.substr(begin.size(), of - begin.size()));
    const auto count = parse_number<std::int64_t>(name.substr(of + 4, name.size() - of - 8));
    const bool is_part = index && count && *index >= 0 && *index < *count;
    return is_part ? std::optional(PackPart{.index = *index, .count = *count}) : std::nullopt;
}

// For the parts next to the target: how many their packings have. One number if all are of one packing.
std::set<std::int64_t> counts_of_parts(const fs::path& target) {
    const fs::path folder = target.parent_path().empty() ? fs::path(".") : target.parent_path();
    std::set<std::int64_t> counts;
    for (const fs::path& path : list_folder(folder)) {
        if (const auto part = part_of(target, path)) {
            counts.insert(part->count);
        }
    }
    return counts;
}

// Throws unless there are parts, all of one packing.
std::int64_t count_of_parts(const fs::path& target) {
    const std::set<std::int64_t> counts = counts_of_parts(target);
    const std::string name = part_path(target, {.index = 0, .count = 8}).filename().string();
    if (counts.empty()) {
        refuse(target, "its parts beside it, such as " + name, "none",
               fmt::format("pack them with `stoker pack SOURCE {} --part 0/8`, and so on", target.string()));
    }
    if (counts.size() > 1) {
        refuse(target, "the parts of one packing", fmt::format("parts of {}", fmt::join(counts, " and of ")),
               "remove those of the other packing");
    }
    return *counts.begin();
}

// Plan and counts of a finished part; empty if it is not there, or not finished.
std::optional<Json> origin_of(const fs::path& part) {
    const std::optional<std::string> origin = finished_stk_origin(part);
    return origin ? std::optional(parse_own_json<Json>(*origin)) : std::nullopt;
}

std::vector<StkValue> values_of(const StkReader& reader, std::int64_t index) {
    std::vector<StkValue> values;
    const std::vector<StkField>& fields = reader.schema().fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        switch (fields[i].kind) {
            case StkKind::image:
                values.emplace_back(reader.image(i, index));
                break;
            case StkKind::label:
            case StkKind::integer:
                values.emplace_back(reader.integer(i, index));
                break;
            case StkKind::number:
                values.emplace_back(reader.number(i, index));
                break;
            case StkKind::bytes:
                values.emplace_back(reader.bytes(i, index));
                break;
            case StkKind::tensor:
                values.emplace_back(reader.tensor(i, index));
                break;
        }
    }
    return values;
}

class Merging {
  public:
    Merging(const fs::path& target, const MergeOptions& options) : target_(target), options_(options) {}

    PackResult run() {
        const auto origin = finished_stk_origin(target_);
        if (origin && counts_of_parts(target_).empty()) {  // merged before, and the parts removed
            stats_ = pack_stats_from_json(parse_own_json<Json>(*origin).value("result", Json()));
            samples_ = static_cast<std::int64_t>(read_manifest(target_ / kStkManifest).samples());
            result_.nothing_to_do = true;
            return result();
        }
        find_parts();
        if (origin) {
            check_plan(target_.string(), *origin, plan_, "packed", "name another target, or remove it first");
            result_.nothing_to_do = true;
        } else {
            if (const auto begun = unfinished_stk_origin(target_)) {
                check_plan(target_.string(), *begun, plan_, "begun", "remove it first");
            }
            write();
        }
        return result();
    }

  private:
    void find_parts() {
        if (target_format(target_).name != "stk") {
            refuse(target_, "a target x.stk", "another", "merge to x.stk, and pack that to the other format");
        }
        constexpr std::size_t kListed = 100;  // the count is that of a name, which may be any
        const std::int64_t count = count_of_parts(target_);
        std::vector<std::string> missing;
        for (std::int64_t index = 0; index < count; ++index) {
            const PackPart part{.index = index, .count = count};
            const fs::path path = part_path(target_, part);
            if (const std::optional<Json> origin = origin_of(path)) {
                add_part(path, part, *origin);
            } else if (missing.size() < kListed) {
                missing.push_back(fmt::format("{}/{}", index, count));
            } else {
                missing.emplace_back("...");
                break;
            }
        }
        if (!missing.empty()) {
            refuse(target_, fmt::format("{} finished parts", count),
                   fmt::format("no part {}", fmt::join(missing, ", ")),
                   "run `stoker pack` with --part for these; it resumes what was begun");
        }
    }

    void add_part(const fs::path& path, const PackPart& part, const Json& origin) {
        Json plan = origin.value("plan", Json());
        if (!plan.is_object() || plan.value("part", "") != fmt::format("{}/{}", part.index, part.count)) {
            refuse(target_, fmt::format("{} as packed with --part {}/{}", path.string(), part.index, part.count),
                   "another data set", "move it away, and pack the part");
        }
        plan.erase("part");
        if (plan_.is_null()) {
            plan_ = plan;
        }
        check_plan(path.string(), json_text(Json{{"plan", plan}}), plan_, "packed",
                   "all parts need the same source and options as part 0");
        add_stats(stats_, pack_stats_from_json(origin.value("result", Json())));
        parts_.push_back(path);
        samples_ += static_cast<std::int64_t>(read_manifest(path / kStkManifest).samples());
    }

    void write() {
        const StkSchema schema = StkReader(parts_.front()).schema();
        StkWriter writer(
            target_, schema,
            {.shard_size = plan_.at("shard_size").get<std::uint64_t>(), .origin = json_text(Json{{"plan", plan_}})});
        keep_sound_shards(writer, schema);
        const std::size_t earlier = writer.manifest().shards.size();
        result_.resumed_samples = static_cast<std::int64_t>(writer.samples());
        std::int64_t begin = 0;  // of the part
        for (const fs::path& path : parts_) {
            const StkReader part(path);
            if (part.schema() != schema) {
                throw DataError(
                    {.path = path.string()},
                    {.where = "pack", .expected = "the classes and fields of the first part", .got = "others"});
            }
            copy(part, begin, writer);
            begin += part.size();
        }
        writer.close_shard();
        for (std::size_t shard = earlier; shard < writer.manifest().shards.size(); ++shard) {
            check_shard("verify", writer, shard, schema);
        }
        const Json origin{{"plan", plan_}, {"result", to_json(stats_)}};
        writer.finish(json_text(origin));
    }

    // After an interrupted merge: drops the first damaged shard and all after it.
    void keep_sound_shards(StkWriter& writer, const StkSchema& schema) {
        for (std::size_t shard = 0; shard < writer.manifest().shards.size(); ++shard) {
            try {
                check_shard("check", writer, shard, schema);
            } catch (const DataError&) {
                writer.keep_shards(shard);
            }
        }
    }

    void check_shard(const char* phase, const StkWriter& writer, std::size_t shard, const StkSchema& schema) {
        check_written_shard(target_ / stk_shard_name(shard), writer.manifest().shards[shard], schema, options_.workers,
                            [&](const StkShard& at, std::int64_t done) {
                                report(phase, static_cast<std::int64_t>(at.first()) + done);
                            });
        bytes_ += static_cast<std::int64_t>(writer.manifest().shards[shard].bytes);
    }

    void copy(const StkReader& part, std::int64_t begin, StkWriter& writer) {
        const auto written = static_cast<std::int64_t>(writer.samples());
        for (std::int64_t i = std::max<std::int64_t>(written - begin, 0); i < part.size(); ++i) {
            part.verify(i);
            writer.add(part.key(i), values_of(part, i));
            check_maps();
            bytes_ += static_cast<std::int64_t>(part.bytes() / part.size());
            report("merge", begin + i + 1);
        }
    }

    PackResult result() {
        const PackedSummary packed = stk_summary(target_);
        if (packed.samples != samples_) {
            throw DataError({.path = target_.string()}, {.where = "pack",
                                                         .expected = fmt::format("{} samples", samples_),
                                                         .got = fmt::format("{}", packed.samples)});
        }
        static_cast<PackStats&>(result_) = stats_;
        result_.format = "stk";
        result_.path = packed.path;
        result_.samples = packed.samples;
        result_.bytes_out = packed.bytes;
        result_.shards = packed.shards;
        result_.codecs = packed.codecs;
        const StkReader reader(target_);
        for (const StkField& field : reader.schema().fields) {
            if (field.name != "image" && field.name != "label") {
                result_.fields.push_back(field.name);
            }
        }
        return std::move(result_);
    }

    void report(const char* phase, std::int64_t done) const {
        if (options_.progress) {
            options_.progress(
                {.phase = phase, .done = done, .total = samples_, .bytes = bytes_, .kept = result_.resumed_samples});
        }
    }

    const fs::path target_;
    const MergeOptions& options_;
    std::vector<fs::path> parts_;
    Json plan_;        // of the whole packing
    PackStats stats_;  // of all parts
    std::int64_t samples_ = 0;
    std::int64_t bytes_ = 0;
    PackResult result_;
};

}  // namespace

PackResult merge_stk_parts(const fs::path& target, const MergeOptions& options) {
    return with_checked_maps([&] { return Merging(target, options).run(); });
}

}  // namespace stoker
