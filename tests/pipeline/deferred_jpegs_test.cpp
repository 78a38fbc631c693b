// Plain JPEGs that a device decodes by the entry points of the index: the bytes of the ordinary loader, with points of
// all images, of some and of none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/deferred_images_support.h"
#include "pipeline/jpeg_dataset.h"
#include "stoker/pipeline/dct_crop_plan.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

class DeferredJpegs : public ::testing::Test {
  protected:
    std::shared_ptr<JpegIndex> new_index() {
        return std::make_shared<JpegIndex>(dir_.path() / std::to_string(++indices_));
    }
    Counts expect_bytes(const std::shared_ptr<JpegIndex>& index, const Transform& transform, int workers,
                        bool shared = false) {
        LoaderOptions options = host_options(workers);
        options.jpeg_index = index;
        return expect_the_bytes_of_the_host(data_, transform, options, {.crop_bytes = 60000, .shared = shared});
    }

    const std::shared_ptr<JpegDataset> data_ = std::make_shared<JpegDataset>(40);
    const Transform crop_{std::vector<Op>{RandomResizedCrop{.height = 64, .width = 60}, HorizontalFlip{},
                                          PixelOp(RandomErasing{}), kImageNetNormalize}};
    const Transform whole_{std::vector<Op>{Resize{.size = ImageSize{100, 110}}}};

  private:
    TempDir dir_;
    int indices_ = 0;
};

TEST_F(DeferredJpegs, HaveTheBytesOfTheHostByTheIndex) {
    const auto index = new_index();
    data_->index_all(*index);
    for (const Transform* transform : {&crop_, &whole_}) {
        for (const int workers : {0, 3}) {
            const Counts counts = expect_bytes(index, *transform, workers);
            EXPECT_EQ(counts.crops, counts.samples * 8 / 10) << "all that are not progressive and without restarts";
            EXPECT_GT(expect_bytes(index, *transform, workers, /*shared=*/true).crops, 0);
        }
    }
}

// The first epoch's points are for the device when they are in the file.
TEST_F(DeferredJpegs, AreTheHostsUntilTheirPointsAreKnown) {
    const auto index = new_index();
    const Counts first = expect_bytes(index, whole_, 2);
    EXPECT_LT(first.crops, first.samples);
    index->flush();
    const Counts later = expect_bytes(index, whole_, 2);
    EXPECT_EQ(later.crops, later.samples * 8 / 10);
    EXPECT_EQ(expect_bytes(nullptr, whole_, 2).crops, 0);
}

TEST_F(DeferredJpegs, ThoseThatExifTurnsAreTheHosts) {
    const auto index = new_index();
    data_->index_all(*index);
    const Transform upright(std::vector<Op>{RandomResizedCrop{.height = 64, .width = 60}}, {.exif = true});
    const Counts counts = expect_bytes(index, upright, 2);
    EXPECT_EQ(counts.crops, counts.samples * 7 / 10) << "those of i % 5 == 4; half of them are progressive";
}

TEST_F(DeferredJpegs, ThePlanTakesThemWithAnIndex) {
    const auto plan = [&](const Dataset& data, bool indexed) { return plan_dct_crops(data, Transform(), {}, indexed); };
    EXPECT_GT(plan(*data_, true).crop_bytes, 8192);
    EXPECT_EQ(plan(*data_, false).crop_bytes, 0);
    EXPECT_THAT(plan(*data_, false).why_not, HasSubstr("data.jpeg_index"));
    JpegDataset progressive(1);
    progressive.jpegs[0] = make_jpeg({.width = 200, .height = 200, .progressive = true, .content = Content::noise});
    EXPECT_EQ(plan(progressive, true).crop_bytes, 0);
    JpegDataset small(1);
    small.jpegs[0] = make_jpeg({.width = 20, .height = 20});
    EXPECT_EQ(plan(small, true).crop_bytes, 0);
}

}  // namespace
}  // namespace stoker
