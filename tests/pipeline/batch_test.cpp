// Batches: layout of the fields, allocation of the memory, and the hash of the keys.
#include "stoker/pipeline/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

class CountingAllocator final : public Allocator {
  public:
    std::byte* allocate(std::size_t bytes) override {
        ++allocations;
        live += bytes;
        return host_allocator().allocate(bytes);
    }
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        live -= bytes;
        host_allocator().deallocate(data, bytes);
    }
    bool pinned() const override { return true; }

    int allocations = 0;
    std::size_t live = 0;
};

std::vector<FieldSpec> fields() {
    return {{.name = "image", .dtype = DType::float32, .shape = {3, 5, 7}},
            {.name = "label", .dtype = DType::int64},
            {.name = "mask", .dtype = DType::uint8, .shape = {5}},
            {.name = "key", .ragged = true}};
}

TEST(Batch, ImagesHaveTheSizeOfTheirBatch) {
    Batch batch({{.name = "image", .dtype = DType::float32, .shape = {3, 4, 4}, .own_size = true},
                 {.name = "mask", .shape = {4, 4}, .own_size = true},
                 {.name = "label", .dtype = DType::int64}},
                3, host_allocator());
    for (const auto& [size, samples] :
         {std::pair(ImageSize{2, 8}, 3), std::pair(ImageSize{4, 4}, 1), std::pair(ImageSize{5, 3}, 2)}) {
        batch.reset(0, 0, samples, 0, size);
        EXPECT_EQ(batch.field("image").shape, (Shape{samples, 3, size.height, size.width}));
        EXPECT_EQ(batch.field("mask").shape, (Shape{samples, size.height, size.width}));
        const auto area = static_cast<std::size_t>(size.height * size.width);
        EXPECT_EQ(batch.used_bytes("image"), static_cast<std::size_t>(samples) * area * 12);
        const std::span<std::byte> first = batch.item(0, 0);
        const std::span<std::byte> last = batch.item(0, samples - 1);
        EXPECT_EQ(first.size(), area * 12);
        EXPECT_EQ(last.data() - first.data(), static_cast<std::ptrdiff_t>(samples - 1) * std::ssize(first));
        EXPECT_LE(last.data() + last.size(), batch.item(1, 0).data());
    }
}

TEST(Batch, FieldsAreAlignedAndDoNotOverlap) {
    CountingAllocator allocator;
    Batch batch(fields(), 3, allocator);
    batch.reset(2, 9, 3);
    const auto image = batch.field("image").as<float>();
    const auto labels = batch.field("label").as<std::int64_t>();
    const auto mask = batch.field("mask").as<std::uint8_t>();
    EXPECT_EQ(image.size(), 3u * 105);
    EXPECT_EQ(labels.size(), 3u);
    EXPECT_EQ(mask.size(), 15u);
    for (const void* data :
         {static_cast<void*>(image.data()), static_cast<void*>(labels.data()), static_cast<void*>(mask.data())}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kAlignment, 0u);
    }
    std::fill(image.begin(), image.end(), 1.5f);
    std::fill(labels.begin(), labels.end(), -2);
    std::fill(mask.begin(), mask.end(), std::uint8_t{7});
    EXPECT_THAT(image, ::testing::Each(1.5f));
    EXPECT_THAT(labels, ::testing::Each(-2));
    EXPECT_EQ(batch.epoch(), 2);
    EXPECT_EQ(batch.number(), 9);
    EXPECT_TRUE(batch.pinned());
    EXPECT_EQ(allocator.allocations, 1);
}

TEST(Batch, MemoryGoesBackToItsAllocator) {
    CountingAllocator allocator;
    {
        const Batch batch(fields(), 4, allocator);
        EXPECT_GE(allocator.live, 4u * 105 * 4 + 4 * 8 + 4 * 5);
    }
    EXPECT_EQ(allocator.live, 0u);
}

TEST(Batch, ShapesFollowTheSize) {
    Batch batch(fields(), 4, host_allocator());
    EXPECT_FALSE(batch.pinned());
    batch.reset(0, 0, 2);
    EXPECT_EQ(batch.field("image").shape, (Shape{2, 3, 5, 7}));
    EXPECT_EQ(batch.field("label").shape, (Shape{2}));
    batch.reset(0, 1, 0);
    EXPECT_EQ(batch.field("image").shape, (Shape{0, 3, 5, 7}));
    EXPECT_EQ(batch.field("image").bytes(), 0u);
}

TEST(Batch, UnknownFieldsAreNamedBesideTheKnown) {
    Batch batch(fields(), 1, host_allocator());
    try {
        static_cast<void>(batch.field("pixels"));
        ADD_FAILURE();
    } catch (const InvalidArgument& error) {
        EXPECT_STREQ(error.what(), "[batch] expected one of the fields image, label, mask, key (ragged), got pixels");
    }
    EXPECT_THROW(static_cast<void>(batch.field("key")), InvalidArgument) << "ragged";
    EXPECT_THROW(batch.payload("image", 0), InvalidArgument) << "not ragged";
}

TEST(Batch, HashIsThatOfTheKeysInOrder) {
    const auto hash_of = [](const std::vector<std::string>& keys) {
        Batch batch(fields(), 4, host_allocator());
        batch.reset(0, 0, static_cast<std::int64_t>(keys.size()));
        for (std::size_t i = 0; i < keys.size(); ++i) {
            batch.payload("key", static_cast<std::int64_t>(i)) = keys[i];
        }
        return batch.hash();
    };
    EXPECT_EQ(hash_of({"a", "b", "c"}), hash_of({"a", "b", "c"}));
    EXPECT_NE(hash_of({"a", "b", "c"}), hash_of({"a", "c", "b"}));
    EXPECT_NE(hash_of({"a", "b", "c"}), hash_of({"a", "b"}));
    EXPECT_NE(hash_of({"ab", "c"}), hash_of({"a", "bc"}));
    EXPECT_NE(hash_of({"a"}), hash_of({"a", ""}));
}

TEST(Batch, HashLeavesOutWhatAnEarlierBatchLeft) {
    Batch batch(fields(), 2, host_allocator());
    batch.reset(0, 0, 2);
    batch.payload("key", 0) = "a";
    const auto hash_of_one = [&] {
        batch.reset(0, 1, 1);
        return batch.hash();
    };
    batch.payload("key", 1) = "x";
    const auto first = hash_of_one();
    batch.payload("key", 1) = "y";
    EXPECT_EQ(hash_of_one(), first);
}

}  // namespace
}  // namespace stoker
