// A data set of IDX files, as MNIST and its relatives are published: a file of images, a file of
// labels, and the names that tell the training files from the test files.
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
    // Images (N, H, W) or (N, H, W, C), labels (N). `split` names the keys: "train/123", "test/123".
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
    std::string path_;  // of the images
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

// True where the directory has a file named as MNIST's are: [prefix-]train-images-idx3-ubyte[.gz], with t10k or test
// for the test split, labels-idx1 for the labels, idx4 for colour, and a dot before "idx" as good as a dash.
bool holds_idx(const std::filesystem::path& directory);

// The files of one split, the plain one where there is also a .gz. Throws DataError where one is
// missing, or where the directory holds several data sets (several prefixes).
IdxPaths find_idx(const std::filesystem::path& directory, Split split);

}  // namespace stoker
