// Packs into files of columns, HDF5 and npz: the arrays `images`, `labels` and `keys`. Samples are spooled first and
// the file is written at the end, which takes twice its size on disk for a while.
#pragma once

#include <array>
#include <optional>

#include "stoker/pack/sample_spool.h"
#include "stoker/pack/staged_target.h"

namespace stoker {

class TableTarget : public StagedTarget {
  public:
    TableTarget(const std::filesystem::path& path, const TargetOptions& options, std::string_view format);

    void check_key(std::string_view key) const override { check_text(key, "keys"); }
    bool needs_unique_keys() const override { return true; }

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;

    // Writes the file from the spool; `progress` takes samples and bytes of images.
    virtual void write(const std::filesystem::path& path, const TargetProgress& progress) const = 0;

    const SampleSpool& spool() const { return spool_; }
    // Reads the spooled images in batches, with progress.
    void read_images(const TargetProgress& progress, const std::function<void(const SpoolBatch&)>& take) const;
    std::int64_t count() const { return samples(); }
    bool empty() const { return !any_; }           // no sample yet
    bool fixed() const { return pixels_[0] > 0; }  // raw pixels of one size
    bool labelled() const { return labelled_; }
    std::size_t key_width() const { return key_width_; }  // code points of the longest key
    const std::string& first() const { return first_; }   // key of the first sample
    std::string size_text() const;                        // "28 x 28 x 1", "an encoded image"
    static std::string size_text(const StkImage& image);
    // Shape of all images as one array: (N, H, W) or (N, H, W, C).
    Shape images_shape() const;
    bool same_size(const StkImage& image) const;

  private:
    SampleSpool spool_;
    std::array<std::uint64_t, 3> pixels_ = {};  // height, width, channels; zeros for encoded images
    std::string first_;                         // key of the first sample
    bool any_ = false;
    bool labelled_ = false;
    std::size_t key_width_ = 1;
};

class Hdf5Target final : public TableTarget {
  public:
    Hdf5Target(const std::filesystem::path& path, const TargetOptions& options) : TableTarget(path, options, "hdf5") {}

    void check(const PackedSample& sample) const override;

  protected:
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

class NpzTarget final : public TableTarget {
  public:
    NpzTarget(const std::filesystem::path& path, const TargetOptions& options) : TableTarget(path, options, "npz") {}

    void check(const PackedSample& sample) const override;

  protected:
    void write(const std::filesystem::path& path, const TargetProgress& progress) const override;
};

}  // namespace stoker
