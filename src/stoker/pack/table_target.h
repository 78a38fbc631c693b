// Packing into files of columns, HDF5 and npz: `images`, `labels` and `keys`, each an array over all samples. Samples
// are spooled, and the file is written front to back at the end, so that twice its room is needed for a while.
#pragma once

#include <array>
#include <optional>

#include "stoker/pack/spool.h"
#include "stoker/pack/staged_target.h"

namespace stoker {

class TableTarget : public StagedTarget {
  public:
    TableTarget(const std::filesystem::path& path, const TargetOptions& options, std::string_view format);

    void check_key(std::string_view key) const override { check_text(key, "keys"); }
    void check(const PackedSample& sample) const override;
    bool needs_different_keys() const override { return true; }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;

    // Throws DataError for a sample that does not fit those before it.
    virtual void check_first(const PackedSample& sample) const = 0;
    virtual void check_next(const PackedSample& sample) const = 0;
    // Writes the file; `progress` takes samples and bytes of images.
    virtual void write(const std::filesystem::path& path, const TargetProgress& progress) const = 0;

    const Spool& spool() const { return spool_; }
    std::int64_t count() const { return samples(); }
    bool fixed() const { return pixels_[0] > 0; }  // raw pixels of one size
    bool labelled() const { return labelled_; }
    std::size_t key_width() const { return key_width_; }  // code points of the longest key
    const std::string& first() const { return first_; }   // key of the first sample
    std::string size_text() const;                        // "28 x 28 x 1", "an encoded image"
    static std::string size_text(const StkImage& image);
    // Of the images as one array: (N, H, W), or (N, H, W, C).
    Shape images_shape() const;
    bool same_size(const StkImage& image) const;

  private:
    Spool spool_;
    std::array<std::uint64_t, 3> pixels_ = {};  // height, width, channels; zeros for encoded images
    std::string first_;
    bool any_ = false;
    bool labelled_ = false;
    std::size_t key_width_ = 1;
};

class Hdf5Target final : public TableTarget {
  public:
    Hdf5Target(const std::filesystem::path& path, const TargetOptions& options) : TableTarget(path, options, "hdf5") {}

  protected:
    void check_first(const PackedSample& sample) const override;
    void check_next(const PackedSample& sample) const override;
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

class NpzTarget final : public TableTarget {
  public:
    NpzTarget(const std::filesystem::path& path, const TargetOptions& options) : TableTarget(path, options, "npz") {}

  protected:
    void check_first(const PackedSample& sample) const override;
    void check_next(const PackedSample& sample) const override;
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

}  // namespace stoker
