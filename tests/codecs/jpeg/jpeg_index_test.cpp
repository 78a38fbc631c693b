// The index keeps entry points from run to run: with other processes that write, with killed ones, with damaged and
// read-only files. Pixels are the same with it, without it, and with that of other images.
#include "stoker/codecs/jpeg/jpeg_index.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "codecs/fixtures.h"
#include "codecs/jpeg/jpeg_files.h"
#include "support/failing_flock.h"
#include "support/put.h"
#include "support/slow.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

JpegKey key_of(std::uint64_t number) {
    return {.hash = number * 0x9e37'79b9'7f4a'7c15, .size = 1000 + number};
}

EntryPoints points_of(std::uint64_t number, std::uint32_t count = 20) {
    Rng rng({.seed = number});
    EntryPoints points{.step = 1 + rng.below(50), .points = {}};
    std::uint64_t bit = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto dc = [&] { return static_cast<std::int16_t>(static_cast<int>(rng.below(4096)) - 2048); };
        bit += rng.below(20'000);
        points.points.push_back({.byte = static_cast<std::uint32_t>(bit / 8),
                                 .bit = static_cast<std::uint8_t>(bit % 8),
                                 .dc = {dc(), dc(), dc()}});
    }
    return points;
}

// The numbers in [0, count) whose points the index knows; each must be those that were added.
std::vector<std::uint64_t> known(JpegIndex& index, std::uint64_t count) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t number = 0; number < count; ++number) {
        const EntryPoints points = index.find(key_of(number));
        if (!points.points.empty()) {
            EXPECT_EQ(points, points_of(number)) << number;
            numbers.push_back(number);
        }
    }
    return numbers;
}

void add(JpegIndex& index, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t number = begin; number < end; ++number) {
        index.add(key_of(number), points_of(number));
    }
}

TEST(JpegIndex, KeepsPoints) {
    const TempDir dir;
    {
        JpegIndex index(dir / "cache/index");
        EXPECT_TRUE(known(index, 100).empty());
        add(index, 0, 100);
    }
    JpegIndex index(dir / "cache/index");
    EXPECT_EQ(known(index, 200).size(), 100U);
    EXPECT_EQ(index.images(), 100);
    EXPECT_EQ(index.bytes(), static_cast<std::int64_t>(std::filesystem::file_size(index.path())));
    EXPECT_EQ(index.stop_reason(), "");
    EXPECT_TRUE(index.find({.hash = key_of(1).hash, .size = 5}).points.empty());
}

TEST(JpegIndex, WithoutPointsThereIsNoFile) {
    const TempDir dir;
    { JpegIndex index(dir / "cache/index"); }
    EXPECT_FALSE(std::filesystem::exists(dir / "cache"));
}

TEST(JpegIndex, MorePointsReplaceFewer) {
    const TempDir dir;
    {
        JpegIndex index(dir / "index");
        for (const std::uint32_t count : {5U, 9U, 9U, 7U}) {
            index.add(key_of(1), points_of(1, count));
            index.flush();
            EXPECT_EQ(index.find(key_of(1)).points.size(), std::max(count, count == 7U ? 9U : count));
        }
    }
    JpegIndex index(dir / "index");
    EXPECT_EQ(index.find(key_of(1)), points_of(1, 9));
    EXPECT_EQ(index.images(), 1);
}

TEST(JpegIndex, CutAtAnyByteKeepsTheRecordsBefore) {
    const TempDir dir;
    const std::filesystem::path path = dir / "index";
    {
        JpegIndex index(path);
        add(index, 0, 3);
    }
    const std::string whole = read_text(path);
    std::size_t before = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
        put(path, std::string_view(whole).substr(0, size));
        JpegIndex index(path);
        const std::size_t kept = known(index, 3).size();
        EXPECT_GE(kept, before);
        EXPECT_LT(kept, 3U);
        before = kept;
        add(index, 0, 3);
        index.flush();
        ASSERT_EQ(read_text(path).size(), whole.size()) << size;
        ASSERT_EQ(known(index, 3).size(), 3U);
    }
    EXPECT_EQ(before, 2U);
}

TEST(JpegIndex, DamagedBytesGiveNoOtherPoints) {
    const TempDir dir;
    const std::filesystem::path path = dir / "index";
    {
        JpegIndex index(path);
        add(index, 0, 10);
    }
    const std::string whole = read_text(path);
    Rng rng({.seed = 3});
    for (int trial = 0; trial < 300 / kSlow; ++trial) {
        std::string damaged = whole;
        damaged[rng.below(static_cast<std::uint32_t>(whole.size()))] ^= static_cast<char>(1 + rng.below(255));
        put(path, damaged);
        JpegIndex index(path);
        EXPECT_LT(known(index, 10).size(), 10U);
        add(index, 0, 10);
        index.flush();
        EXPECT_EQ(known(index, 10).size(), 10U);
        put(path, damaged);  // while it is open
        known(index, 10);
        put(path, "");
        EXPECT_TRUE(known(index, 10).empty());
    }
}

TEST(JpegIndex, TwoWritersSeeEachOther) {
    const TempDir dir;
    JpegIndex first(dir / "index");
    JpegIndex second(dir / "index");
    add(first, 0, 10);
    first.flush();
    EXPECT_TRUE(known(second, 10).empty());
    add(second, 5, 20);
    second.flush();
    EXPECT_EQ(known(second, 100).size(), 20U);
    add(first, 20, 21);
    first.flush();
    EXPECT_EQ(known(first, 100).size(), 21U);
    EXPECT_EQ(first.bytes(), static_cast<std::int64_t>(std::filesystem::file_size(dir / "index")));  // none is twice
    EXPECT_EQ(second.images(), 20);
}

TEST(JpegIndex, ManyThreadsAndTwoFilesAtOnce) {
    const TempDir dir;
    constexpr std::uint64_t kEach = 600 / kSlow;
    {
        JpegIndex first(dir / "index");
        JpegIndex second(dir / "index");
        std::vector<std::thread> threads;
        for (std::uint64_t i = 0; i < 4; ++i) {
            threads.emplace_back([&, i] {
                JpegIndex& index = i % 2 == 0 ? first : second;
                for (std::uint64_t number = i * kEach / 2; number < i * kEach / 2 + kEach; ++number) {
                    add(index, number, number + 1);
                    index.find(key_of(number / 2));
                    if (number % 50 == 0) {
                        index.flush();
                    }
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    JpegIndex index(dir / "index");
    EXPECT_EQ(known(index, 3 * kEach).size(), 5 * kEach / 2);
}

TEST(JpegIndex, KilledWritersLeaveAnIndexThatGrows) {
    const TempDir dir;
    std::int64_t kept = 0;
    for (int round = 0; round < 20 / kSlow; ++round) {
        std::error_code none;
        const auto before = std::filesystem::file_size(dir / "index", none);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            JpegIndex index(dir / "index");
            for (std::uint64_t number = static_cast<std::uint64_t>(round) * 1000;; ++number) {
                add(index, number, number + 1);
                if (number % 7 == 0) {
                    index.flush();
                }
            }
        }
        const auto size = [&] { return std::filesystem::file_size(dir / "index", none); };
        for (int i = 0; i < 10'000 && size() == before; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        JpegIndex index(dir / "index");
        EXPECT_GT(known(index, 3000).size(), 0U);
        const std::int64_t now = index.images();
        EXPECT_GT(now, kept);
        kept = now;
    }
}

TEST(JpegIndex, WithoutAPlaceToWriteNothingFails) {
    const TempDir dir;
    put(dir / "file");
    JpegIndex index(dir / "file/index");  // not even root can make it
    add(index, 0, 2000);
    index.flush();
    EXPECT_TRUE(known(index, 100).empty());
    EXPECT_NE(index.stop_reason(), "");
    EXPECT_FALSE(index.takes_points());
}

TEST(JpegIndex, WithoutLocksItIsReadOnly) {
    const TempDir dir;
    {
        JpegIndex index(dir / "index");
        add(index, 0, 5);
    }
    {
        const FailingFlock failing(ENOLCK);
        JpegIndex index(dir / "index");
        add(index, 5, 10);
        index.flush();
        EXPECT_EQ(known(index, 10).size(), 5U);
        EXPECT_NE(index.stop_reason(), "");
    }
    const FailingFlock busy(EWOULDBLOCK);
    JpegIndex index(dir / "index");
    add(index, 5, 10);
    EXPECT_FALSE(index.flush());
    EXPECT_EQ(known(index, 10).size(), 5U);
    EXPECT_EQ(index.stop_reason(), "");  // it waits for its turn
}

TEST(JpegIndex, TakesNoMoreThanItsBytes) {
    const TempDir dir;
    JpegIndex index(dir / "index", 5000);
    for (std::uint64_t number = 0; number < 100; ++number) {
        add(index, number, number + 1);
        index.flush();
    }
    EXPECT_LE(std::filesystem::file_size(dir / "index"), 5000U);
    EXPECT_GT(known(index, 100).size(), 10U);
    EXPECT_FALSE(index.takes_points());
    EXPECT_NE(index.stop_reason(), "");
}

// Another process found damage, and cut the file that this one has read.
TEST(JpegIndex, CutByAnotherItIsReadAgain) {
    const TempDir dir;
    JpegIndex index(dir / "index");
    add(index, 0, 50);
    index.flush();
    const auto whole = std::filesystem::file_size(dir / "index");
    for (const auto size : {whole / 2, std::uintmax_t{0}, std::uintmax_t{7}}) {
        std::filesystem::resize_file(dir / "index", size);
        add(index, 50, 60);
        EXPECT_TRUE(index.flush());
        const std::size_t kept = known(index, 60).size();
        EXPECT_GE(kept, 10U);
        EXPECT_EQ(known(*std::make_unique<JpegIndex>(dir / "index"), 60).size(), kept);
        add(index, 0, 60);
        EXPECT_TRUE(index.flush());
        EXPECT_EQ(known(*std::make_unique<JpegIndex>(dir / "index"), 60).size(), 60U);
        EXPECT_LE(std::filesystem::file_size(dir / "index"), 2 * whole);
    }
}

TEST(JpegIndex, RefusedPointsAreNotFound) {
    const TempDir dir;
    JpegIndex index(dir / "index");
    add(index, 0, 2);
    index.flush();
    index.refuse(key_of(1));
    add(index, 1, 2);
    index.flush();
    EXPECT_EQ(known(index, 2), std::vector<std::uint64_t>{0});
}

// Files of every kind, of 8 KiB and more where the kind allows it.
JpegPlan plan_of(int trial) {
    constexpr std::array<std::array<int, 3>, 5> kH = {{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {4, 1, 1}, {1, 1, 1}}};
    constexpr std::array<std::array<int, 3>, 5> kV = {{{1, 1, 1}, {1, 1, 1}, {2, 1, 1}, {1, 1, 1}, {2, 1, 1}}};
    JpegPlan plan;
    plan.width = 190 + trial % 17;
    plan.height = 150 + trial % 13;
    plan.seed = static_cast<std::uint64_t>(trial);
    plan.quality = 75 + trial % 24;
    plan.h = kH[static_cast<std::size_t>(trial % 5)];
    plan.v = kV[static_cast<std::size_t>(trial % 5)];
    plan.colors = trial % 7 == 3 ? Colors::grey : trial % 7 == 5 ? Colors::cmyk : Colors::ycc;
    plan.content = trial % 4 == 1 ? Content::noise : Content::photo;
    plan.progressive = trial % 11 == 4;
    plan.optimize = trial % 3 == 0;
    plan.restart_interval = trial % 6 == 2 ? static_cast<unsigned>(1 + trial) : 0;
    plan.orientation = trial % 5 == 2 ? 6 : 0;
    return plan;
}

struct Decoded {
    Image image;
    std::string error;
};

Decoded decode_box(Decoder& decoder, const Bytes& bytes, const Box& box) {
    Decoded result;
    BoxSink sink(box, result.image);
    result.error = error_of([&] { decoder.decode(bytes, sink); });
    return result;
}

TEST(JpegIndex, PixelsAreTheSameWithIt) {
    const TempDir dir;
    Rng rng({.seed = 8});
    JpegIndex index(dir / "index");
    std::vector<Bytes> files;
    for (int trial = 0; trial < 40; ++trial) {
        const Bytes jpeg = make_jpeg(plan_of(trial));
        files.push_back(jpeg);
        for (int i = 0; i < std::max(1, 6 / kSlow); ++i) {
            files.push_back(mutated(jpeg, rng));
        }
    }
    Decoder plain;
    Decoder indexed;
    indexed.use_index(&index);
    int equal = 0;
    for (int epoch = 0; epoch < 4; ++epoch) {
        for (const Bytes& bytes : files) {
            const Box box = random_box(rng, 150, 190);
            const Decoded expected = decode_box(plain, bytes, box);
            const Decoded found = decode_box(indexed, bytes, box);
            ASSERT_EQ(found.error, expected.error);
            if (expected.error == "no DataError") {
                ASSERT_TRUE(same_pixels(found.image.view(), expected.image.view()));
                ++equal;
            }
        }
        index.flush();
    }
    EXPECT_GT(equal, 100);
    EXPECT_GT(index.images(), 20);
}

TEST(JpegIndex, IndexedImagesGrowNoMore) {
    const TempDir dir;
    JpegIndex index(dir / "index");
    Decoder decoder;
    const Bytes jpeg = make_jpeg({.width = 400, .height = 300, .quality = 95});
    ASSERT_TRUE(decoder.index_jpeg(jpeg, index));
    index.flush();
    const std::int64_t bytes = index.bytes();
    EXPECT_LT(bytes, static_cast<std::int64_t>(jpeg.size()) / 100 + 200);
    decoder.use_index(&index);
    decode(decoder, jpeg);
    index.flush();
    EXPECT_EQ(index.bytes(), bytes);
    EXPECT_FALSE(
        decoder.index_jpeg(make_jpeg({.width = 400, .height = 300, .quality = 95, .progressive = true}), index));
    EXPECT_FALSE(decoder.index_jpeg(make_jpeg({.width = 40, .height = 30}), index));
    const Bytes again = jpeg;
    EXPECT_TRUE(decoder.index_jpeg(again, index));
    index.flush();
    EXPECT_EQ(index.bytes(), bytes);
    EXPECT_FALSE(decoder.index_jpeg(bytes_of("\x89PNG\r\n\x1a\n"), index));
}

// Two records at most: one of the rows that the first crop needed, one of all.
TEST(JpegIndex, PointsAreCompleteAfterTheSecondCropThatNeedsMore) {
    const TempDir dir;
    JpegIndex index(dir / "index");
    Decoder decoder;
    decoder.use_index(&index);
    const Bytes jpeg = make_jpeg({.width = 400, .height = 320, .quality = 95});
    std::vector<std::int64_t> sizes;
    for (const int bottom : {80, 60, 160, 240, 320}) {
        decode_box(decoder, jpeg, {.top = bottom - 40, .left = 0, .height = 40, .width = 100});
        index.flush();
        sizes.push_back(index.bytes());
    }
    EXPECT_EQ(sizes[1], sizes[0]);
    EXPECT_GT(sizes[2], sizes[1]);
    EXPECT_EQ(sizes[3], sizes[2]);
    EXPECT_EQ(sizes[4], sizes[2]);
}

}  // namespace
}  // namespace stoker::testing
