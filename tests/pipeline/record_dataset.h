// A data set of dct records of small pictures: every sampling, odd sizes, grey, of each kind, and the same
// with further fields. Tests replace some of them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/formats/dataset.h"

namespace stoker::testing {

class RecordDataset final : public Dataset {
  public:
    explicit RecordDataset(std::int64_t size) {
        constexpr std::array<std::array<int, 3>, 4> kFactors = {{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {1, 1, 1}}};
        for (std::int64_t i = 0; i < size; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const JpegPlan plan{.width = 30 + static_cast<int>(i * 17 % 60),
                                .height = 30 + static_cast<int>(i * 29 % 70),
                                .colors = i % 7 == 3 ? Colors::grey : Colors::ycc,
                                .h = kFactors[at % 4],
                                .v = kFactors[(at + at / 4 % 2) % 4],
                                .quality = 60 + static_cast<int>(i % 40),
                                .orientation = i % 5 == 4 ? 6 : 0,
                                .content = i % 3 == 0 ? Content::noise : Content::photo,
                                .seed = static_cast<std::uint64_t>(i) + 1};
            sizes.push_back({plan.height, plan.width});
            jpegs.push_back(make_jpeg(plan));
            records.push_back(encode_dct(jpegs.back(), kDctKinds[i % 3]).bytes);
        }
    }

    std::int64_t size() const override { return static_cast<std::int64_t>(records.size()); }
    void read(std::int64_t index, Sample& sample) const override {
        sample.set_encoded_image(records[static_cast<std::size_t>(index)]);
        sample.label = index % 10;
    }
    std::string key(std::int64_t index) const override { return fmt::format("records/{:03}", index); }
    std::string path() const override { return "records"; }

    std::vector<Bytes> records;
    std::vector<Bytes> jpegs;  // of the same pictures
    std::vector<ImageSize> sizes;
};

// Records with a mask, and with their JPEG as a further image. The masks of `damaged` are too small.
class RecordsWithFields final : public Dataset {
  public:
    explicit RecordsWithFields(std::int64_t size) : records(size) {}
    std::int64_t size() const override { return records.size(); }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        const auto at = static_cast<std::size_t>(index);
        records.read(index, sample);
        const auto [height, width] = records.sizes[at];
        const int rows = damaged.contains(index) ? 1 : height;
        FieldValue& mask = sample.field(0);
        mask.storage.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(width));
        for (std::size_t i = 0; i < mask.storage.size(); ++i) {
            mask.storage.data()[i] = static_cast<std::byte>(i * 7 % 251);
        }
        mask.set_raw(mask.storage.bytes(), rows, width, 1);
        sample.field(1).set_encoded_image(records.jpegs[at]);
    }
    std::string key(std::int64_t index) const override { return records.key(index); }
    std::string path() const override { return records.path(); }

    RecordDataset records;
    std::set<std::int64_t> damaged;

  private:
    std::vector<Field> fields_ = {{.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8},
                                  {.name = "pair", .kind = FieldKind::image, .dtype = DType::uint8}};
};

}  // namespace stoker::testing
