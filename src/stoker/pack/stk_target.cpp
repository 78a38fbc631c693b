// Packs into the stk format. A part is a shard, which is verified by hashing every payload, on all workers.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_writer.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/target.h"
#include "stoker/pack/written_shard.h"

namespace stoker {

namespace fs = std::filesystem;

namespace {

class StkTarget final : public PackTarget {
  public:
    StkTarget(const std::filesystem::path& path, const TargetOptions& options);

    std::optional<TargetPart> check_part(std::size_t part, const TargetProgress& progress) override;
    void begin(std::size_t whole) override;
    void check_key(std::string_view key) const override;
    bool closes_part(const PackedSample& sample) const override { return writer_.closes_shard(values_of(sample)); }
    void add(const PackedSample& sample) override { writer_.add(sample.key, values_of(sample)); }
    void close_part(const std::string& notes) override { writer_.close_shard(notes); }
    void finish(const std::string& origin, const TargetProgress& write, const TargetProgress& verify) override;

  private:
    const std::vector<StkValue>& values_of(const PackedSample& sample) const;

    std::filesystem::path directory_;
    StkSchema schema_;
    bool images_;
    int workers_;
    StkWriter writer_;
    std::size_t checked_ = 0;               // number of verified shards
    std::int64_t bytes_ = 0;                // verified bytes
    mutable std::vector<StkValue> values_;  // reused
};

StkSchema schema_of(const TargetOptions& options) {
    StkSchema schema = stk_image_schema(options.classes);
    if (!options.images) {
        schema.fields.erase(schema.fields.begin());
    }
    std::ranges::transform(options.fields, std::back_inserter(schema.fields), stk_field_of);
    return schema;
}

StkTarget::StkTarget(const fs::path& path, const TargetOptions& options)
    : directory_(path),
      schema_(schema_of(options)),
      images_(options.images),
      workers_(options.workers),
      writer_(path, schema_, {.shard_size = options.shard_size, .origin = options.origin}) {}

std::optional<TargetPart> StkTarget::check_part(std::size_t part, const TargetProgress& progress) {
    const StkManifest& manifest = writer_.manifest();
    if (part == manifest.shards.size()) {
        return std::nullopt;
    }
    const StkShardInfo& info = manifest.shards[part];
    check_written_shard(directory_ / stk_shard_name(part), info, schema_, workers_,
                        [&](const StkShard& shard, std::int64_t done) {
                            progress(static_cast<std::int64_t>(shard.first()) + done,
                                     bytes_ + static_cast<std::int64_t>(shard.bytes()) * done / shard.samples());
                        });
    bytes_ += static_cast<std::int64_t>(info.bytes);
    checked_ = part + 1;
    return TargetPart{.samples = static_cast<std::int64_t>(info.samples), .notes = manifest.notes[part]};
}

void StkTarget::begin(std::size_t whole) {
    if (whole < writer_.manifest().shards.size()) {
        writer_.keep_shards(whole);
    }
    checked_ = whole;
}

void StkTarget::check_key(std::string_view key) const {
    if (key.size() > kStkMaxKey) {
        throw DataError({.path = directory_.string(), .key = std::string(key.substr(0, 100))},
                        {.where = "stk",
                         .expected = fmt::format("a key of at most {} bytes", kStkMaxKey),
                         .got = fmt::format("{}", key.size())});
    }
}

const std::vector<StkValue>& StkTarget::values_of(const PackedSample& sample) const {
    values_.clear();
    if (images_) {
        values_.emplace_back(sample.image);
    }
    values_.emplace_back(sample.label);
    values_.insert(values_.end(), sample.fields.begin(), sample.fields.end());
    return values_;
}

void StkTarget::finish(const std::string& origin, const TargetProgress& /*write*/, const TargetProgress& verify) {
    while (check_part(checked_, verify)) {
    }
    writer_.finish(origin);
}

}  // namespace

std::unique_ptr<PackTarget> open_stk_target(const fs::path& path, const TargetOptions& options) {
    return std::make_unique<StkTarget>(path, options);
}

std::optional<std::string> finished_stk_origin(const fs::path& path) {
    return fs::exists(path / kStkManifest) ? std::optional(read_manifest(path / kStkManifest).origin) : std::nullopt;
}

std::optional<std::string> unfinished_stk_origin(const fs::path& path) {
    const fs::path part = path / kStkPartManifest;
    if (!fs::exists(part)) {
        return std::nullopt;
    }
    StkManifest manifest = read_manifest(part);  // without shards nothing was kept, and anything may begin anew
    return manifest.shards.empty() ? std::nullopt : std::optional(std::move(manifest.origin));
}

PackedSummary stk_summary(const fs::path& path) {
    const StkDataset packed(path);
    return {.path = path.string(),
            .samples = packed.size(),
            .bytes = packed.bytes(),
            .shards = static_cast<std::int64_t>(packed.reader().shards().size()),
            .codecs = packed.codecs()};
}

}  // namespace stoker
