// A data set of dct records of small pictures: every sampling, odd sizes, grey, with and without zstd. Tests replace
// some of them.
#pragma once

#include <fmt/format.h>

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
            jpegs.push_back(make_jpeg(plan));
            records.push_back(encode_dct(jpegs.back(), {.zstd = i % 2 == 1}).bytes);
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
};

}  // namespace stoker::testing
