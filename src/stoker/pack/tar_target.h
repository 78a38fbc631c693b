// Packs into WebDataset shards or one tar file: members KEY.jpg, or KEY.npy for pixels, and KEY.cls. A part is a shard;
// in a single file, the members between two syncs.
#pragma once

#include <memory>

#include "stoker/pack/staged_target.h"

namespace stoker {

class TarTarget final : public StagedTarget {
  public:
    TarTarget(const std::filesystem::path& path, const TargetOptions& options);

    void check(const PackedSample& sample) const override;
    bool needs_unique_keys() const override { return true; }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    std::uint64_t stored_bytes(const PackedSample& sample) const override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;
    std::unique_ptr<Dataset> reopen() const override;

  private:
    std::optional<std::string> usual_;  // see usual_extension; empty before the first sample
    std::size_t shard_ = 0;
    std::unique_ptr<AppendFile> file_;  // null between two shards
};

}  // namespace stoker
