// Images in a device's memory: batches of draws become the floats of the ordinary loader, copied during steps without a
// fault (fake_streams.h), and on a real GPU by the kernel.
#include "stoker/bridge/device_images.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/fake_streams.h"
#include "bridge/fake_torch_cuda.h"
#include "pipeline/pixel_source.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/pixels.h"
#include "stoker/bridge/tensor.h"
#include "stoker/ops/gather_cuda.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PixelDataset;

std::vector<Transform> gathered_op_lists() {
    const RandomCrop crop{.height = 12, .width = 10, .padding = {2, 2, 2, 2}, .fill = {4, 5, 6, 7}};
    return {
        Transform(
            std::vector<Op>{crop, HorizontalFlip{}, PixelOp(RandomErasing{.value = std::nullopt}), kCifar10Normalize}),
        Transform(std::vector<Op>{RandomResizedCrop{.height = 9, .width = 13}, PixelOp(VerticalFlip{}),
                                  PixelOp(RandomErasing{}), kImageNetNormalize}),
        Transform(std::vector<Op>{crop, PixelOp(ColorJitter{{0.5F, 1.5F}, {0.5F, 1.5F}, {0.5F, 1.5F}, {-0.2F, 0.2F}}),
                                  PixelOp(RandomGrayscale{}), PixelOp(RandomErasing{}), kImageNetNormalize}),
        Transform{kImageNetNormalize}};
}

struct Loaders {
    Loaders(const Transform& transform, const at::Device& device, Layout layout) : memory(device) {
        const auto dataset = std::make_shared<PixelDataset>(20);
        LoaderOptions options{.batch_size = 8, .seed = 4, .layout = layout, .views = 2};
        plain = std::make_unique<Loader>(dataset, transform, options);
        options.images = IndexedImages{load_images(*dataset, transform, memory, 1 << 30, 2).table};
        options.allocator = &slot_allocator(device, true);
        own = std::make_unique<Loader>(dataset, transform, options);
    }

    DeviceImages memory;
    std::unique_ptr<Loader> plain;
    std::unique_ptr<Loader> own;
};

// Batches of two epochs.
void expect_floats_of_the_loader(Loaders& loaders, const at::Device& device, at::ScalarType type) {
    DeviceCopier host(at::kCPU, {.more = {"image_2"}});
    DeviceCopier copier(device, {.more = {"image_2"}});
    for (int i = 0; i < 8; ++i) {
        const auto batch = loaders.own->next();
        const auto expected_batch = loaders.plain->next();
        ASSERT_EQ(batch == nullptr, expected_batch == nullptr);
        if (batch == nullptr) {
            continue;
        }
        EXPECT_EQ(bytes_of(*batch, {}), batch->size() * 112) << "a draw and a label";
        DeviceBatch own = copier.copy(batch);
        DeviceBatch part = own.narrow(1, 3);
        normalize_pixels(own, type);
        normalize_pixels(part, type);
        const DeviceBatch expected = host.copy(expected_batch);
        EXPECT_FALSE(own.late);
        EXPECT_EQ(own.input.strides(), expected.input.strides());
        EXPECT_TRUE(at::equal(own.input.cpu(), expected.input.to(type)));
        EXPECT_TRUE(at::equal(own.field("image_2").cpu(), expected.field("image_2").to(type)));
        EXPECT_TRUE(at::equal(part.input.cpu(), expected.input.narrow(0, 1, 3).to(type)));
        EXPECT_TRUE(at::equal(own.target.cpu(), expected.target));
    }
}

TEST(DeviceImages, DrawsBecomeTheFloatsOfTheLoader) {
    for (const Transform& transform : gathered_op_lists()) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
                Loaders loaders(transform, at::kCPU, layout);
                expect_floats_of_the_loader(loaders, at::kCPU, type);
            }
        }
    }
}

TEST(DeviceImages, DrawsAreCopiedBesideStepsInOrder) {
    Loaders loaders(gathered_op_lists().front(), at::kCPU, Layout::chw);
    const auto streams = std::make_shared<testing::FakeStreams>();
    DeviceCopier copier(at::kCPU, {}, streams);
    for (int i = 0; i < 40; ++i) {
        if (const auto batch = loaders.own->next()) {
            DeviceBatch own = copier.copy(batch);
            streams->step(own.tensors());
            EXPECT_EQ(own.input.size(1), static_cast<std::int64_t>(sizeof(GatherDraw)));
            const std::vector<std::int64_t> shape = {batch->size(), 3, 12, 10};
            normalize_pixels(own);
            EXPECT_EQ(own.input.sizes().vec(), shape);
        }
    }
    EXPECT_THAT(streams->faults(), IsEmpty());
}

// The copier and the graph keep a batch's `late`, and with it the images.
TEST(DeviceImages, ImagesLiveAsLongAsABatchNeedsThem) {
    DeviceBatch kept;
    DeviceBatch expected;
    {
        Loaders loaders(gathered_op_lists().front(), at::kCPU, Layout::chw);
        DeviceCopier copier(at::kCPU);
        kept = copier.copy(loaders.own->next());
        expected = kept;
        normalize_pixels(expected);
    }
    const std::weak_ptr<const ImageBlock> images = kept.late->gather->images;
    EXPECT_FALSE(images.expired());
    normalize_pixels(kept);
    EXPECT_TRUE(at::equal(kept.input, expected.input));
    kept = {};  // its labels are in the loader's batch
    expected = {};
    EXPECT_TRUE(images.expired()) << "nothing else keeps the memory";
}

TEST(DeviceImages, MayTakeHalfOfTheFreeMemory) {
    testing::FakeTorchCuda library;
    library.free = 200 << 20;
    const ReplacedTorchCuda replaced(library);
    const DeviceImages memory({at::kCUDA, 0});
    EXPECT_EQ(memory.why_too_small(100 << 20), "");
    EXPECT_EQ(memory.why_too_small((100 << 20) + 1),
              "its images take 100 MiB, more than half of the 200 MiB that are free on cuda:0");
}

TEST(DeviceImages, AreRefusedOnACpu) {
    EXPECT_EQ(why_no_images_on(at::kCPU), "this run is on cpu");
    const ImagesOnCpu allowed;
    EXPECT_EQ(why_no_images_on(at::kCPU), "");
}

// The kernel on a real GPU has the bits of the loader.
TEST(DeviceImagesCuda, DrawsBecomeTheFloatsOfTheLoader) {
    const at::Device device = pick_device("auto");
    if (!device.is_cuda() || !gather_cuda_works()) {
        GTEST_SKIP() << "no CUDA device, or built without nvcc";
    }
    for (const Transform& transform : gathered_op_lists()) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
                Loaders loaders(transform, device, layout);
                expect_floats_of_the_loader(loaders, device, type);
            }
        }
    }
}

}  // namespace
}  // namespace stoker
