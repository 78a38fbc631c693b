// CIFAR-10 and CIFAR-100 as they are published, in both forms: binary records, and pickles written by Python 2.
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
    // Samples in the order of torchvision's CIFAR10 and CIFAR100: data_batch_1 to 5 one after the other. Of CIFAR-100
    // the labels are the fine ones, unless `fields.label` is "coarse_labels". Throws DataError.
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
        std::unique_ptr<Pickle> pickle;     // null of binary records; may hold the pixels
        std::span<const std::byte> pixels;  // of the first image, `step` from one to the next
        std::size_t step = 0;
        std::vector<std::int64_t> labels;  // from a pickle; empty of binary records, which have them in front
        std::int64_t count = 0;
    };
    struct Place {
        const Batch* batch;
        std::size_t at;
    };

    void read_classes(const std::filesystem::path& directory);
    void open_records(Batch& batch) const;
    void open_pickle(Batch& batch) const;
    Place place(std::int64_t index) const;
    std::int64_t label_of(const Place& place) const;
    [[noreturn]] void refuse(const Batch& batch, std::int64_t offset, std::string expected, std::string got) const;

    std::string path_;
    Split split_;
    bool hundred_ = false;
    bool coarse_ = false;
    bool binary_ = false;
    std::vector<Batch> batches_;
    std::vector<std::string> classes_;
    std::int64_t size_ = 0;
    std::int64_t bytes_ = 0;
};

// True where the directory has files named as those of CIFAR are: data_batch_1 or test_batch, with or without .bin;
// train or test beside meta; train.bin or test.bin beside fine_label_names.txt.
bool holds_cifar(const std::filesystem::path& directory);

}  // namespace stoker
