// A data set of JPEGs that the index takes: every sampling and grey; some have restart markers, are progressive or are
// turned by EXIF.
#pragma once

#include <fmt/format.h>

#include <array>
#include <vector>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg/jpeg_index.h"
#include "stoker/formats/dataset.h"

namespace stoker::testing {

class JpegDataset final : public Dataset {
  public:
    explicit JpegDataset(std::int64_t size) {
        constexpr std::array<std::array<int, 3>, 4> kFactors = {{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {4, 1, 1}}};
        for (std::int64_t i = 0; i < size; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const bool grey = i % 7 == 3;
            const int least = grey ? 114 : 84;  // of 8 KiB in any case
            jpegs.push_back(make_jpeg({.width = least + static_cast<int>(i * 17 % 16),
                                       .height = least + static_cast<int>(i * 29 % 13),
                                       .colors = grey ? Colors::grey : Colors::ycc,
                                       .h = kFactors[at % 4],
                                       .v = {1 + static_cast<int>(i % 2), 1, 1},
                                       .quality = 100,
                                       .progressive = is_progressive(i),
                                       .optimize = i % 3 == 0,
                                       .restart_interval = has_restarts(i) ? 5U : 0U,
                                       .orientation = i % 5 == 4 ? 6 : 0,
                                       .content = Content::noise,
                                       .seed = static_cast<std::uint64_t>(i) + 1}));
        }
    }

    static bool is_progressive(std::int64_t i) { return i % 10 == 9; }
    static bool has_restarts(std::int64_t i) { return i % 10 == 8; }

    std::int64_t size() const override { return static_cast<std::int64_t>(jpegs.size()); }
    void read(std::int64_t index, Sample& sample) const override {
        sample.set_encoded_image(jpegs[static_cast<std::size_t>(index)]);
        sample.label = index % 10;
    }
    std::string key(std::int64_t index) const override { return fmt::format("jpegs/{:03}", index); }
    std::string path() const override { return "jpegs"; }

    void index_all(JpegIndex& index) const {
        Decoder decoder;
        for (const Bytes& jpeg : jpegs) {
            decoder.index_jpeg(jpeg, index);
        }
        index.flush();
    }

    std::vector<Bytes> jpegs;
};

}  // namespace stoker::testing
