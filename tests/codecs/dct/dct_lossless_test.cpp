// Losslessness: for every JPEG, the record's pixels, whole or by parts, equal those of libjpeg-turbo for the JPEG, and
// the JPEG can be restored. Checked on thousands of files of every kind that libjpeg writes.
#include <gtest/gtest.h>

#include <fstream>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "support/data.h"

namespace stoker {
namespace {

using namespace stoker::testing;

Image decode_record(DctDecoder& decoder, const Bytes& record, const Box* box = nullptr) {
    Image image;
    if (box == nullptr) {
        ImageSink sink(image);
        decoder.decode(record, sink);
    } else {
        BoxSink sink(*box, image);
        decoder.decode(record, sink);
    }
    return image;
}

// One decoder for all files of a test, as in a worker, so that leftover state would be noticed.
class Checker {
  public:
    // Compares a record with the pixels of its JPEG.
    void check_pixels(const Bytes& record, const Image& expected, int boxes) {
        const ImageInfo info = decoder_.info(record);
        ASSERT_EQ(info.height, expected.height());
        ASSERT_EQ(info.width, expected.width());
        ASSERT_TRUE(same_pixels(decode_record(decoder_, record).view(), expected.view()));
        for (int i = 0; i < boxes; ++i) {
            const Box box = random_box(rng_, expected.height(), expected.width());
            ASSERT_TRUE(same_pixels(decode_record(decoder_, record, &box).view(), expected.view().crop(box)))
                << box.height << " rows from " << box.top << ", " << box.width << " columns from " << box.left;
        }
    }

    // Checks all codecs, parts and restoring. Returns true if the file is restored byte for byte.
    void check(const Bytes& jpeg, int boxes, bool& exact) {
        const Image expected = libjpeg_pixels(jpeg);
        constexpr Codec kCodecs[] = {Codec::dct, Codec::dct_zstd, Codec::dct_ans};
        for (const DctKind kind : kDctKinds) {
            const Codec codec = kCodecs[static_cast<int>(kind)];
            const DctRecord record = encode_dct(jpeg, kind);
            ASSERT_EQ(record.reason, "");
            ASSERT_EQ(sniff_dct(record.bytes), codec);
            ASSERT_NO_FATAL_FAILURE(check_pixels(record.bytes, expected, boxes));
            const std::vector<std::byte> restored = restore_jpeg(record.bytes);
            if (record.exact_file) {
                ASSERT_EQ(restored, jpeg);
            } else {
                ASSERT_TRUE(same_pixels(libjpeg_pixels(restored).view(), expected.view()));
            }
            ASSERT_TRUE(codec == Codec::dct || exact == record.exact_file) << "the codec changed what can be restored";
            exact = record.exact_file;
        }
        ++files;
    }

    void check(const JpegPlan& plan, int boxes = 2) {
        SCOPED_TRACE(plan.text());
        const Bytes jpeg = make_jpeg(plan);
        bool exact = false;
        ASSERT_NO_FATAL_FAILURE(check(jpeg, boxes, exact));
        ASSERT_TRUE(exact || !plan.one_baseline_scan());
        const ImageInfo info = decoder_.info(encode_dct(jpeg).bytes);
        ASSERT_EQ(info.orientation, std::max(plan.orientation, 1));
        ASSERT_EQ(info.progressive, plan.progressive);
    }

    int files = 0;

  private:
    DctDecoder decoder_;
    Rng rng_{{.seed = 11}};
};

struct Factors {
    std::array<int, 3> h;
    std::array<int, 3> v;

    bool whole() const {
        const int h_max = std::max({h[0], h[1], h[2]});
        const int v_max = std::max({v[0], v[1], v[2]});
        for (std::size_t c = 0; c < 3; ++c) {
            if (h_max % h[c] != 0 || v_max % v[c] != 0) {
                return false;
            }
        }
        return true;
    }
    int blocks() const { return h[0] * v[0] + h[1] * v[1] + h[2] * v[2]; }
};

constexpr Factors kCommon[] = {{{1, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {2, 1, 1}},
                               {{1, 1, 1}, {2, 1, 1}}, {{4, 1, 1}, {1, 1, 1}}, {{4, 1, 1}, {2, 1, 1}}};

// All sampling factors with integer ratios and at most ten blocks per MCU, the limit of an interleaved scan.
std::vector<Factors> all_factors() {
    std::vector<Factors> all;
    for (int code = 0; code < 4096; ++code) {
        const auto digit = [code](int place) { return 1 + (code >> (2 * place)) % 4; };
        const Factors factors = {{digit(0), digit(1), digit(2)}, {digit(3), digit(4), digit(5)}};
        if (factors.whole() && factors.blocks() <= 10) {
            all.push_back(factors);
        }
    }
    return all;
}

// Converts a number to a kind of file other than the plain ones.
JpegPlan random_plan(Rng& rng, int largest) {
    const auto below = [&rng](int bound) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound))); };
    JpegPlan plan;
    plan.width = 1 + below(rng.chance(0.3f) ? 20 : largest);
    plan.height = 1 + below(rng.chance(0.3f) ? 20 : largest);
    plan.colors = static_cast<Colors>(std::array{0, 1, 1, 1, 1, 1, 1, 2}[rng.below(8)]);
    const Factors& factors = kCommon[rng.below(std::size(kCommon))];
    plan.h = factors.h;
    plan.v = factors.v;
    if (plan.colors == Colors::grey) {
        plan.h[0] = plan.v[0] = 1 + below(2);
    }
    plan.quality = rng.chance(0.1f) ? 1 + below(5) : 1 + below(100);
    plan.wide_quant = rng.chance(0.3f);
    plan.progressive = rng.chance(0.25f);
    plan.arithmetic = rng.chance(0.1f);
    plan.optimize = !plan.arithmetic && rng.chance(0.3f);  // libjpeg supports only one of them
    plan.separate_scans = rng.chance(0.15f);
    plan.restart_interval = rng.chance(0.3f) ? 1 + rng.below(rng.chance(0.5f) ? 7 : 100) : 0;
    plan.orientation = rng.chance(0.2f) ? 1 + below(8) : 0;
    plan.comment = rng.chance(0.2f);
    plan.trailing = rng.chance(0.1f) ? 1 + below(100) : 0;
    plan.content = static_cast<Content>(rng.below(4));
    plan.seed = rng.next();
    return plan;
}

// Twelve tests, so that they can run in parallel.
class DctLossless : public ::testing::TestWithParam<int> {};

TEST_P(DctLossless, FilesOfEveryKind) {
    Rng rng({.seed = 5, .sample = static_cast<std::uint64_t>(GetParam())});
    Checker checker;
    for (int i = 0; i < 200 / kSlow; ++i) {
        ASSERT_NO_FATAL_FAILURE(checker.check(random_plan(rng, 150)));
    }
    EXPECT_EQ(checker.files, 200 / kSlow);
}
INSTANTIATE_TEST_SUITE_P(Seeds, DctLossless, ::testing::Range(0, 12));

TEST(DctLosslessTest, EverySamplingFactor) {
    const std::vector<Factors> all = all_factors();
    EXPECT_EQ(all.size(), 311u);
    Checker checker;
    for (std::size_t i = 0; i < all.size(); i += kSlow) {
        const auto size = static_cast<int>(i);
        ASSERT_NO_FATAL_FAILURE(checker.check({.width = 1 + size % 83,
                                               .height = 1 + size % 59,
                                               .colors = i % 5 == 0 ? Colors::rgb : Colors::ycc,
                                               .h = all[i].h,
                                               .v = all[i].v,
                                               .progressive = i % 7 == 0,
                                               .content = Content::noise,
                                               .seed = i}));
    }
}

TEST(DctLosslessTest, EverySizeUpToTwoMcus) {
    Checker checker;
    for (const Factors& factors : kCommon) {
        const int width = 16 * factors.h[0] + 2;
        const int height = 16 * factors.v[0] + 2;
        for (int i = 0; i < width * height; i += 7 * kSlow) {
            ASSERT_NO_FATAL_FAILURE(checker.check({.width = 1 + i % width,
                                                   .height = 1 + i / width,
                                                   .h = factors.h,
                                                   .v = factors.v,
                                                   .content = Content::noise},
                                                  1));
        }
    }
}

TEST(DctLosslessTest, EveryQuality) {
    Checker checker;
    for (int quality = 1; quality <= 100; quality += kSlow) {
        for (const bool wide : {false, true}) {
            ASSERT_NO_FATAL_FAILURE(checker.check(
                {.width = 45, .height = 51, .quality = quality, .wide_quant = wide, .content = Content::stripes}));
        }
    }
}

// Every left edge and width, every top edge and height: box edges at every phase of the smooth upsampling.
TEST(DctLosslessTest, EveryBoxOfASmallImage) {
    for (const Factors& factors : kCommon) {
        const JpegPlan plan = {
            .width = 21, .height = 19, .h = factors.h, .v = factors.v, .quality = 95, .content = Content::noise};
        const Bytes jpeg = make_jpeg(plan);
        const Image expected = libjpeg_pixels(jpeg);
        const Bytes records[] = {encode_dct(jpeg).bytes, encode_dct(jpeg, DctKind::zstd).bytes,
                                 encode_dct(jpeg, DctKind::ans).bytes};
        DctDecoder decoder;
        int number = 0;
        for (Box box = {}; box.top < plan.height; ++box.top) {
            for (box.left = 0; box.left < plan.width; ++box.left) {
                for (box.height = 1; box.top + box.height <= plan.height; ++box.height) {
                    for (box.width = 1; box.left + box.width <= plan.width; ++box.width) {
                        if (++number % (3 * kSlow) != 0) {
                            continue;
                        }
                        const Image got = decode_record(decoder, records[number / (3 * kSlow) % 3], &box);
                        ASSERT_TRUE(same_pixels(got.view(), expected.view().crop(box)))
                            << plan.text() << "; " << box.top << " " << box.left << " " << box.height << " "
                            << box.width;
                    }
                }
            }
        }
    }
}

TEST(DctLosslessTest, LargeAndLongImages) {
    Checker checker;
    const JpegPlan plans[] = {
        {.width = 4000, .height = 1, .content = Content::noise},
        {.width = 1, .height = 4000, .content = Content::noise},
        {.width = 3999, .height = 33, .h = {4, 1, 1}, .v = {1, 1, 1}, .quality = 100, .content = Content::noise},
        {.width = 35, .height = 3999, .h = {1, 1, 1}, .v = {4, 1, 1}, .restart_interval = 3},
        {.width = 1201, .height = 1007, .quality = 92, .progressive = true},
        {.width = 1500, .height = 999, .quality = 100, .content = Content::noise},
    };
    for (const JpegPlan& plan : plans) {
        ASSERT_NO_FATAL_FAILURE(checker.check(plan));
        if (kSlow > 1 && checker.files == 4) {
            break;
        }
    }
}

TEST(DctLosslessTest, Photographs) {
    STOKER_SKIP_WITHOUT(photos, "photos");
    Checker checker;
    int exact_files = 0;
    int number = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(photos)) {
        if (!entry.is_regular_file() || number++ % kSlow != 0) {
            continue;
        }
        SCOPED_TRACE(entry.path().string());
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        const Bytes jpeg = bytes_of(text);
        bool exact = false;
        ASSERT_NO_FATAL_FAILURE(checker.check(jpeg, 4, exact));
        exact_files += exact ? 1 : 0;
    }
    EXPECT_GT(checker.files, 0);
    RecordProperty("exact_files", exact_files);
}

}  // namespace
}  // namespace stoker
