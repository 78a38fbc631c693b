// What the targets beside stk have in common: parts that a journal knows, a name that appears at the end, and a
// last look through the reader that everybody else will use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pack/staging.h"
#include "stoker/pack/target.h"

namespace stoker {

class StagedTarget : public PackTarget {
  public:
    std::size_t parts() const override { return staging_.parts().size(); }
    std::int64_t part_samples(std::size_t part) const override;
    std::string part_notes(std::size_t part) const override { return staging_.parts()[part].notes; }
    void check_part(std::size_t part, const TargetProgress& progress) override;
    void keep(std::size_t count) override { staging_.keep(count); }
    std::int64_t samples() const override;
    bool closes_part(const PackedSample& sample) const override;
    void begin() override;
    void add(const PackedSample& sample) override;
    void close_part(const std::string& notes) override;
    void seal(const std::string& origin, const TargetProgress& progress) override;
    void verify(const TargetProgress& progress) override;
    void publish() override;

  protected:
    using Json = nlohmann::ordered_json;

    // Parts end after about `part_size` bytes.
    StagedTarget(const std::filesystem::path& path, const TargetOptions& options, std::string_view format,
                 std::uint64_t part_size);

    const StagedNames& names() const { return names_; }
    std::filesystem::path staged(const std::string& file) const { return names_.folder / file; }
    const std::vector<std::string>& classes() const { return classes_; }
    std::int64_t source_samples() const { return source_samples_; }
    // Of a sample that does not fit those before it.
    [[noreturn]] void refuse(std::string_view key, std::string expected, std::string got, std::string hint) const;
    // What a Python str and a C string can hold: throws DataError for other bytes than UTF-8, and for a NUL. `what`:
    // "keys", "class names".
    void check_text(std::string_view text, const char* what) const;

    // Opens the files to go on where `state` says, null at the start; whatever lies behind it goes.
    virtual void resume(const Json* state) = 0;
    virtual void store(const PackedSample& sample) = 0;
    virtual std::uint64_t stored_bytes(const PackedSample& sample) const { return sample.image.bytes.size(); }
    // Brings what was stored to the disk; the hash is of the bytes stored since the last call.
    virtual Json save(std::uint64_t& hash) = 0;
    // The same hash of what lies on the disk between the ends of two parts.
    virtual std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) = 0;
    // Gives the files their last form and brings them to the disk.
    virtual std::vector<std::string> assemble(const TargetProgress& progress) = 0;
    // The data set that lies in the folder, through its reader.
    virtual std::unique_ptr<Dataset> reopen() const;

  private:
    StagedNames names_;
    Staging staging_;
    std::string format_;
    std::vector<std::string> classes_;
    std::int64_t source_samples_;
    std::uint64_t part_size_;
    int workers_;
    bool begun_ = false;
    StagedPart open_;  // with what the closed parts hold
    std::uint64_t open_bytes_ = 0;
    std::vector<std::string> files_;
    Json record_;
};

}  // namespace stoker
