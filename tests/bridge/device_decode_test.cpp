// Records, and JPEGs with an index, that are decoded behind their copy: the floats of the ordinary loader, on the CPU,
// during steps without a fault (fake_streams.h), and on a real GPU by the kernels.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "bridge/fake_streams.h"
#include "pipeline/jpeg_dataset.h"
#include "pipeline/record_dataset.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/device_images.h"
#include "stoker/bridge/pixels.h"
#include "stoker/pipeline/loader.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::FakeStreams;
using ::testing::IsEmpty;
using testing::RecordsWithFields;

std::vector<Transform> decoded_op_lists() {
    return {Transform(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20}, HorizontalFlip{},
                                      PixelOp(RandomErasing{.value = std::nullopt}), kImageNetNormalize}),
            Transform(std::vector<Op>{RandomResizedCrop{.height = 24, .width = 20},
                                      PixelOp(ColorJitter{{0.5F, 1.5F}, {0.5F, 1.5F}, {0.5F, 1.5F}, {-0.2F, 0.2F}}),
                                      HorizontalFlip{}, PixelOp(RandomErasing{}), kImageNetNormalize}),
            Transform(std::vector<Op>{Resize{.shorter = 28}, CenterCrop{.height = 25, .width = 26},
                                      PixelOp(VerticalFlip{}), kCifar10Normalize})};
}

struct RecordLoaders {
    RecordLoaders(const Transform& transform, const at::Device& device, Layout layout, bool shared = false) {
        const auto dataset = std::make_shared<RecordsWithFields>(20);
        dataset->records.records[6] = dataset->records.jpegs[6];
        LoaderOptions options{.batch_size = 8, .workers = 2, .seed = 4, .layout = layout, .views = 2};
        plain = std::make_unique<Loader>(dataset, transform, options);
        options.images = PackedImages{.crop_bytes = 6000, .shared = shared};
        options.allocator = &slot_allocator(device, true);
        own = std::make_unique<Loader>(dataset, transform, options);
    }

    std::unique_ptr<Loader> plain;
    std::unique_ptr<Loader> own;
};

// Batches of two epochs.
void expect_floats_of_the_host(RecordLoaders& loaders, const at::Device& device, at::ScalarType type,
                               std::shared_ptr<DeviceStreams> streams = nullptr) {
    const std::vector<std::string> more = {"image_2", "pair", "mask"};
    DeviceCopier host(at::kCPU, {.more = more});
    DeviceCopier copier(device, {.more = more}, streams);
    for (int i = 0; i < 8; ++i) {
        while (!loaders.own->at_rest()) {  // if the decoding is shared, workers are ahead from the third batch on
            std::this_thread::yield();
        }
        const auto batch = loaders.own->next();
        const auto expected_batch = loaders.plain->next();
        ASSERT_EQ(batch == nullptr, expected_batch == nullptr);
        if (batch == nullptr) {
            continue;
        }
        EXPECT_LT(bytes_of(*batch, {}), batch->size() * 7000) << "the bytes in use";
        DeviceBatch own = copier.copy(batch);
        EXPECT_EQ(own.input.scalar_type(), at::kByte);
        EXPECT_FALSE(own.late->decode);
        if (auto* fake = dynamic_cast<FakeStreams*>(streams.get())) {
            fake->step(own.tensors());
        }
        DeviceBatch part = own.narrow(1, 3);
        normalize_pixels(own, type);
        normalize_pixels(part, type);
        const DeviceBatch expected = host.copy(expected_batch);
        EXPECT_EQ(own.input.strides(), expected.input.strides());
        EXPECT_TRUE(at::equal(own.input.cpu(), expected.input.to(type)));
        for (const char* image : {"image_2", "pair"}) {
            EXPECT_TRUE(at::equal(own.field(image).cpu(), expected.field(image).to(type))) << image;
        }
        EXPECT_TRUE(at::equal(own.field("mask").cpu(), expected.field("mask")));
        EXPECT_TRUE(at::equal(part.input.cpu(), expected.input.narrow(0, 1, 3).to(type)));
        EXPECT_TRUE(at::equal(own.target.cpu(), expected.target));
    }
}

TEST(DeviceDecode, CutsBecomeTheFloatsOfTheLoader) {
    for (const Transform& transform : decoded_op_lists()) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            RecordLoaders loaders(transform, at::kCPU, layout);
            expect_floats_of_the_host(loaders, at::kCPU, at::kFloat);
        }
    }
}

// The decoder's memory is one for all batches; its first use waits for what used the memory before.
TEST(DeviceDecode, IsOrderedBesideSteps) {
    RecordLoaders loaders(decoded_op_lists().front(), at::kCPU, Layout::chw);
    const auto streams = std::make_shared<FakeStreams>();
    expect_floats_of_the_host(loaders, at::kCPU, at::kFloat, streams);
    EXPECT_THAT(streams->faults(), IsEmpty());
    EXPECT_EQ(streams->allocations(), DeviceCopier::kSlots + 1);
}

// Batches of crops, of crops and pixels, and of pixels alone, which are copied unchanged.
TEST(DeviceDecode, IsSharedWithTheWorkers) {
    for (const bool on_streams : {false, true}) {
        RecordLoaders loaders(decoded_op_lists().front(), at::kCPU, Layout::hwc, /*shared=*/true);
        const auto streams = on_streams ? std::make_shared<FakeStreams>() : nullptr;
        expect_floats_of_the_host(loaders, at::kCPU, at::kFloat, streams);
        EXPECT_THAT(streams == nullptr ? std::vector<std::string>() : streams->faults(), IsEmpty());
        const std::int64_t decoded = loaders.own->stats().workers.on_device;
        EXPECT_GT(decoded, 0);
        EXPECT_LT(decoded, loaders.own->stats().workers.samples);
    }
}

// The slots fit, the decoder's memory does not.
TEST(DeviceDecode, IsTheHostsWhereTheDeviceIsFull) {
    RecordLoaders loaders(decoded_op_lists().front(), at::kCPU, Layout::chw, /*shared=*/true);
    const auto streams = std::make_shared<FakeStreams>();
    streams->room = 1;  // the first slot
    expect_floats_of_the_host(loaders, at::kCPU, at::kFloat, streams);
    EXPECT_THAT(streams->faults(), IsEmpty());
    EXPECT_EQ(streams->allocations(), 1);
}

// JPEGs with all their entry points in an index; or with points of one image that are not its own.
struct JpegLoader {
    explicit JpegLoader(const at::Device& device, bool wrong_points = false, const PackedImages* images = &kPacked) {
        auto index = std::make_shared<JpegIndex>(dir / "index");
        dataset->index_all(*index);
        if (wrong_points) {
            const JpegKey key = jpeg_key(dataset->jpegs[2]);
            EntryPoints points = index->find(key);
            ++points.points.at(points.points.size() / 2).dc[0];
            index = std::make_shared<JpegIndex>(dir / "wrong");
            index->add(key, points);
            index->flush();
        }
        LoaderOptions options{.batch_size = 5, .workers = 2, .seed = 4, .jpeg_index = index};
        options.epochs = 1;
        if (images != nullptr) {
            options.images = *images;
            options.allocator = &slot_allocator(device, true);
        }
        const Transform transform(std::vector<Op>{Resize{.size = ImageSize{24, 20}}, kImageNetNormalize});
        loader = std::make_unique<Loader>(dataset, transform, options);
    }

    inline static const PackedImages kPacked{.crop_bytes = 40000};
    testing::TempDir dir;
    std::shared_ptr<testing::JpegDataset> dataset = std::make_shared<testing::JpegDataset>(20);
    std::unique_ptr<Loader> loader;
};

void expect_jpegs_of_the_host(const at::Device& device, const std::shared_ptr<DeviceStreams>& streams = nullptr) {
    JpegLoader own(device);
    JpegLoader plain(at::kCPU, /*wrong_points=*/false, nullptr);
    DeviceCopier host(at::kCPU);
    DeviceCopier copier(device, {}, streams);
    while (const auto batch = own.loader->next()) {
        DeviceBatch made = copier.copy(batch);
        normalize_pixels(made, at::kFloat);
        EXPECT_TRUE(at::equal(made.input.cpu(), host.copy(plain.loader->next()).input));
    }
    own.loader->set_workers(0);  // a worker adds its times after its last task
    EXPECT_EQ(own.loader->stats().workers.on_device, 16) << "four have restart markers or are progressive";
}

// The batch with the damaged image is not given to a step.
void expect_damage_is_seen(const at::Device& device, const std::shared_ptr<DeviceStreams>& streams = nullptr) {
    JpegLoader damaged(device, /*wrong_points=*/true);
    DeviceCopier copier(device, {}, streams);
    std::string seen;
    while (const auto batch = damaged.loader->next()) {
        try {
            copier.copy(batch);
        } catch (const DataError& error) {
            seen += error.what();
        }
    }
    EXPECT_THAT(seen, ::testing::StartsWith("[jpegs/002] expected a JPEG that fits its entry points"));
}

TEST(DeviceDecode, JpegsBecomeTheFloatsOfTheLoader) {
    expect_jpegs_of_the_host(at::kCPU);
    const auto streams = std::make_shared<FakeStreams>();
    expect_jpegs_of_the_host(at::kCPU, streams);
    EXPECT_THAT(streams->faults(), IsEmpty());
}

TEST(DeviceDecode, AJpegThatDoesNotFitItsPointsIsAnError) {
    expect_damage_is_seen(at::kCPU);
    expect_damage_is_seen(at::kCPU, std::make_shared<FakeStreams>());
}

TEST(DeviceDecodeCuda, JpegsBecomeTheFloatsOfTheLoader) {
    const at::Device device = pick_device("auto");
    if (!device.is_cuda() || !why_no_decoder_on(device).empty()) {
        GTEST_SKIP() << "no CUDA device, or built without nvcc";
    }
    expect_jpegs_of_the_host(device);
    expect_damage_is_seen(device);
}

TEST(DeviceDecode, IsRefusedOnACpu) {
    EXPECT_EQ(why_no_decoder_on(at::kCPU), "this run is on cpu");
    const ImagesOnCpu allowed;
    EXPECT_EQ(why_no_decoder_on(at::kCPU), "");
}

// The kernels on a real GPU have the bits of the loader.
TEST(DeviceDecodeCuda, CutsBecomeTheFloatsOfTheLoader) {
    const at::Device device = pick_device("auto");
    if (!device.is_cuda() || !why_no_decoder_on(device).empty()) {
        GTEST_SKIP() << "no CUDA device, or built without nvcc";
    }
    for (const Transform& transform : decoded_op_lists()) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
                for (const bool shared : {false, true}) {
                    RecordLoaders loaders(transform, device, layout, shared);
                    expect_floats_of_the_host(loaders, device, type);
                }
            }
        }
    }
}

}  // namespace
}  // namespace stoker
