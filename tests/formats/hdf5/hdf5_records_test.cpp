// Records read without the library are equal to H5Dread's and to what was written, for random shapes, chunks and
// filters.
#include "stoker/formats/hdf5/hdf5_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "formats/hdf5/hdf5_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/formats/hdf5/hdf5.h"
#include "stoker/formats/hdf5/hdf5_index.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace stoker::testing;

TEST(Hdf5Records, CompactUserBlockShortAddressesAndFill) {
    const TempDir dir;
    const Shape shape = {6, 3, 5};
    const Bytes pixels = noise(count_of(shape), 7);
    H5Writer(dir / "compact.h5").add_bytes("images", shape, pixels, {.storage = Storage::compact});
    expect_pixels(dir / "compact.h5", shape, pixels);
    for (const Form& form : {Form{}, Form{.storage = Storage::chunked, .chunk = {4, 2, 5}, .filters = "sd"}}) {
        for (const H5Writer::Options& options :
             {H5Writer::Options{.user_block = 512}, H5Writer::Options{.newest = true},
              H5Writer::Options{.user_block = 1024, .newest = true}, H5Writer::Options{.version_18 = true},
              H5Writer::Options{.address_bytes = 4}}) {
            H5Writer(dir / "a.h5", options).add_bytes("images", shape, pixels, form);
            expect_pixels(dir / "a.h5", shape, pixels);
        }
        Form filled = form;
        filled.fill = 9;
        H5Writer(dir / "fill.h5").add("images", H5T_STD_U8LE, shape, filled, [](hid_t) {});
        expect_pixels(dir / "fill.h5", shape, Bytes(pixels.size(), 9));
    }
}

TEST(Hdf5Records, LayoutOfAHeaderThatIsContinued) {
    const TempDir dir;
    const Shape shape = {5, 4, 4};
    const Bytes pixels = noise(count_of(shape), 8);
    for (const bool version_18 : {false, true}) {
        {
            H5Writer file(dir / "a.h5", {.version_18 = version_18});
            file.add_bytes("images", shape, pixels, {.storage = Storage::chunked, .chunk = {2, 4, 4}, .filters = "d"});
            file.add_bytes("other", shape, pixels);
            file.add_classes("/images", std::vector<std::string>(40, "a name that takes room"), 100);
        }
        expect_pixels(dir / "a.h5", shape, pixels);
    }
}

// Chunks that were not written read as the fill value.
TEST(Hdf5Records, MissingChunksAreFillValues) {
    const TempDir dir;
    const Shape shape = {7, 4, 6};
    Bytes pixels(count_of(shape), 200);
    H5Writer(dir / "a.h5")
        .add("images", H5T_STD_U8LE, shape,
             {.storage = Storage::chunked, .chunk = {2, 3, 4}, .filters = "d", .fill = 200}, [&](hid_t dataset) {
                 const Bytes piece = noise(2 * 3 * 4, 9);
                 const hid_t space = H5Dget_space(dataset);
                 const hsize_t first[] = {2, 0, 0};
                 const hsize_t sides[] = {2, 3, 4};
                 must(H5Sselect_hyperslab(space, H5S_SELECT_SET, first, nullptr, sides, nullptr));
                 const hid_t memory = must(H5Screate_simple(3, sides, nullptr));
                 must(H5Dwrite(dataset, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, piece.data()));
                 for (std::size_t i = 0; i < piece.size(); ++i) {
                     pixels[(2 + i / 12) * 24 + i % 12 / 4 * 6 + i % 4] = piece[i];
                 }
                 H5Sclose(memory);
                 H5Sclose(space);
             });
    expect_pixels(dir / "a.h5", shape, pixels);
}

TEST(Hdf5Records, RandomShapesChunksAndFilters) {
    const TempDir dir;
    Rng rng({.seed = 11});
    const auto side = [&](std::uint32_t most) { return static_cast<std::int64_t>(1 + rng.below(most)); };
    const char* const filters[] = {"", "d", "s", "f", "sd", "sdf", "fd", "fsd", "ds", "dfs"};
    for (int round = 0; round < 150; ++round) {
        Shape shape = {side(9), side(20), side(20)};
        if (rng.chance(0.5f)) {
            shape.push_back(side(4));
        }
        Form form{.storage = Storage::chunked, .filters = filters[rng.below(std::size(filters))]};
        for (const std::int64_t most : shape) {
            form.chunk.push_back(rng.chance(0.4f) ? most : side(static_cast<std::uint32_t>(most)));
        }
        form.growable = rng.chance(0.3f);
        H5Writer::Options options{.newest = rng.chance(0.3f), .version_18 = rng.chance(0.5f)};
        form.plain_edges = options.newest && rng.chance(0.5f);
        if (rng.chance(0.1f)) {
            form = {};
        }
        const Bytes pixels = noise(count_of(shape), static_cast<std::uint64_t>(round), rng.chance(0.5f) ? 4 : 256);
        H5Writer(dir / "a.h5", options).add_bytes("images", shape, pixels, form);
        ASSERT_NO_FATAL_FAILURE(expect_pixels(dir / "a.h5", shape, pixels))
            << "round " << round << " filters " << form.filters;
    }
}

TEST(Hdf5Records, RandomSequences) {
    const TempDir dir;
    Rng rng({.seed = 12});
    for (int round = 0; round < 40; ++round) {
        const std::uint32_t count = 1 + rng.below(60);
        std::vector<Bytes> rows;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t most = rng.chance(0.1f) ? 40'000 : 300;
            rows.push_back(noise(rng.below(most), std::uint64_t{1000} * static_cast<std::uint64_t>(round) + i));
        }
        Form form;
        if (rng.chance(0.6f)) {
            form = {
                .storage = Storage::chunked, .chunk = {1 + rng.below(count)}, .filters = rng.chance(0.5f) ? "sd" : ""};
        } else if (rng.chance(0.2f)) {
            form = {.storage = Storage::compact};
        }
        const bool newest = rng.chance(0.3f);
        const bool user_block = rng.chance(0.3f) && !(newest && form.storage == Storage::chunked);  // refused
        H5Writer(dir / "a.h5",
                 {.user_block = user_block ? 512u : 0u, .newest = newest, .address_bytes = rng.chance(0.3f) ? 4 : 8})
            .add_sequences("images", rows, form);
        for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
            const Hdf5Dataset dataset((dir / "a.h5").string(), Split::train, {}, access);
            Sample sample;
            for (std::size_t i = 0; i < rows.size(); ++i) {
                dataset.read(static_cast<std::int64_t>(i), sample);
                ASSERT_EQ(bytes_of(sample), rows[i]) << "round " << round;
                EXPECT_TRUE(sample.encoded);
            }
        }
    }
}

// Only the library could, and it crashes on a damaged heap.
TEST(Hdf5Records, SequencesThatAreFoundByTheLibraryAloneAreRefused) {
    const TempDir dir;
    const std::vector<Bytes> rows(1001, Bytes{1, 2, 3});
    const Form chunked{.storage = Storage::chunked, .chunk = {1}};
    H5Writer(dir / "many.h5", {.newest = true}).add_sequences("images", rows, chunked);
    H5Writer(dir / "block.h5", {.user_block = 512, .newest = true}).add_sequences("images", {{1}, {2}}, chunked);
    for (const char* name : {"many.h5", "block.h5"}) {
        EXPECT_THAT([&] { Hdf5Dataset((dir / name).string(), Split::train, {}); },
                    ::testing::ThrowsMessage<Unsupported>(::testing::HasSubstr("h5repack")));
    }
    H5Writer(dir / "older.h5").add_sequences("images", rows, chunked);
    EXPECT_EQ(Hdf5Dataset((dir / "older.h5").string(), Split::train, {}).size(), 1001);
}

// A B-tree of three levels, compared with the library's list of chunks.
TEST(Hdf5Records, ChunkIndexIsTheSameAsTheLibrarys) {
    const TempDir dir;
    const Shape shape = {5000, 2, 2};
    H5Writer(dir / "a.h5")
        .add_bytes("images", shape, noise(count_of(shape), 13),
                   {.storage = Storage::chunked, .chunk = {3, 1, 2}, .filters = "d"});
    Hdf5Bytes bytes((dir / "a.h5").string());
    const Hdf5Id file = open_hdf5(bytes.path());
    const Hdf5Id dataset(H5Dopen2(file.get(), "images", H5P_DEFAULT), H5Dclose, bytes.path(), "images");
    const Hdf5Info info = read_hdf5_info(dataset, "images", bytes);
    const auto index = read_chunk_index(bytes, dataset, info);
    ASSERT_TRUE(index.has_value());
    EXPECT_EQ(index->size(), 2u * 1667u);
    EXPECT_EQ(*index, ask_chunk_index(bytes, dataset, info));
}

TEST(Hdf5Records, ManyThreadsReadTheSame) {
    const TempDir dir;
    const Shape shape = {64, 16, 16};
    const Bytes pixels = noise(count_of(shape), 14, 3);
    H5Writer(dir / "a.h5")
        .add_bytes("images", shape, pixels, {.storage = Storage::chunked, .chunk = {5, 16, 16}, .filters = "d"});
    for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
        const Hdf5Dataset dataset((dir / "a.h5").string(), Split::train, {}, access);
        std::atomic<int> wrong = 0;
        std::vector<std::jthread> threads;
        for (int worker = 0; worker < 4; ++worker) {
            threads.emplace_back([&, worker] {
                Rng rng({.seed = static_cast<std::uint64_t>(worker)});
                for (int i = 0; i < 300; ++i) {
                    const auto index = static_cast<std::int64_t>(rng.below(64));
                    wrong += read(dataset, index) == part(pixels, index, 256) ? 0 : 1;
                }
            });
        }
        threads.clear();
        EXPECT_EQ(wrong, 0);
    }
}

}  // namespace
}  // namespace stoker
