// Packs into LMDB: the entries "00000000", "00000001", ... are pickled dicts of key, image and label; __len__,
// __classes__ and __keys__ are further entries. A part is one or more committed transactions.
#pragma once

#include <memory>

#include "stoker/base/hash.h"
#include "stoker/formats/lmdb/lmdb_writer.h"
#include "stoker/pack/staged_target.h"

namespace stoker {

class LmdbTarget final : public StagedTarget {
  public:
    LmdbTarget(const std::filesystem::path& path, const TargetOptions& options);

    void check_key(std::string_view key) const override { check_text(key, "keys"); }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;

  private:
    LmdbWriter& writer();
    std::string key_of(std::uint64_t index) const;

    int width_;  // digits of an entry's key
    std::unique_ptr<LmdbWriter> writer_;
    std::uint64_t count_ = 0;
    StreamHash hash_;
    std::vector<std::byte> value_;
};

}  // namespace stoker
