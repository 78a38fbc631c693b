// CIFAR-10 and CIFAR-100 in both published versions: binary records, and pickles written by Python 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/pickle/pickle.h"

namespace stoker {

class CifarDataset final : public Dataset {
  public:
    // Samples are in the order of torchvision's CIFAR10 and CIFAR100: data_batch_1 to 5 one after the other. CIFAR-100
    // has its fine labels unless `fields.label` is "coarse_labels". Throws DataError; InvalidArgument for other fields.
    CifarDataset(const std::filesystem::path& directory, Split split, const FieldNames& fields = {});

    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "cifar"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return bytes_; }

  private:
    struct Batch {
        std::string path;
        MappedFile file;
        std::unique_ptr<Pickle> pickle;     // null for binary records; may own the pixels
        std::span<const std::byte> pixels;  // from the first image on; images are `step` bytes apart
        std::size_t step = 0;
        std::vector<std::int64_t> labels;  // from a pickle; empty for binary records, which begin with them
        std::int64_t count = 0;
    };
    struct Position {
        const Batch* batch;
        std::size_t at;
    };

    void read_classes(const std::filesystem::path& directory);
    void open_records(Batch& batch) const;
    void open_pickle(Batch& batch) const;
    Position position(std::int64_t index) const;
    std::int64_t label_of(const Position& position) const;
    [[noreturn]] void refuse(const Batch& batch, std::int64_t offset, std::string expected, std::string got) const;

    std::string path_;
    Split split_;
    bool hundred_ = false;  // CIFAR-100
    bool coarse_ = false;
    bool binary_ = false;
    std::vector<Batch> batches_;
    std::vector<std::string> classes_;
    std::int64_t size_ = 0;
    std::int64_t bytes_ = 0;
};

// True if the directory has files with CIFAR's names: data_batch_1 or test_batch, with or without .bin; train or test
// next to meta; train.bin or test.bin next to fine_label_names.txt.
bool holds_cifar(const std::filesystem::path& directory);

}  // namespace stoker
