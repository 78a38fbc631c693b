// HDF5 files as the C library writes them. Every fast way is compared with H5Dread, over shapes, chunks and filters
// drawn at random.
#include "stoker/formats/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "formats/hdf5_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/formats/hdf5_index.h"
#include "stoker/formats/hdf5_records.h"
#include "stoker/formats/open.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

Bytes noise(std::size_t count, std::uint64_t seed, std::uint32_t levels = 256) {
    Rng rng({.seed = seed});
    Bytes bytes(count);
    for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(rng.below(levels));
    }
    return bytes;
}

std::size_t count_of(const Shape& shape) {
    return static_cast<std::size_t>(element_count(shape));
}

Bytes bytes_of(const Sample& sample) {
    Bytes bytes(sample.bytes.size());
    std::ranges::transform(sample.bytes, bytes.begin(), [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
    return bytes;
}

Bytes read(const Source& source, std::int64_t index) {
    Sample sample;
    source.read(index, sample);
    return bytes_of(sample);
}

Bytes part(const Bytes& all, std::int64_t index, std::size_t size) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// Both ways to read give `pixels`.
void expect_pixels(const std::filesystem::path& path, const Shape& shape, const Bytes& pixels) {
    const std::size_t size = count_of(shape) / static_cast<std::size_t>(shape[0]);
    for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
        const Hdf5Source source(path.string(), Split::train, {}, access);
        ASSERT_EQ(source.size(), shape[0]);
        for (std::int64_t i = 0; i < shape[0]; ++i) {
            ASSERT_EQ(read(source, i), part(pixels, i, size)) << "sample " << i << ", way " << int(access);
        }
    }
}

template <typename Kind>
std::string error_of(const std::filesystem::path& path, const FieldNames& fields = {}) {
    try {
        const Hdf5Source source(path.string(), Split::train, fields);
    } catch (const Kind& error) {
        EXPECT_THAT(error.what(), HasSubstr(path.filename().string()));
        return error.what();
    }
    return "opened";
}

TEST(Hdf5, ReadsArraysLabelsKeysAndClasses) {
    const TempDir dir;
    const Bytes pixels = noise(5 * 4 * 3, 1);
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("images", {5, 4, 3}, pixels);
        file.add_integers("labels", {2, 0, 1, 2, 2});
    }
    const auto source = open_source((dir / "a.h5").string(), Split::train);
    EXPECT_EQ(source->format(), "hdf5");
    EXPECT_EQ(source->path(), (dir / "a.h5").string());
    EXPECT_EQ(source->bytes(), static_cast<std::int64_t>(std::filesystem::file_size(dir / "a.h5")));
    ASSERT_EQ(source->size(), 5);
    Sample sample;
    source->read(3, sample);
    EXPECT_EQ(bytes_of(sample), part(pixels, 3, 12));
    EXPECT_FALSE(sample.encoded);
    EXPECT_EQ(sample.height, 4);
    EXPECT_EQ(sample.width, 3);
    EXPECT_EQ(sample.channels, 1);
    EXPECT_EQ(sample.label, 2);
    EXPECT_EQ(source->label(1), 0);
    EXPECT_EQ(source->key(3), "3");
    EXPECT_THAT(source->classes(), ElementsAre("0", "1", "2"));
    EXPECT_THROW(source->read(5, sample), InvalidArgument);
    EXPECT_THROW(source->read(-1, sample), InvalidArgument);
    EXPECT_FALSE(has_splits((dir / "a.h5").string()));
}

TEST(Hdf5, ReadsColourInBothLayouts) {
    const TempDir dir;
    const Bytes rows = noise(2 * 5 * 6 * 3, 2);
    Bytes planes(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t n = i / 90;
        planes[n * 90 + i % 3 * 30 + i % 90 / 3] = rows[i];
    }
    H5Writer(dir / "rows.hdf5").add_bytes("x", {2, 5, 6, 3}, rows);
    H5Writer(dir / "planes.hdf5").add_bytes("x", {2, 3, 5, 6}, planes);
    for (const char* name : {"rows.hdf5", "planes.hdf5"}) {
        const auto source = open_source((dir / name).string(), Split::train);
        Sample sample;
        source->read(1, sample);
        EXPECT_EQ(bytes_of(sample), part(rows, 1, 90)) << name;
        EXPECT_EQ(sample.channels, 3);
        EXPECT_EQ(sample.height, 5);
        EXPECT_EQ(sample.width, 6);
        EXPECT_EQ(sample.label, -1);
        EXPECT_EQ(source->label(0), -1);
        EXPECT_TRUE(source->classes().empty());
    }
}

TEST(Hdf5, LabelsOfAnyIntegerTypeAndLayout) {
    const TempDir dir;
    const std::vector<std::int64_t> labels = {7, 0, 3, 100};
    struct Case {
        hid_t type;
        Form form;
        Shape shape;
    };
    H5open();
    const Case cases[] = {
        {H5T_STD_I16BE, {}, {4}},
        {H5T_STD_U8LE, {.storage = Storage::compact}, {4}},
        {H5T_STD_I64BE, {.storage = Storage::chunked, .chunk = {3, 1}, .filters = "sd"}, {4, 1}},
        {H5T_STD_U64LE, {.storage = Storage::chunked, .chunk = {2}, .filters = "f"}, {4}},
    };
    for (const Case& one : cases) {
        {
            H5Writer file(dir / "a.h5");
            file.add_bytes("images", {4, 2, 2}, noise(16, 3));
            file.add_integers("y", labels, one.type, one.form, one.shape);
        }
        const Hdf5Source source((dir / "a.h5").string(), Split::train, {});
        for (std::size_t i = 0; i < labels.size(); ++i) {
            EXPECT_EQ(source.label(static_cast<std::int64_t>(i)), labels[i]);
        }
        EXPECT_EQ(source.classes().size(), 101u);
    }
}

TEST(Hdf5, GroupsOfSplitsAndNamedFields) {
    const TempDir dir;
    const std::string path = (dir / "a.h5").string();
    const Bytes train = noise(3 * 4, 4);
    const Bytes test = noise(2 * 4, 5);
    {
        H5Writer file(path);
        file.add_bytes("train/images", {3, 2, 2}, train);
        file.add_integers("train/labels", {0, 1, 1});
        file.add_bytes("test/images", {2, 2, 2}, test);
        file.add_integers("test/labels", {1, 0});
        file.add_bytes("other/deep/pixels", {2, 2, 2}, test);
        file.add_integers("other/deep/kinds", {5, 6});
    }
    EXPECT_TRUE(has_splits(path));
    const Hdf5Source first(path, Split::train, {});
    EXPECT_EQ(first.size(), 3);
    EXPECT_EQ(first.key(2), "train/2");
    EXPECT_EQ(read(first, 1), part(train, 1, 4));
    const Hdf5Source second(path, Split::test, {});
    EXPECT_EQ(second.key(1), "test/1");
    EXPECT_EQ(second.label(0), 1);
    EXPECT_EQ(read(second, 1), part(test, 1, 4));
    const Hdf5Source named(path, Split::train, {.image = "other/deep/pixels", .label = "other/deep/kinds"});
    EXPECT_EQ(named.key(1), "1");
    EXPECT_EQ(named.label(1), 6);
    EXPECT_EQ(read(named, 0), part(test, 0, 4));
    EXPECT_THAT(error_of<DataError>(path, {.image = "absent", .label = ""}), HasSubstr("a field named absent"));
}

TEST(Hdf5, KeysAndClassesAreStringsOfEitherKind) {
    const TempDir dir;
    const std::vector<std::string> keys = {"a.png", "", "the third"};
    for (const std::size_t fixed : {0, 9}) {
        const std::string path = (dir / fmt::format("{}.h5", fixed)).string();
        {
            H5Writer file(path);
            file.add_bytes("pixels", {3, 2, 2}, noise(12, 6));  // the only field left over
            file.add_integers("label", {1, 0, -1});
            file.add_texts("keys", keys, fixed);
            file.add_classes(fixed == 0 ? "/" : "/label", {"cat", "dog"}, fixed);
        }
        const Hdf5Source source(path, Split::train, {});
        EXPECT_THAT(source.classes(), ElementsAre("cat", "dog"));
        for (std::size_t i = 0; i < keys.size(); ++i) {
            EXPECT_EQ(source.key(static_cast<std::int64_t>(i)), keys[i]);
        }
    }
}

TEST(Hdf5, CompactUserBlockShortAddressesAndFill) {
    const TempDir dir;
    const Shape shape = {6, 3, 5};
    const Bytes pixels = noise(count_of(shape), 7);
    H5Writer(dir / "compact.h5").add_bytes("images", shape, pixels, {.storage = Storage::compact});
    expect_pixels(dir / "compact.h5", shape, pixels);
    for (const Form& form : {Form{}, Form{.storage = Storage::chunked, .chunk = {4, 2, 5}, .filters = "sd"}}) {
        for (const H5Writer::Options& options :
             {H5Writer::Options{.user_block = 512}, H5Writer::Options{.newest = true},
              H5Writer::Options{.user_block = 1024, .newest = true}, H5Writer::Options{.signed_headers = true},
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

TEST(Hdf5, AttributesThatContinueAHeaderDoNotHideItsLayout) {
    const TempDir dir;
    const Shape shape = {5, 4, 4};
    const Bytes pixels = noise(count_of(shape), 8);
    for (const bool signed_headers : {false, true}) {
        {
            H5Writer file(dir / "a.h5", {.signed_headers = signed_headers});
            file.add_bytes("images", shape, pixels, {.storage = Storage::chunked, .chunk = {2, 4, 4}, .filters = "d"});
            file.add_bytes("other", shape, pixels);
            file.add_classes("/images", std::vector<std::string>(40, "a name that takes room"), 100);
        }
        expect_pixels(dir / "a.h5", shape, pixels);
    }
}

// Some chunks written, others not: they read as the fill value.
TEST(Hdf5, MissingChunksAreFillValues) {
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

TEST(Hdf5, RandomShapesChunksAndFilters) {
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
        H5Writer::Options options{.newest = rng.chance(0.3f), .signed_headers = rng.chance(0.5f)};
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

TEST(Hdf5, RandomSequences) {
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
        H5Writer(dir / "a.h5", {.user_block = rng.chance(0.3f) ? 512u : 0u,
                                .newest = rng.chance(0.3f),
                                .address_bytes = rng.chance(0.3f) ? 4 : 8})
            .add_sequences("images", rows, form);
        for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
            const Hdf5Source source((dir / "a.h5").string(), Split::train, {}, access);
            Sample sample;
            for (std::size_t i = 0; i < rows.size(); ++i) {
                source.read(static_cast<std::int64_t>(i), sample);
                ASSERT_EQ(bytes_of(sample), rows[i]) << "round " << round;
                EXPECT_TRUE(sample.encoded);
            }
        }
    }
}

// Three levels of B-tree nodes, and the library's own list of chunks beside it.
TEST(Hdf5, ChunkIndexIsTheLibrarys) {
    const TempDir dir;
    const Shape shape = {5000, 2, 2};
    H5Writer(dir / "a.h5")
        .add_bytes("images", shape, noise(count_of(shape), 13),
                   {.storage = Storage::chunked, .chunk = {3, 1, 2}, .filters = "d"});
    Hdf5Bytes bytes((dir / "a.h5").string());
    const Hdf5Id file = open_hdf5(bytes.path());
    const Hdf5Id dataset(H5Dopen2(file.get(), "images", H5P_DEFAULT), H5Dclose, bytes.path(), "images");
    const Hdf5Info info = describe_hdf5(dataset, "images", bytes);
    const auto index = read_chunk_index(bytes, dataset, info);
    ASSERT_TRUE(index.has_value());
    EXPECT_EQ(index->size(), 2u * 1667u);
    EXPECT_EQ(*index, ask_chunk_index(bytes, dataset, info));
}

TEST(Hdf5, ManyThreadsReadTheSame) {
    const TempDir dir;
    const Shape shape = {64, 16, 16};
    const Bytes pixels = noise(count_of(shape), 14, 3);
    H5Writer(dir / "a.h5")
        .add_bytes("images", shape, pixels, {.storage = Storage::chunked, .chunk = {5, 16, 16}, .filters = "d"});
    for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
        const Hdf5Source source((dir / "a.h5").string(), Split::train, {}, access);
        std::atomic<int> wrong = 0;
        std::vector<std::jthread> threads;
        for (int worker = 0; worker < 4; ++worker) {
            threads.emplace_back([&, worker] {
                Rng rng({.seed = static_cast<std::uint64_t>(worker)});
                for (int i = 0; i < 300; ++i) {
                    const auto index = static_cast<std::int64_t>(rng.below(64));
                    wrong += read(source, index) == part(pixels, index, 256) ? 0 : 1;
                }
            });
        }
        threads.clear();
        EXPECT_EQ(wrong, 0);
    }
}

TEST(Hdf5, RefusesWhatItCannotReadOnOneLine) {
    const TempDir dir;
    const auto with = [&](const std::function<void(H5Writer&)>& fill) {
        H5Writer file(dir / "a.h5");
        fill(file);
    };
    H5open();
    with([](H5Writer& file) { file.add_bytes("images", {4, 784}, noise(4 * 784, 15)); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("expected uint8 of (H, W), (H, W, C) or (C, H, W)"));
    with([](H5Writer& file) { file.add("images", H5T_IEEE_F32LE, {4, 2, 2}, {}, [](hid_t) {}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got float32 of (2, 2)"));
    with([](H5Writer& file) { file.add_texts("images", {"a", "b"}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got text of (2)"));
    with([](H5Writer& file) { file.add("images", H5T_STD_U8LE, {0, 2, 2}, {}, [](hid_t) {}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("expected 1 to 2147483647 images, got 0"));
    with([](H5Writer&) {});
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got no field at all"));
    const auto with_labels = [&](const std::function<void(H5Writer&)>& add) {
        with([&](H5Writer& file) {
            file.add_bytes("images", {4, 2, 2}, noise(16, 16));
            add(file);
        });
        return error_of<DataError>(dir / "a.h5");
    };
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {1, 2, 3});
                }),
                HasSubstr("expected integers of (4) or (4, 1), one for each image, got int64 of (3)"));
    EXPECT_THAT(with_labels([](H5Writer& file) { file.add("labels", H5T_IEEE_F64LE, {4}, {}, [](hid_t) {}); }),
                HasSubstr("got float64 of (4)"));
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {1, 2, 3, -2});
                }),
                HasSubstr("or -1 for none, got -2"));
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {0, 1, 2, 0});
                    file.add_classes("/", {"a", "b"});
                }),
                HasSubstr("expected a class below 2"));
    with([](H5Writer& file) { file.add_bytes("images", {4, 2, 2}, noise(16, 17)); });
    std::filesystem::resize_file(dir / "a.h5", std::filesystem::file_size(dir / "a.h5") - 1);
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("truncated file"));
    write_file(dir / "b.h5", std::string_view("not HDF5"));
    EXPECT_THAT(error_of<DataError>(dir / "b.h5"), AllOf(HasSubstr("expected an HDF5 file"), HasSubstr("signature")));
    EXPECT_THROW(Hdf5Source((dir / "absent.h5").string(), Split::train, {}), IoError);
}

TEST(Hdf5, RefusesOtherFiltersAndFilesByName) {
    const TempDir dir;
    const auto write = [&](const std::function<void(hid_t creation)>& set) {
        H5Writer file(dir / "a.h5");
        const hsize_t sides[] = {4, 8, 8};
        const hid_t space = must(H5Screate_simple(3, sides, nullptr));
        const hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
        set(creation);
        H5Dclose(must(H5Dcreate2(file.file(), "images", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT)));
        H5Pclose(creation);
        H5Sclose(space);
    };
    const hsize_t chunk[] = {1, 8, 8};
    write([&](hid_t creation) {
        must(H5Pset_chunk(creation, 3, chunk));
        must(H5Pset_nbit(creation));
    });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), AllOf(HasSubstr("filter nbit, number 5"), HasSubstr("deflate")));
    write([&](hid_t creation) {
        must(H5Pset_chunk(creation, 3, chunk));
        must(H5Pset_deflate(creation, 1));
        must(H5Pset_deflate(creation, 1));
    });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), HasSubstr("filter deflate twice"));
    write([](hid_t creation) { must(H5Pset_external(creation, "/etc/passwd", 0, H5F_UNLIMITED)); });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), HasSubstr("got a dataset in external files"));
}

}  // namespace
}  // namespace stoker
