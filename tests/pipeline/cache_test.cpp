// The cache of decoded images: what goes in comes out, within the budget, with many threads at once.
#include "stoker/pipeline/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stoker {
namespace {

// Image `index`: every pixel known, size different from its neighbours'.
Image make_image(std::int64_t index) {
    const int side = 1 + static_cast<int>(index % 7);
    Image image(side, side + 1, 3);
    const ImageView view = image.view();
    for (int y = 0; y < view.height; ++y) {
        for (std::size_t x = 0; x < view.row_bytes(); ++x) {
            view.row(y)[x] = static_cast<std::uint8_t>(index * 31 + y * 7 + static_cast<std::int64_t>(x));
        }
    }
    return image;
}

bool same(ConstImageView a, ConstImageView b) {
    if (a.height != b.height || a.width != b.width || a.channels != b.channels) {
        return false;
    }
    for (int y = 0; y < a.height; ++y) {
        if (std::memcmp(a.row(y), b.row(y), a.row_bytes()) != 0) {
            return false;
        }
    }
    return true;
}

TEST(RamCache, GivesBackWhatWasPut) {
    RamCache cache(20, 1 << 20);
    std::int64_t label = 5;
    EXPECT_EQ(cache.get(3, label).data, nullptr);
    EXPECT_EQ(label, 5) << "a miss leaves the label alone";
    for (std::int64_t i = 0; i < 20; ++i) {
        cache.put(i, make_image(i).view(), i * 10);
    }
    for (std::int64_t i = 0; i < 20; ++i) {
        const ConstImageView image = cache.get(i, label);
        ASSERT_NE(image.data, nullptr);
        EXPECT_EQ(label, i * 10);
        EXPECT_TRUE(same(image, make_image(i).view()));
    }
}

TEST(RamCache, PacksRowsOfAView) {
    RamCache cache(1, 1 << 20);
    const Image whole = make_image(6);
    const ConstImageView crop = whole.view().crop({1, 2, 3, 4});
    cache.put(0, crop, 0);
    std::int64_t label = 0;
    const ConstImageView got = cache.get(0, label);
    EXPECT_EQ(got.stride, 12);
    EXPECT_TRUE(same(got, crop));
}

TEST(RamCache, FirstPutStays) {
    RamCache cache(2, 1 << 20);
    cache.put(1, make_image(1).view(), 1);
    const std::int64_t bytes = cache.bytes();
    cache.put(1, make_image(2).view(), 2);
    std::int64_t label = 0;
    EXPECT_TRUE(same(cache.get(1, label), make_image(1).view()));
    EXPECT_EQ(label, 1);
    EXPECT_EQ(cache.bytes(), bytes) << "the second copy is gone and costs nothing";
}

TEST(RamCache, NeverHoldsMoreThanItsBudget) {
    for (const std::int64_t budget : {0, 1, 799, 800, 801, 1000, 4000, 20'000}) {
        RamCache cache(100, budget);
        std::int64_t hits = 0;
        std::int64_t held = 0;
        std::int64_t label = 0;
        for (std::int64_t i = 0; i < 100; ++i) {
            cache.put(i, make_image(i).view(), 0);
            ASSERT_LE(cache.bytes(), budget);
        }
        for (std::int64_t i = 0; i < 100; ++i) {
            if (const ConstImageView image = cache.get(i, label); image.data != nullptr) {
                ++hits;
                held += image.height * static_cast<std::int64_t>(image.row_bytes());
            }
        }
        EXPECT_LE(held, cache.bytes());
        EXPECT_EQ(hits == 0, budget <= 801) << "the index of 100 samples takes 800 bytes";
        EXPECT_EQ(hits == 100, budget == 20'000);
    }
}

// Several threads put and get the same samples; the watcher sees no byte above the budget.
TEST(RamCache, ManyThreads) {
    constexpr std::int64_t kSize = 400;
    constexpr std::int64_t kBudget = 20'000;
    RamCache cache(kSize, kBudget);
    std::atomic<int> wrong{0};
    std::atomic<bool> done{false};
    std::atomic<std::int64_t> highest{0};
    std::thread watcher([&] {
        while (!done) {
            highest = std::max(highest.load(), cache.bytes());
        }
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::int64_t step = 0; step < 4 * kSize; ++step) {
                const std::int64_t i = (step * 7 + t * 3) % kSize;
                const Image image = make_image(i);
                std::int64_t label = -1;
                ConstImageView got = cache.get(i, label);
                if (got.data == nullptr) {
                    cache.put(i, image.view(), i);
                    got = cache.get(i, label);
                }
                if (got.data != nullptr && (label != i || !same(got, image.view()))) {
                    ++wrong;
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    done = true;
    watcher.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_LE(highest, kBudget);
    EXPECT_GT(cache.bytes(), kBudget / 2);
}

}  // namespace
}  // namespace stoker
