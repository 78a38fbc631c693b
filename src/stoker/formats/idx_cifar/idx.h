// Data sets of IDX files, such as MNIST: a file of images and a file of labels for each split, recognised by their
// names.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/idx_cifar/idx_file.h"

namespace stoker {

class IdxDataset final : public Dataset {
  public:
    // Images (N, H, W) or (N, H, W, C), labels (N). Keys are "train/123" or "test/123". Throws DataError, IoError.
    IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels, Split split);

    std::int64_t size() const override { return images_.shape()[0]; }
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "idx"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return images_.file_bytes() + labels_.file_bytes(); }

  private:
    std::string path_;  // of the images' file
    IdxFile images_;
    IdxFile labels_;
    Split split_;
    std::vector<std::string> classes_;  // "0" to the largest label
    int height_ = 0;
    int width_ = 0;
    int channels_ = 1;
};

struct IdxPaths {
    std::filesystem::path images;
    std::filesystem::path labels;
};

// True if the directory has a file of images named as MNIST's: [prefix-]train-images-idx3-ubyte[.gz], with t10k or
// test for the test split, idx4 for colour, and "-idx" or ".idx". Labels are named labels-idx1.
bool holds_idx(const std::filesystem::path& directory);

// The files of one split; a plain file is preferred to a .gz. Throws DataError if one is missing, or if the
// directory holds several data sets (several prefixes).
IdxPaths find_idx(const std::filesystem::path& directory, Split split);

}  // namespace stoker
