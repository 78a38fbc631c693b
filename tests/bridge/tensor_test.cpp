// Batches as tensors: the same memory, the same values whatever the layout, and a slot that stays
// away from the loader as long as any tensor over it lives.
#include "stoker/bridge/tensor.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/permute.h>
#include <gtest/gtest.h>

#include "pipeline/pixel_source.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {
namespace {

using testing::CountingAllocator;
using testing::PixelDataset;

std::unique_ptr<Loader> make_loader(Allocator* allocator = nullptr, Layout layout = Layout::chw) {
    return std::make_unique<Loader>(std::make_shared<PixelDataset>(40), Transform{},
                                    LoaderOptions{.batch_size = 8, .layout = layout, .allocator = allocator});
}

TEST(AsTensor, IsTheBatchsOwnMemory) {
    const auto loader = make_loader();
    const std::shared_ptr<Batch> batch = loader->next();
    const at::Tensor image = as_tensor(batch, kImageField);
    const at::Tensor label = as_tensor(batch, kLabelField);
    EXPECT_EQ(image.data_ptr(), batch->field(kImageField).data);
    EXPECT_EQ(label.data_ptr(), batch->field(kLabelField).data);
    EXPECT_EQ(image.sizes(), (at::IntArrayRef{8, 3, 12, 10}));
    EXPECT_EQ(label.sizes(), at::IntArrayRef{8});
    EXPECT_EQ(image.scalar_type(), at::kFloat);
    EXPECT_EQ(label.scalar_type(), at::kLong);
    EXPECT_TRUE(image.is_contiguous());
    label[3].fill_(77);
    EXPECT_EQ(batch->field(kLabelField).as<std::int64_t>()[3], 77);
}

TEST(AsTensor, ChannelsLastFieldHasThoseStridesAndTheSameValues) {
    const auto plain = make_loader();
    const auto last = make_loader(nullptr, Layout::hwc);
    const std::shared_ptr<Batch> batch = last->next();
    const at::Tensor image = as_tensor(batch, kImageField);
    EXPECT_EQ(image.sizes(), (at::IntArrayRef{8, 3, 12, 10}));
    EXPECT_EQ(image.strides(), (at::IntArrayRef{12 * 10 * 3, 1, 10 * 3, 3}));
    EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(image.data_ptr(), batch->field(kImageField).data);
    EXPECT_TRUE(at::equal(image, as_tensor(plain->next(), kImageField)));
}

TEST(AsTensor, LastBatchHasOnlyTheSamplesThatAreLeft) {
    const auto loader = std::make_unique<Loader>(std::make_shared<PixelDataset>(11), Transform{},
                                                 LoaderOptions{.batch_size = 8, .layout = Layout::hwc});
    loader->next();
    EXPECT_EQ(as_tensor(loader->next(), kImageField).sizes(), (at::IntArrayRef{3, 3, 12, 10}));
}

TEST(AsTensor, HoldsTheSlotUntilItsLastViewIsGone) {
    CountingAllocator memory;
    auto loader = make_loader(&memory);
    at::Tensor kept = as_tensor(loader->next(), kImageField).narrow(0, 2, 1);  // a view of a view, no batch held
    const void* const address = kept.data_ptr();
    const at::Tensor before = kept.clone();
    for (int i = 0; i < 60; ++i) {
        if (const auto batch = loader->next()) {
            const at::Tensor other = as_tensor(batch, kImageField);
            EXPECT_NE(other[2].data_ptr(), address);
        }
    }
    EXPECT_TRUE(at::equal(kept, before));
    loader.reset();
    EXPECT_TRUE(at::equal(kept, before)) << "beyond the loader";
    EXPECT_GT(memory.live, 0);
    kept.reset();
    EXPECT_EQ(memory.live, 0);
}

TEST(AsTensor, ReleasedSlotIsUsedAgain) {
    CountingAllocator memory;
    const auto loader = make_loader(&memory);
    for (int i = 0; i < 60; ++i) {
        if (const auto batch = loader->next()) {
            as_tensor(batch, kImageField);
        }
    }
    EXPECT_LE(memory.allocations, 5);
}

TEST(AsTensor, UnknownAndRaggedFieldsAreRefused) {
    const auto loader = make_loader();
    const std::shared_ptr<Batch> batch = loader->next();
    EXPECT_THROW(as_tensor(batch, "depth"), InvalidArgument);
    EXPECT_THROW(as_tensor(batch, kKeyField), InvalidArgument);
}

TEST(ScalarType, GoesBothWaysForEveryTypeThatStokerStores) {
    for (const DType dtype :
         {DType::uint8, DType::int32, DType::int64, DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        EXPECT_EQ(dtype_of_scalar(scalar_type(dtype)), dtype) << dtype_name(dtype);
        EXPECT_EQ(c10::elementSize(scalar_type(dtype)), item_size(dtype)) << dtype_name(dtype);
    }
    EXPECT_THROW(dtype_of_scalar(at::kComplexFloat), Unsupported);
    EXPECT_THROW(dtype_of_scalar(at::kBool), Unsupported);
}

TEST(ViewOf, SharesMemoryAndRefusesStridedTensors) {
    const at::Tensor tensor = at::arange(24, at::kInt).reshape({2, 3, 4});
    const TensorView view = view_of(tensor);
    EXPECT_EQ(view.data, static_cast<std::byte*>(tensor.data_ptr()));
    EXPECT_EQ(view.dtype, DType::int32);
    EXPECT_EQ(view.shape, (Shape{2, 3, 4}));
    EXPECT_THROW(view_of(tensor.permute({2, 0, 1})), InvalidArgument);
}

TEST(CopyOf, HasTheValuesAndItsOwnMemory) {
    const at::Tensor tensor = at::arange(6, at::kDouble).reshape({2, 3});
    const at::Tensor copy = copy_of(view_of(tensor));
    EXPECT_TRUE(at::equal(copy, tensor));
    EXPECT_NE(copy.data_ptr(), tensor.data_ptr());
    const at::Tensor scalar = at::arange(7, 8, at::kLong).reshape({});
    EXPECT_TRUE(at::equal(copy_of(view_of(scalar)), scalar));
    EXPECT_EQ(copy_of(view_of(at::empty({0, 5}))).sizes(), (at::IntArrayRef{0, 5}));
}

TEST(PickDevice, NamesThatAreNoDeviceAreRefusedEverywhere) {
    EXPECT_EQ(pick_device("cpu"), at::Device(at::kCPU));
    for (const char* name :
         {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda: 0", "cuda0", "cuda:99999999999999999999"}) {
        EXPECT_THROW(pick_device(name), InvalidArgument) << '"' << name << '"';
    }
}

TEST(PickDevice, CudaByNameIsThereOrSaysWhyNot) {
    const at::Device automatic = pick_device("auto");
    if (automatic.is_cuda()) {
        EXPECT_EQ(pick_device("cuda"), at::Device(at::kCUDA, 0));
        EXPECT_THROW(pick_device("cuda:999"), InvalidArgument);
        return;
    }
    EXPECT_EQ(automatic, at::Device(at::kCPU));
    for (const char* name : {"cuda", "cuda:0", "cuda:7"}) {
        try {
            pick_device(name);
            ADD_FAILURE() << name << " on a machine without CUDA";
        } catch (const Unsupported& error) {
            EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("device = \"cpu\""), std::string::npos) << error.what();
        }
    }
}

}  // namespace
}  // namespace stoker
