// A worker allocates no more memory once it has processed its largest image: every `new` of this program is counted.
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns about a replaced operator new and delete
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "stoker/codecs/encode.h"
#include "stoker/pipeline/transforms/transform.h"

namespace {

std::atomic<long> allocations{0};

void* pluralize(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) != 0) {
        throw std::bad_alloc();
    }
    return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
    return pluralize(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes);  // matches the free in operator delete
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return pluralize(bytes, static_cast<std::size_t>(alignment));
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

Image picture(int height, int width) {
    Image image(height, width, 3);
    for (std::size_t i = 0; i < image.bytes(); ++i) {
        image.view().data[i] = static_cast<std::uint8_t>(i * i / 7);
    }
    return image;
}

// Allocations in the second of two passes over `samples`; the first one warms up.
long second_round(const Transform& transform, const std::vector<Sample>& samples, DType dtype, Layout layout) {
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    std::vector<std::byte> out(32 * 32 * 3 * 4);
    const ImageSlot slot{
        .pixels = {.data = out.data(), .dtype = dtype, .layout = layout}, .channels = 3, .height = 32, .width = 32};
    long before = 0;
    for (int round = 0; round < 2; ++round) {
        before = allocations;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            transform.run(samples[i], {.seed = 3, .sample = i}, scratch, slot, clock);
        }
    }
    return allocations - before;
}

TEST(Allocations, NoneOnceAWorkerIsWarm) {
    std::vector<Image> images;
    for (int i = 0; i < 12; ++i) {
        images.push_back(picture(60 + 13 * i % 50, 50 + 29 * i % 70));
    }
    std::vector<Sample> samples(images.size());
    std::vector<std::vector<std::byte>> jpegs;
    for (const Image& image : images) {
        jpegs.push_back(encode_jpeg(image.view()));
    }
    for (std::size_t i = 0; i < images.size(); ++i) {
        samples[i].bytes = std::as_bytes(std::span(images[i].view().data, images[i].bytes()));
        samples[i].height = images[i].height();
        samples[i].width = images[i].width();
        samples[i].channels = 3;
    }
    std::vector<Sample> encoded(images.size());
    for (std::size_t i = 0; i < images.size(); ++i) {
        encoded[i].bytes = jpegs[i];
        encoded[i].encoded = true;
    }
    const std::vector<std::vector<Op>> programs = {
        {RandomResizedCrop{.height = 32, .width = 32}, HorizontalFlip{}, kImageNetNormalize},
        {Resize{.shorter = 40}, CenterCrop{32, 32}},
        {HorizontalFlip{}, CenterCrop{140, 140}, RandomResizedCrop{.height = 32, .width = 32}}};
    for (const auto& ops : programs) {
        const Transform transform(ops);
        for (const DType dtype : {DType::float32, DType::bfloat16, DType::uint8}) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                EXPECT_EQ(second_round(transform, samples, dtype, layout), 0);
                EXPECT_EQ(second_round(transform, encoded, dtype, layout), 0);
            }
        }
    }
    const long before = allocations;
    auto counted_one = std::make_unique<Image>(4, 4, 3);
    EXPECT_GE(allocations - before, 1) << "the counter works";
}

}  // namespace
}  // namespace stoker
