// Base of all targets except stk: writes in a staging folder, with parts in a journal, verifies the result through the
// public reader and then publishes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pack/staging_folder.h"
#include "stoker/pack/target.h"

namespace stoker {

class StagedTarget : public PackTarget {
  public:
    std::optional<TargetPart> check_part(std::size_t part, const TargetProgress& progress) override;
    void begin(std::size_t whole) override;
    bool closes_part(const PackedSample& sample) const override;
    void add(const PackedSample& sample) override;
    void close_part(const std::string& notes) override;
    void finish(const std::string& origin, const TargetProgress& write, const TargetProgress& verify) override;

  protected:
    using Json = nlohmann::ordered_json;

    // A part ends after about `part_size` bytes.
    StagedTarget(const std::filesystem::path& path, const TargetOptions& options, std::string_view format,
                 std::uint64_t part_size);

    const StagingPaths& names() const { return names_; }
    std::filesystem::path staged(const std::string& file) const { return names_.folder / file; }
    const std::vector<std::string>& classes() const { return classes_; }
    const std::vector<Field>& fields() const { return fields_; }
    bool has_images() const { return images_; }
    std::int64_t source_samples() const { return source_samples_; }
    std::int64_t samples() const { return open_.samples; }  // of all parts, after begin()
    std::size_t parts() const { return staging_.parts().size(); }
    // Throws DataError for a sample that the format cannot store.
    [[noreturn]] void refuse(std::string_view key, std::string expected, std::string got, std::string hint) const;
    // Throws DataError for text that is not UTF-8 or contains a NUL, which a Python str or C string cannot hold.
    // `what`, for the message: "keys", "class names".
    void check_text(std::string_view text, const char* what) const;

    // Opens the files at `state`, a result of save(), and removes everything after it; null: at the start.
    virtual void resume(const Json* state) = 0;
    virtual void store(const PackedSample& sample) = 0;
    virtual std::uint64_t stored_bytes(const PackedSample& sample) const;
    // Syncs what was stored to disk. `hash`: of the bytes stored since the last call.
    virtual Json save(std::uint64_t& hash) = 0;
    // The same hash, computed from the files, of the bytes between the ends of two parts.
    virtual std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) = 0;
    // Gives the files their final form, syncs them and returns their names.
    virtual std::vector<std::string> assemble(const TargetProgress& progress) = 0;
    // Opens the data set in the folder with its public reader.
    virtual std::unique_ptr<Dataset> reopen() const;

  private:
    std::int64_t part_samples(std::size_t part) const;
    void check_same_fields(const Dataset& dataset) const;
    void read_back(const TargetProgress& progress) const;

    StagingPaths names_;
    StagingFolder staging_;
    std::string format_;
    std::vector<std::string> classes_;
    std::vector<Field> fields_;
    bool images_;
    std::int64_t source_samples_;
    std::uint64_t part_size_;
    int workers_;
    StagedPart open_;  // the open part; its sums include the closed parts
    std::uint64_t open_bytes_ = 0;
};

}  // namespace stoker
