// Copies during steps: with a fake of the device's streams, which finds every access without an order, on the CPU, and
// on a real GPU. The batches come from a real ring, whose slots are refilled as soon as they become free.
#include "stoker/bridge/device_copier.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "bridge/fake_streams.h"
#include "pipeline/pixel_source.h"
#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"
#include "stoker/bridge/tensor.h"
#include "stoker/pipeline/ring.h"

namespace stoker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeStreams;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PixelDataset;
using testing::Planted;

constexpr std::int64_t kSamples = 4;
constexpr std::int64_t kPrefetch = 3;

// Tells the fake when the host's memory is freed.
class WatchedMemory final : public Allocator {
  public:
    explicit WatchedMemory(FakeStreams& streams) : streams_(streams) {}
    WatchedMemory(const WatchedMemory&) = delete;
    WatchedMemory& operator=(const WatchedMemory&) = delete;
    ~WatchedMemory() override {
        for (const auto& [data, bytes] : freed_) {
            host_allocator().deallocate(data, bytes);
        }
    }
    std::byte* allocate(std::size_t bytes) override {
        ++allocations;
        return host_allocator().allocate(bytes);
    }
    // The address is also that of the first field.
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        freed_.emplace_back(data, bytes);  // freed at the end, so that no other block gets this address
        streams_.host_write(data, "the release of the host's memory");
    }
    bool pinned() const override { return true; }
    std::size_t frees() const { return freed_.size(); }

    int allocations = 0;

  private:
    FakeStreams& streams_;
    std::vector<std::pair<std::byte*, std::size_t>> freed_;
};

// Fills batch number n with the value n, as workers do: as far ahead as the ring allows.
class Feed {
  public:
    explicit Feed(FakeStreams& streams)
        : memory(streams),
          streams_(streams),
          ring_(std::make_shared<BatchRing>(
              [this] {
                  const std::vector<FieldSpec> fields = {{.name = "image", .shape = {3, 5, 5}},
                                                         {.name = "label", .dtype = DType::int64}};
                  return std::make_unique<Batch>(fields, kSamples, memory);
              },
              [](Batch& batch, std::int64_t number) {
                  batch.reset(0, number, number % 5 == 4 ? kSamples - 1 : kSamples);  // a smaller batch in each five
              },
              0, std::numeric_limits<std::int64_t>::max())) {
        ring_->set_depth(kPrefetch);
        ring_->set_grain(kSamples);
        ring_->reserve(kPrefetch + 1 + DeviceCopier::kSlots);
    }

    std::shared_ptr<Batch> next() {
        while (const auto task = ring_->try_take()) {
            for (const char* name : {"image", "label"}) {
                const TensorView view = task->batch->field(name);
                streams_.host_write(view.data, "the refill of a batch");
                std::memset(view.data, static_cast<int>(task->sequence % 100), view.bytes());
            }
            ring_->complete(*task);
        }
        return ring_->pop();
    }

    WatchedMemory memory;

  private:
    FakeStreams& streams_;
    std::shared_ptr<BatchRing> ring_;
};

// Copies and steps in turn, as training does. Returns the most steps that the host was ahead.
std::int64_t train(FakeStreams& streams, Feed& feed, DeviceCopier& copier, int steps) {
    std::int64_t most = 0;
    for (int i = 0; i < steps; ++i) {
        const std::shared_ptr<Batch> batch = feed.next();
        const DeviceBatch on_device = copier.copy(batch);
        streams.step(on_device.tensors());
        most = std::max(most, streams.steps_ahead());
        EXPECT_EQ(on_device.size(), batch->size());
        EXPECT_EQ(*on_device.input.const_data_ptr<std::uint8_t>(), batch->number() % 100);
    }
    return most;
}

struct Training {
    explicit Training(const std::set<Planted>& planted = {}) : streams(std::make_shared<FakeStreams>(planted)) {}

    std::shared_ptr<FakeStreams> streams;
    Feed feed{*streams};
    DeviceCopier copier{at::kCPU, {}, streams};
};

TEST(DeviceCopier, CopiesAndStepsHaveAnOrder) {
    for (const bool fast : {false, true}) {
        Training training;
        training.streams->set_fast(fast);
        train(*training.streams, training.feed, training.copier, 60);
        EXPECT_THAT(training.streams->faults(), IsEmpty());
    }
}

TEST(DeviceCopier, TheFakeFindsASlotThatIsRefilledTooEarly) {
    Training training({Planted::copies_do_not_wait});
    train(*training.streams, training.feed, training.copier, 10);
    EXPECT_THAT(training.streams->faults(), Contains("the write of a copy before the read of a step is done"));
}

TEST(DeviceCopier, TheFakeFindsAFirstCopyIntoMemoryInUse) {
    Training training({Planted::used_is_not_recorded});
    train(*training.streams, training.feed, training.copier, 1);
    EXPECT_THAT(training.streams->faults(), ElementsAre("the write of a copy before an earlier step's use is done"));
}

TEST(DeviceCopier, TheFakeFindsAStepThatDoesNotWaitForItsCopy) {
    Training training({Planted::steps_do_not_wait});
    train(*training.streams, training.feed, training.copier, 1);
    EXPECT_THAT(training.streams->faults(), Contains("the read of a step before the write of a copy is done"));
}

TEST(DeviceCopier, TheFakeFindsABatchThatTheLoaderRefillsTooEarly) {
    Training training({Planted::host_does_not_wait});
    train(*training.streams, training.feed, training.copier, 20);
    EXPECT_THAT(training.streams->faults(), Contains("the refill of a batch before the read of a copy is done"));
}

// The copier goes while copies are in flight, then the ring with its memory; a batch outlives both slots' owner.
std::vector<std::string> faults_of_an_early_end(const std::set<Planted>& planted) {
    const auto streams = std::make_shared<FakeStreams>(planted);
    {
        Feed feed(*streams);
        DeviceBatch kept;
        {
            DeviceCopier copier(at::kCPU, {}, streams);
            train(*streams, feed, copier, 2);
            kept = copier.copy(feed.next());
        }
        streams->step(kept.tensors());
    }
    return streams->faults();
}

TEST(DeviceCopier, NothingIsFreedInFlight) {
    EXPECT_THAT(faults_of_an_early_end({}), IsEmpty());
}

TEST(DeviceCopier, TheFakeFindsABatchThatIsFreedInFlight) {
    EXPECT_THAT(faults_of_an_early_end({Planted::host_does_not_wait}),
                Contains("the release of the host's memory before the read of a copy is done"));
}

TEST(DeviceCopier, TheFakeFindsASlotThatIsFreedInFlight) {
    EXPECT_THAT(faults_of_an_early_end({Planted::host_does_not_wait, Planted::steps_do_not_wait}),
                Contains("the release of a slot before the write of a copy is done"));
}

// The last of five batches is smaller, so that unused memory is between its fields.
TEST(DeviceCopier, OneCopyMovesAllFieldsOfAWholeBatch) {
    Training training;
    train(*training.streams, training.feed, training.copier, 10);
    EXPECT_EQ(training.streams->copies, 2 * (4 + 2));
    const std::shared_ptr<Batch> batch = training.feed.next();
    const DeviceBatch on_device = training.copier.copy(batch);
    EXPECT_TRUE(on_device.in_slot);
    EXPECT_TRUE(at::equal(on_device.input, as_tensor(batch, "image")));
    EXPECT_TRUE(at::equal(on_device.target, as_tensor(batch, "label")));
}

// A device that never seems done: the host waits for it, and takes no further memory.
TEST(DeviceCopier, TheHostStaysAFewStepsAheadOfTheDevice) {
    Training training;
    const std::int64_t most = train(*training.streams, training.feed, training.copier, 60);
    EXPECT_GE(most, DeviceCopier::kSlots);
    EXPECT_LE(most, 2 * DeviceCopier::kSlots);
    EXPECT_EQ(training.streams->allocations(), DeviceCopier::kSlots);
    EXPECT_EQ(training.feed.memory.allocations, kPrefetch + 1 + DeviceCopier::kSlots);
    EXPECT_EQ(training.feed.memory.frees(), 0U);

    Training unbounded({Planted::host_does_not_wait});
    EXPECT_GT(train(*unbounded.streams, unbounded.feed, unbounded.copier, 60), 2 * DeviceCopier::kSlots);
}

TEST(DeviceCopier, ABatchIsReleasedOnceItIsCopied) {
    Training training;
    const std::shared_ptr<Batch> batch = training.feed.next();
    training.copier.copy(batch);
    training.copier.make_room();
    EXPECT_EQ(batch.use_count(), 2);
    training.streams->set_fast(true);
    training.copier.make_room();
    EXPECT_EQ(batch.use_count(), 1);
}

TEST(DeviceCopier, ABatchThatIsKeptKeepsItsSlot) {
    Training training;
    std::vector<DeviceBatch> kept;
    for (int i = 0; i < 8; ++i) {
        kept.push_back(training.copier.copy(training.feed.next()));
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
        EXPECT_EQ(*kept[i].input.const_data_ptr<std::uint8_t>(), i);
    }
    EXPECT_EQ(training.streams->allocations(), 8);
    kept.clear();
    train(*training.streams, training.feed, training.copier, 20);
    EXPECT_EQ(training.streams->allocations(), 8);
    EXPECT_THAT(training.streams->faults(), IsEmpty());
}

// Fewer slots keep the order, and the host waits earlier.
TEST(DeviceCopier, GoesOnWithTheSlotsThatFit) {
    for (const std::int64_t room : {1, 2}) {
        for (const bool fast : {false, true}) {
            Training training;
            training.streams->set_fast(fast);
            training.streams->room = room;
            const std::int64_t most = train(*training.streams, training.feed, training.copier, 60);
            EXPECT_LE(most, 2 * room);
            EXPECT_THAT(training.streams->faults(), IsEmpty());
        }
    }
    Training none;
    none.streams->room = 0;
    EXPECT_THROW(train(*none.streams, none.feed, none.copier, 1), c10::OutOfMemoryError);
}

// Its slots, the tensors of a batch and the copier go as usual, and nothing waits.
TEST(DeviceCopier, ALostDeviceIsAnErrorAndNothingElse) {
    Training training;
    train(*training.streams, training.feed, training.copier, 4);
    const DeviceBatch kept = training.copier.copy(training.feed.next());
    training.streams->lose();
    const std::shared_ptr<Batch> batch = training.feed.next();
    EXPECT_THROW(training.copier.copy(batch), c10::AcceleratorError);
    EXPECT_THROW(training.copier.make_room(), c10::AcceleratorError);
}

std::unique_ptr<Loader> make_loader(const LoaderOptions& options) {
    return std::make_unique<Loader>(std::make_shared<PixelDataset>(40), Transform{kImageNetNormalize}, options);
}

TEST(DeviceCopier, OnTheCpuNothingIsCopied) {
    const auto loader = make_loader({.batch_size = 8});
    const std::shared_ptr<Batch> batch = loader->next();
    DeviceCopier copier(at::kCPU);
    copier.make_room();
    const DeviceBatch on_device = copier.copy(batch);
    EXPECT_EQ(on_device.input.data_ptr(), batch->field(kImageField).data);
    EXPECT_EQ(on_device.target.data_ptr(), batch->field(kLabelField).data);
    EXPECT_FALSE(on_device.late);
    EXPECT_EQ(batch.use_count(), 3);  // here and under the two tensors, not in the copier
}

TEST(DeviceCopier, AFieldThatWasNotCopiedIsRefusedWithTheNamesOfThoseThatWere) {
    const auto loader = make_loader({.batch_size = 8});
    DeviceCopier copier(at::kCPU, {.more = {"index"}});
    const DeviceBatch on_device = copier.copy(loader->next());
    EXPECT_EQ(on_device.field("index").numel(), 8);
    try {
        static_cast<void>(on_device.field("table"));
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("a field that it has: image, index, got table; a copier copies"));
    }
}

class DeviceCopierCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!device_.is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }
    at::Device device_ = pick_device("auto");
};

// Pinned slots, more batches than slots, and a device that is behind: every copy must be done before its slot is filled
// again. As floats, and as bytes that are normalised on the device.
TEST_F(DeviceCopierCuda, BatchesArriveWhole) {
    for (const bool pinned : {true, false}) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            for (const bool deferred : {false, true}) {
                const auto expected = make_loader({.batch_size = 8, .layout = layout});
                const auto loader =
                    make_loader({.batch_size = 8,
                                 .layout = layout,
                                 .images = deferred ? ImageOptions(PixelImages{.dtype = {}}) : PixelImages{},
                                 .allocator = &slot_allocator(device_, pinned),
                                 .held = pinned ? DeviceCopier::kSlots : 0});
                std::vector<DeviceBatch> copies;
                DeviceCopier copier(device_);
                at::Tensor busy = at::ones({4096, 4096}, at::TensorOptions().device(device_));
                while (const std::shared_ptr<Batch> batch = loader->next()) {
                    EXPECT_EQ(batch->pinned(), pinned);
                    busy = busy.mm(busy).clamp(-1, 1);  // keeps the device's stream behind the host
                    copies.push_back(copier.copy(batch));
                    EXPECT_EQ(copies.back().input.scalar_type(), deferred ? at::kByte : at::kFloat);
                    normalize_pixels(copies.back());
                }
                ASSERT_EQ(copies.size(), 5U);
                for (const DeviceBatch& copy : copies) {
                    const std::shared_ptr<Batch> batch = expected->next();
                    EXPECT_TRUE(copy.input.device() == device_);
                    EXPECT_EQ(copy.input.is_contiguous(at::MemoryFormat::ChannelsLast), layout == Layout::hwc);
                    EXPECT_TRUE(at::equal(copy.input.cpu(), as_tensor(batch, kImageField)));
                    EXPECT_TRUE(at::equal(copy.target.cpu(), as_tensor(batch, kLabelField)));
                }
            }
        }
    }
}

// Many batches through the slots, each read by work that the device gets to late.
TEST_F(DeviceCopierCuda, SlotsAreRefilledInOrder) {
    const auto expected = make_loader({.batch_size = 8});
    const auto loader = make_loader({.batch_size = 8,
                                     .images = PixelImages{.dtype = {}},
                                     .allocator = &slot_allocator(device_, true),
                                     .held = DeviceCopier::kSlots});
    DeviceCopier copier(device_);
    at::Tensor busy = at::ones({2048, 2048}, at::TensorOptions().device(device_));
    std::vector<at::Tensor> floats;
    for (int i = 0; i < 60; ++i) {
        if (const std::shared_ptr<Batch> batch = loader->next()) {
            busy = busy.mm(busy).clamp(-1, 1);
            DeviceBatch on_device = copier.copy(batch);
            normalize_pixels(on_device);  // the slot is free again
            floats.push_back(on_device.input);
        }
    }
    for (const at::Tensor& own : floats) {
        std::shared_ptr<Batch> batch = expected->next();
        batch = batch == nullptr ? expected->next() : batch;
        ASSERT_TRUE(at::equal(own.cpu(), as_tensor(batch, kImageField)));
    }
}

// A copy is done while the steps queued before it still run.
TEST_F(DeviceCopierCuda, CopiesRunBesideSteps) {
    const auto loader = make_loader({.batch_size = 8,
                                     .images = PixelImages{.dtype = {}},
                                     .allocator = &slot_allocator(device_, true),
                                     .held = DeviceCopier::kSlots});
    const c10::impl::VirtualGuardImpl guard(device_.type());
    at::Tensor busy = at::ones({8192, 8192}, at::TensorOptions().device(device_));
    busy = busy.mm(busy).clamp(-1, 1);  // cuBLAS is set up
    DeviceCopier copier(device_);
    for (int i = 0; i < DeviceCopier::kSlots; ++i) {
        copier.copy(loader->next());
    }
    guard.synchronizeDevice(device_.index());
    for (int i = 0; i < 50; ++i) {  // 1 TFLOP each
        busy = busy.mm(busy).clamp(-1, 1);
    }
    c10::Event done(device_.type());
    done.record(guard.getStream(device_));
    const std::shared_ptr<Batch> batch = loader->next();
    copier.copy(batch);
    while (batch.use_count() > 1 && !done.query()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        copier.make_room();
    }
    EXPECT_FALSE(done.query());
    EXPECT_EQ(batch.use_count(), 1);
}

}  // namespace
}  // namespace stoker
