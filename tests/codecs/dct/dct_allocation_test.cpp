// A decoder that has decoded its largest record allocates no more memory. The test counts every `new` of this program
// and every aligned allocation.
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns of the replaced operators new and delete
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_crop.h"

namespace {

std::atomic<long> allocations{0};

void* pluralize(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    void* memory = nullptr;
    return posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) == 0 ? memory : nullptr;
}

void* or_throw(void* memory) {
    return memory != nullptr ? memory : throw std::bad_alloc();
}

}  // namespace

// The allocator of Buffers.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    return pluralize(bytes, alignment);
}

void* operator new(std::size_t bytes) {
    return or_throw(pluralize(bytes, alignof(std::max_align_t)));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return or_throw(pluralize(bytes, static_cast<std::size_t>(alignment)));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace stoker {
namespace {

using namespace stoker::testing;

// Discards the rows of a box; allocates nothing.
class Nowhere final : public RowSink {
  public:
    explicit Nowhere(std::size_t part) : part_(static_cast<int>(part)) {}
    Region region(int height, int width) override {
        return {.box = {height / (2 + part_), width / (3 + part_), height / 2, width / 2}};
    }
    void start(int /*height*/, int width, int /*channels*/) override { ASSERT_LE(width, 1000); }
    std::uint8_t* row(int /*y*/) override { return row_; }

  private:
    int part_;
    std::uint8_t row_[3000] = {};
};

TEST(DctAllocations, TheCountersWork) {
    const long before = allocations;
    const Buffer buffer(100);
    const std::vector<int> numbers(3);
    EXPECT_EQ(allocations, before + 2);
}

std::vector<Bytes> records_of_each_kind() {
    Rng rng({.seed = 3});
    std::vector<Bytes> records;
    for (const DctKind kind : kDctKinds) {
        for (int i = 0; i < 8; ++i) {
            const Bytes jpeg = make_jpeg({.width = 40 + static_cast<int>(rng.below(200)),
                                          .height = 40 + static_cast<int>(rng.below(200)),
                                          .colors = i == 5   ? Colors::grey
                                                    : i == 6 ? Colors::rgb
                                                             : Colors::ycc,
                                          .h = {1 + i % 2, 1, 1},
                                          .v = {1 + i / 2 % 2, 1, 1},
                                          .quality = 90 + i,
                                          .content = i % 3 == 0 ? Content::noise : Content::photo});
            records.push_back(encode_dct(jpeg, kind).bytes);
        }
    }
    return records;
}

TEST(DctAllocations, NoneOnceADecoderIsWarm) {
    const std::vector<Bytes> records = records_of_each_kind();
    DctDecoder decoder;
    long before = 0;
    for (int round = 0; round < 2; ++round) {
        before = allocations;
        for (std::size_t i = 0; i < records.size(); ++i) {
            Nowhere sink(i % 3);
            decoder.decode(records[i], sink);
            ImageInfo info = decoder.info(records[i]);
            ASSERT_GT(info.width, 0);
        }
        ASSERT_TRUE(round == 1 || allocations > before);
    }
    EXPECT_EQ(allocations, before);
}

TEST(DctAllocations, NoneOnceACropperIsWarm) {
    const std::vector<Bytes> records = records_of_each_kind();
    DctCropper cropper;
    long before = 0;
    for (int round = 0; round < 2; ++round) {
        before = allocations;
        for (const Bytes& record : records) {
            const ImageInfo info = cropper.open(record);
            const Box box = {info.height / 3, info.width / 4, info.height / 2, info.width / 2};
            ASSERT_FALSE(cropper.crop(box, std::size_t{1} << 24).empty());
        }
        ASSERT_TRUE(round == 1 || allocations > before);
    }
    EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace stoker
