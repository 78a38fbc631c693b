// Packs into the stk format. A part is a shard.
#pragma once

#include "stoker/formats/stk/stk_writer.h"
#include "stoker/pack/target.h"

namespace stoker {

class StkTarget final : public PackTarget {
  public:
    StkTarget(const std::filesystem::path& path, const TargetOptions& options);

    std::size_t parts() const override { return writer_.manifest().shards.size(); }
    std::int64_t part_samples(std::size_t part) const override;
    std::string part_notes(std::size_t part) const override { return writer_.manifest().notes[part]; }
    void check_part(std::size_t part, const TargetProgress& progress) override;
    void keep_parts(std::size_t count) override;
    std::int64_t samples() const override { return static_cast<std::int64_t>(writer_.samples()); }
    bool closes_part(const PackedSample& sample) const override;
    void check_key(std::string_view key) const override;
    void add(const PackedSample& sample) override;
    void close_part(const std::string& notes) override { writer_.close_shard(notes); }
    void finalize(const std::string& origin, const TargetProgress& progress) override;
    void verify(const TargetProgress& progress) override;
    void publish() override { writer_.finish(origin_); }

  private:
    std::filesystem::path directory_;
    StkSchema schema_;
    int workers_;
    StkWriter writer_;
    std::size_t checked_ = 0;  // number of verified shards
    std::int64_t bytes_ = 0;   // verified bytes
    std::string origin_;
};

std::optional<std::string> finished_stk_origin(const std::filesystem::path& path);
std::optional<std::string> unfinished_stk_origin(const std::filesystem::path& path);
PackedSummary stk_summary(const std::filesystem::path& path);

}  // namespace stoker
