// A loader of clips: batches by hand, caches, views, and an image among clips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "stoker/pipeline/loader.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

constexpr int kFrames = 9;
constexpr int kHeight = 4;
constexpr int kWidth = 5;

// Frame t of clip i is filled with 16 i + t; with `masks`, its mask with t.
class Clips final : public Dataset {
  public:
    explicit Clips(bool masks = false) {
        if (masks) {
            fields_ = {{.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8}};
        }
    }
    std::int64_t size() const override { return 6; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        sample.label = index;
        if (index == image) {
            sample.storage.resize(kHeight * kWidth * 3);
            sample.set_raw(sample.storage.bytes(), kHeight, kWidth, 3);
            return;
        }
        fill(sample, 3, static_cast<int>(16 * index));
        if (!fields_.empty()) {
            fill(sample.field(0), 1, 0);
        }
    }

    std::int64_t image = -1;  // not a clip

  private:
    static void fill(FieldValue& value, int channels, int first) {
        value.set_raw({}, 0, 0, 0);
        for (const std::int64_t t : value.wanted.of(kFrames)) {
            FieldValue& frame = value.frames.emplace_back();
            frame.storage.resize(static_cast<std::size_t>(kHeight * kWidth * channels));
            std::ranges::fill(frame.storage.bytes(), static_cast<std::byte>(first + t));
            frame.set_raw(frame.storage.bytes(), kHeight, kWidth, channels);
        }
    }

    std::vector<Field> fields_;
};

LoaderOptions options_of(CacheOptions cache = {}) {
    LoaderOptions options{.batch_size = 3, .workers = 0};
    options.images = PixelImages{.dtype = DType::uint8, .cache = std::move(cache)};
    options.clips = {.frames = 3, .stride = 2};
    return options;
}

// The first value of each frame of each clip.
std::vector<std::vector<int>> values(const Batch& batch, std::string_view field) {
    const TensorView view = batch.field(field);
    const auto frames = static_cast<std::size_t>(view.shape[1]);
    const std::size_t step = view.bytes() / static_cast<std::size_t>(batch.size()) / frames;
    std::vector<std::vector<int>> all(static_cast<std::size_t>(batch.size()));
    const std::byte* at = view.data;
    for (std::vector<int>& clip : all) {
        for (std::size_t t = 0; t < frames; ++t, at += step) {
            clip.push_back(std::to_integer<int>(*at));
            EXPECT_TRUE(std::all_of(at, at + step, [&](std::byte byte) { return byte == *at; }));
        }
    }
    return all;
}

TEST(ClipLoader, BatchesHaveTheFramesInTheirPlaces) {
    LoaderOptions options = options_of();
    options.shuffle = false;
    options.clips.random = false;
    Loader loader(std::make_shared<Clips>(true), Transform(), options);
    const auto batch = loader.next();
    EXPECT_EQ(batch->field("image").shape, (Shape{3, 3, 3, kHeight, kWidth}));
    EXPECT_EQ(batch->field("mask").shape, (Shape{3, 3, kHeight, kWidth}));
    EXPECT_THAT(values(*batch, "image"),
                ::testing::ElementsAre(std::vector{2, 4, 6}, std::vector{18, 20, 22}, std::vector{34, 36, 38}));
    EXPECT_THAT(values(*batch, "mask"), ::testing::Each(std::vector{2, 4, 6}));
}

TEST(ClipLoader, CachesDoNotFixTheFrames) {
    const testing::TempDir directory;
    const std::array caches = {CacheOptions{}, CacheOptions{.bytes = 1 << 20},
                               CacheOptions{.bytes = 1 << 20, .directory = directory.path()}};
    std::vector<std::vector<std::vector<int>>> first;
    for (const CacheOptions& cache : caches) {
        std::vector<std::vector<std::vector<int>>> found;
        Loader loader(std::make_shared<Clips>(true), Transform(), options_of(cache));
        for (int i = 0; i < 8; ++i) {
            const auto batch = loader.next();
            if (batch == nullptr) {  // the end of an epoch
                continue;
            }
            found.push_back(values(*batch, "image"));
            const auto masks = values(*batch, "mask");
            for (std::size_t clip = 0; clip < masks.size(); ++clip) {
                EXPECT_EQ(found.back()[clip].front() % 16, masks[clip].front());
            }
        }
        first = first.empty() ? found : first;
        EXPECT_EQ(found, first);
    }
}

TEST(ClipLoader, ViewsHaveTheSameFrames) {
    LoaderOptions options = options_of();
    options.views = 2;
    Loader loader(std::make_shared<Clips>(), Transform(), options);
    const auto batch = loader.next();
    EXPECT_EQ(values(*batch, "image"), values(*batch, "image_2"));
}

TEST(ClipLoader, AnImageAmongClipsIsABadSample) {
    auto clips = std::make_shared<Clips>();
    clips->image = 4;
    LoaderOptions options = options_of();
    options.bad_samples = 1;
    options.batch_size = 6;
    Loader loader(clips, Transform(), options);
    const auto batch = loader.next();
    ASSERT_EQ(batch->bad_samples().size(), 1u);
    EXPECT_EQ(batch->bad_samples().front().index, 4);
}

}  // namespace
}  // namespace stoker
