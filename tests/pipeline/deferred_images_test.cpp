// Images that a device decodes: the bytes of the ordinary loader, for every list of ops, number of workers and ranks,
// with bad records, records that the host must decode, and a restored position.
#include "stoker/pipeline/deferred_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "pipeline/deferred_images_support.h"
#include "pipeline/record_dataset.h"
#include "stoker/base/error.h"
#include "stoker/codecs/encode.h"
#include "stoker/pipeline/dct_crop_plan.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/transforms/device_ops.h"
#include "support/memory_room.h"

namespace stoker::deferred_images_test {
namespace {

using testing::Bytes;
using testing::Counts;
using testing::decoded;
using testing::expect_the_bytes_of_the_host;
using ::testing::HasSubstr;
using testing::host_options;
using testing::kPacked;
using testing::kShared;
using testing::Made;
using testing::RecordDataset;
using testing::RecordsWithFields;
using testing::see_epochs;

std::vector<Transform> op_lists() {
    const PixelOp erasing = RandomErasing{.value = Color{1, 2, 3, 4}};
    return {Transform(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20}, HorizontalFlip{}, erasing,
                                      kImageNetNormalize}),
            Transform(std::vector<Op>{Resize{.shorter = 28}, CenterCrop{.height = 25, .width = 26}}),
            Transform(std::vector<Op>{RandomCrop{.height = 25, .width = 26}, HorizontalFlip{}, PixelOp(VerticalFlip{}),
                                      PixelOp(RandomErasing{.value = std::nullopt})}),
            Transform(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20},
                                      PixelOp(ColorJitter{{0.5F, 1.5F}, {0.5F, 1.5F}, {0.5F, 1.5F}, {-0.2F, 0.2F}}),
                                      HorizontalFlip{}, PixelOp(RandomGrayscale{.probability = 0.3F}), erasing}),
            Transform(std::vector<Op>{HorizontalFlip{}, CenterCrop{.height = 30, .width = 21}}),
            Transform(std::vector<Op>{Resize{.size = ImageSize{33, 47}}, PixelOp(VerticalFlip{}), HorizontalFlip{}})};
}

TEST(DeferredImages, HaveTheBytesOfTheHostForEveryListOfOps) {
    const auto dataset = std::make_shared<RecordDataset>(37);
    std::size_t groups = 0;
    for (const Transform& transform : op_lists()) {
        EXPECT_FALSE(find_not_dct_crop(transform.slice(OpRange::all)));
        const Counts counts = expect_the_bytes_of_the_host(dataset, transform, host_options());
        EXPECT_EQ(counts.crops, counts.samples) << "the host made some";
        groups += counts.groups;
    }
    EXPECT_GT(groups, op_lists().size() * 20) << "one for each view of a batch";
}

TEST(DeferredImages, HaveThemForAnyNumberOfWorkersAndRanks) {
    const auto dataset = std::make_shared<RecordDataset>(37);
    for (const int workers : {0, 1, 5}) {
        expect_the_bytes_of_the_host(dataset, op_lists().front(), host_options(workers));
    }
    for (const int rank : {0, 1}) {
        LoaderOptions options = host_options();
        options.rank = rank;
        options.world_size = 2;
        expect_the_bytes_of_the_host(dataset, op_lists().front(), options);
        expect_the_bytes_of_the_host(dataset, op_lists().front(), options, kShared);
    }
}

// Images that only the host decodes, one after another: an upright image of a turned record, a JPEG, a PNG, a crop that
// reaches outside, ops on colours, a resize beyond the kernel's weights, pixels.
TEST(DeferredImages, TheHostMakesTheOthers) {
    auto dataset = std::make_shared<RecordDataset>(20);
    dataset->records[3] = dataset->jpegs[3];
    dataset->records[8] = encode_png(testing::picture(40, 44).view());
    Counts counts = expect_the_bytes_of_the_host(dataset, op_lists().front(), host_options());
    EXPECT_EQ(counts.samples - counts.crops, 2 * 2 * 2) << "two samples, two views, two epochs";

    const Transform upright(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20}}, {.exif = true});
    counts = expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(20), upright, host_options());
    EXPECT_EQ(counts.samples - counts.crops, 4 * 2 * 2);

    const Transform large(std::vector<Op>{CenterCrop{.height = 60, .width = 60}});
    counts = expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(20), large, host_options());
    EXPECT_GT(counts.crops, 0);
    EXPECT_LT(counts.crops, counts.samples);

    const Transform inverted(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20},
                                             PixelOp(RandomPhotometric{.kind = Photometric::invert}),
                                             PixelOp(RandomErasing{})});
    counts = expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(20), inverted, host_options());
    EXPECT_GT(counts.crops, 0);
    EXPECT_LT(counts.crops, counts.samples);

    auto large_source = std::make_shared<RecordDataset>(1);
    large_source->records[0] = encode_dct(testing::make_jpeg({.width = 4200, .height = 8}), {}).bytes;
    const Transform weights(std::vector<Op>{Resize{.size = ImageSize{4, 1000}}});
    counts = expect_the_bytes_of_the_host(large_source, weights, host_options());
    EXPECT_EQ(counts.crops, 0);

    const Transform fast(std::vector<Op>{Resize{.size = ImageSize{10, 10}}}, {.decode = DecodeMode::fast});
    counts = expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(9), fast, host_options());
    EXPECT_EQ(counts.crops, 0);
    const Transform grey(std::vector<Op>{Resize{.size = ImageSize{10, 10}}}, {.channels = 1});
    counts = expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(9), grey, host_options());
    EXPECT_EQ(counts.crops, 0);
}

TEST(DeferredImages, WiderOnesThanADeviceMakesAreRefusedAtOnce) {
    const auto dataset = std::make_shared<RecordDataset>(3);
    const auto resize = [](int width) { return Transform(std::vector<Op>{Resize{.size = ImageSize{4, width}}}); };
    EXPECT_GT(expect_the_bytes_of_the_host(dataset, resize(1016), host_options()).crops, 0);
    LoaderOptions options = host_options();
    options.images = PackedImages{.crop_bytes = 2500};
    try {
        const Loader loader(dataset, resize(1017), options);
        FAIL() << "accepted";
    } catch (const InvalidArgument& error) {
        EXPECT_STREQ(error.what(),
                     "[data.decode_on] expected images of at most 1016 pixels in width for \"device\", "
                     "got 4 x 1017, as the ops make them; use data.decode_on = \"cpu\", or ops that make "
                     "smaller images");
    }
}

// So large that a slot has room for all crops.
Transform enlarged() {
    return Transform(std::vector<Op>{Resize{.size = ImageSize{90, 100}}, HorizontalFlip{}});
}

TEST(DeferredImages, OfWhichWorkersThatAreAheadMakeSome) {
    const auto dataset = std::make_shared<RecordDataset>(40);
    for (const int workers : {0, 1, 3}) {
        const LoaderOptions options = host_options(workers);
        const Counts counts = expect_the_bytes_of_the_host(dataset, enlarged(), options, kShared);
        EXPECT_GE(counts.crops, workers == 0 ? counts.samples : 2 * 8 * 2) << "two views of the first batches";
        for (const Transform& transform : op_lists()) {
            expect_the_bytes_of_the_host(dataset, transform, options, kShared);
        }
    }
}

// Before the first batch is taken the workers fill the ring: its front half is for the device.
TEST(DeferredImages, TheDeviceMakesThoseThatAreNeededSoon) {
    LoaderOptions options = host_options();
    options.images = kShared;
    options.prefetch = 4;
    options.epochs = 1;
    Loader loader(std::make_shared<RecordDataset>(40), enlarged(), options);
    while (!loader.at_rest()) {
        std::this_thread::yield();
    }
    std::vector<int> crops;
    while (const auto batch = loader.next()) {
        Counts counts;
        const std::vector<std::uint8_t> made = decoded(*batch, 0, counts);
        const std::vector<UsedRange> used = batch->used_ranges(0);
        EXPECT_EQ(used.size(), counts.crops > 0 ? 2 : 1) << "no pixels, or pixels alone";
        EXPECT_EQ(batch->has_only_pixels(0), counts.crops == 0);
        const std::byte* const memory = batch->crop_slot(0).memory();
        EXPECT_TRUE(counts.crops > 0 || std::ranges::equal(std::span(memory + used[0].begin, memory + used[0].end),
                                                           std::as_bytes(std::span(made))))
            << "they lie there as the device would make them";
        crops.push_back(counts.crops);
        while (!loader.at_rest()) {
            std::this_thread::yield();
        }
    }
    EXPECT_THAT(crops, ::testing::ElementsAre(8, 8, 0, 0, 0));
    loader.set_workers(0);  // a worker adds its times after its last task
    EXPECT_EQ(loader.stats().workers.samples, 40);
    EXPECT_EQ(loader.stats().workers.on_device, 16);
}

TEST(DeferredImages, SharedOnesTakeAtMostTwiceThePixels) {
    LoaderOptions options = host_options(0);
    const PackedImages packed{.crop_bytes = 1 << 20, .shared = true};
    options.images = packed;
    const Transform small(std::vector<Op>{RandomResizedCrop{.height = 8, .width = 8}});
    const auto dataset = std::make_shared<RecordDataset>(37);
    const Loader loader(dataset, small, options);
    EXPECT_EQ(loader.field_specs().front().shape, Shape{DctCropSlot::sample_bytes(2 * 8 * 8 * 3, 1)});
    const Counts counts = expect_the_bytes_of_the_host(dataset, small, host_options(0), packed);
    EXPECT_LT(counts.crops, counts.samples) << "no room for all";
}

// Room for a ring of pixels, but not for one with crops, and as much again.
TEST(DeferredImages, WithoutMemoryForCutsTheWorkersDecodeAll) {
    LoaderOptions options = host_options();
    options.batch_size = 100;
    options.views = 1;
    options.images = PackedImages{.crop_bytes = 1 << 20, .shared = true};
    const auto dataset = std::make_shared<RecordDataset>(100);
    const Transform large(std::vector<Op>{Resize{.size = ImageSize{400, 400}}});  // 4 batches of 48 MB
    EXPECT_TRUE(Loader(dataset, large, options).field_specs().front().deferred->decode);
    const testing::MemoryRoom room(380 * testing::kMiB);
    Loader loader(dataset, large, options);
    EXPECT_FALSE(loader.field_specs().front().deferred->decode);
    EXPECT_NE(loader.next(), nullptr);
}

TEST(DeferredImages, TooWideOnesAreTheWorkersWhereBothDecode) {
    const Transform wide(std::vector<Op>{Resize{.size = ImageSize{4, 1017}}});
    EXPECT_EQ(expect_the_bytes_of_the_host(std::make_shared<RecordDataset>(9), wide, host_options(), kShared).samples,
              0)
        << "the batches have pixels";
}

// A slot that is too small for the crops has room for the pixels.
TEST(DeferredImages, ASlotWithoutRoomTakesPixels) {
    const auto dataset = std::make_shared<RecordDataset>(37);
    for (const std::int64_t crop_bytes : {1, 2500}) {
        const Counts counts =
            expect_the_bytes_of_the_host(dataset, op_lists()[1], host_options(), {.crop_bytes = crop_bytes});
        EXPECT_LT(counts.crops, counts.samples) << crop_bytes;
        EXPECT_TRUE(counts.crops > 0 || crop_bytes == 1);
    }
}

std::shared_ptr<RecordDataset> with_bad() {
    auto dataset = std::make_shared<RecordDataset>(30);
    dataset->records[4].resize(dataset->records[4].size() / 3);
    for (const std::size_t damaged : {10, 16}) {  // beyond the header
        Bytes& record = dataset->records[damaged];
        std::fill(record.end() - static_cast<std::ptrdiff_t>(record.size() / 3), record.end(), std::byte{0xFF});
        std::fill_n(record.begin() + 700, 40, std::byte{0xFF});
    }
    dataset->records[21] = testing::bytes_of("no image at all");
    return dataset;
}

TEST(DeferredImages, BadRecordsAreReplacedAsByTheHost) {
    for (const bool shared : {false, true}) {
        for (const int workers : {0, 3}) {
            expect_the_bytes_of_the_host(with_bad(), op_lists()[1], host_options(workers), shared ? kShared : kPacked);
        }
        LoaderOptions options = host_options();
        options.replace = false;
        expect_the_bytes_of_the_host(with_bad(), op_lists()[1], options, shared ? kShared : kPacked);
    }
    Counts counts;
    Loader loader(with_bad(), op_lists()[1], host_options());
    int bad = 0;
    for (const Made& made : see_epochs(loader, 1, counts)) {
        bad += static_cast<int>(made.bad.size());
    }
    EXPECT_GE(bad, 3) << "the damage is seen";
}

// The first crop of some records is good where the second sees the damage, which is in the last quarter of a high
// image.
TEST(DeferredImages, ASampleMayBecomeBadInALaterView) {
    auto dataset = std::make_shared<RecordDataset>(37);
    for (std::size_t i = 2; i < dataset->records.size(); i += 4) {
        Bytes& record = dataset->records[i];
        record = encode_dct(testing::make_jpeg({.width = 48, .height = 400, .seed = i}), {}).bytes;
        const auto part = static_cast<std::ptrdiff_t>(record.size() / 4);
        std::fill(record.end() - part, record.end(), std::byte{0xFF});
    }
    for (const std::int64_t crop_bytes : {1, 2500, 20000}) {
        for (const bool shared : {false, true}) {
            expect_the_bytes_of_the_host(dataset, op_lists().front(), host_options(),
                                         {.crop_bytes = crop_bytes, .shared = shared});
        }
    }
}

// The masks of some records are bad, when their images are ready.
TEST(DeferredImages, FurtherFieldsAreThoseOfTheHost) {
    const auto dataset = std::make_shared<RecordsWithFields>(37);
    const Transform transform(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20}, HorizontalFlip{}});
    LoaderOptions options = host_options();
    EXPECT_GT(expect_the_bytes_of_the_host(dataset, transform, options).crops, 0);
    dataset->damaged = {3, 9, 10, 11, 20, 36};
    for (const std::int64_t crop_bytes : {1, 2500, 20000}) {
        for (const int views : {1, 2}) {
            for (const bool replace : {true, false}) {
                options.views = views;
                options.replace = replace;
                for (const bool shared : {false, true}) {
                    expect_the_bytes_of_the_host(dataset, transform, options,
                                                 {.crop_bytes = crop_bytes, .shared = shared});
                }
            }
        }
    }
}

TEST(DeferredImages, ARestoredLoaderGoesOnWithTheSameBytes) {
    LoaderOptions options = host_options();
    options.images = PackedImages{.crop_bytes = 20000, .cache = {.bytes = 1 << 24}};
    const auto dataset = std::make_shared<RecordDataset>(37);
    Counts counts;
    Loader unbroken(dataset, op_lists().front(), options);
    Loader stopped(dataset, op_lists().front(), options);
    for (int i = 0; i < 3; ++i) {
        unbroken.next();
        stopped.next();
    }
    options.workers = 1;
    options.batch_size = 8;
    Loader resumed(dataset, op_lists().front(), options);
    resumed.restore(stopped.state());
    EXPECT_TRUE(see_epochs(resumed, 2, counts) == see_epochs(unbroken, 2, counts));
    EXPECT_GT(resumed.stats().cached_bytes, 0) << "records are kept as stored";
}

TEST(DeferredImages, TheRoomKeepsWhatTheOthersMayNeed) {
    DctCropCapacity room;
    room.reset(64, 64 + 1008, 4, 200);  // 208 bytes each, aligned
    EXPECT_EQ(room.take(376), 64u) << "1008 - 3 * 208 = 384";
    EXPECT_EQ(room.take(209), std::nullopt);
    EXPECT_EQ(room.take(100), 64u + 384);
    EXPECT_EQ(room.take(305), std::nullopt);
    EXPECT_EQ(room.take(208), 64u + 384 + 112);
    EXPECT_EQ(room.take(200), 64u + 384 + 112 + 208);
    EXPECT_EQ(room.used(), 64u + 384 + 112 + 208 + 208);
}

TEST(DeferredImages, ASampleThatTakesTwiceIsABug) {
    DctCropCapacity room;
    room.reset(64, 64 + 416, 2, 200);
    EXPECT_EQ(room.take_least(), 64u);
    EXPECT_EQ(room.take_least(), 64u + 208);
    EXPECT_THROW(room.take_least(), InternalError);
}

std::string why_not(const std::vector<OpSpec>& specs, const TransformOptions& options = {}) {
    return plan_dct_crops(RecordDataset(5), Transform(specs, options), specs, false).why_not;
}

TEST(DeferredImages, ThePlanNamesWhatADeviceCannotDo) {
    const auto op = [](const char* name, std::map<std::string, OptionValue> options = {}) {
        return OpSpec{.name = name, .options = std::move(options), .where = "test"};
    };
    const OpSpec crop = op("random_resized_crop", {{"size", 8.0}});
    EXPECT_EQ(why_not({crop, op("horizontal_flip"), op("random_erasing")}), "");
    EXPECT_EQ(why_not({crop, op("color_jitter", {{"brightness", 0.4}}), op("random_grayscale")}), "");
    EXPECT_EQ(why_not({crop, op("gaussian_blur", {{"kernel_size", 3.0}})}),
              "gaussian_blur changes pixels in a way that is done on the CPU");
    EXPECT_EQ(why_not({op("color_jitter", {{"brightness", 0.4}}), crop}),
              "random_resized_crop is a crop after a change of colours");
    EXPECT_EQ(why_not({op("resize", {{"size", 20.0}}), crop}), "random_resized_crop is a second resize");
    EXPECT_EQ(why_not({op("horizontal_flip"), crop}), "random_resized_crop is a resize after a flip");
    EXPECT_EQ(why_not({op("vertical_flip"), op("center_crop", {{"size", 8.0}})}),
              "center_crop is a crop after vertical_flip");
    EXPECT_EQ(why_not({op("random_crop", {{"size", 8.0}, {"padding", 2.0}})}),
              "random_crop pads, which is done on the CPU");
    EXPECT_EQ(why_not({crop, op("random_erasing"), op("horizontal_flip")}),
              "horizontal_flip is a flip after random_erasing");
    EXPECT_EQ(why_not({crop}, {.decode = DecodeMode::fast}), "data.decode = \"fast\" is done on the CPU");
    RecordDataset jpegs(5);
    jpegs.records = jpegs.jpegs;
    EXPECT_THAT(plan_dct_crops(jpegs, Transform(), {}, false).why_not, HasSubstr("stoker pack --codec dct"));
    EXPECT_EQ(plan_dct_crops(jpegs, Transform(), {}, false).crop_bytes, 0);
    EXPECT_GT(plan_dct_crops(RecordDataset(5), Transform(), {}, false).crop_bytes, 1000);
}

// Samples from `first_failure` on are on a disk that fails.
class FailingRecords final : public Dataset {
  public:
    explicit FailingRecords(std::int64_t first_failure) : first_failure_(first_failure) {}
    std::int64_t size() const override { return records_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        if (index >= first_failure_) {
            throw IoError("the disk failed");
        }
        records_.read(index, sample);
    }
    std::string path() const override { return "records"; }

  private:
    RecordDataset records_{5};
    std::int64_t first_failure_;
};

TEST(DeferredImages, ThePlanNamesTheFailureWhereItCanReadNothing) {
    EXPECT_GT(plan_dct_crops(FailingRecords(1), Transform(), {}, false).crop_bytes, 1000)
        << "the loader reports the others";
    EXPECT_THAT([] { plan_dct_crops(FailingRecords(0), Transform(), {}, false); },
                ::testing::ThrowsMessage<IoError>(HasSubstr("the disk failed")));
}

}  // namespace
}  // namespace stoker::deferred_images_test
