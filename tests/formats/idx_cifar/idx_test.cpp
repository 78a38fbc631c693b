// The IDX reader on files written byte by byte here, on thousands of damaged ones, and on MNIST.
#include "stoker/formats/idx_cifar/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/io/gzip.h"
#include "support/data.h"
#include "support/memory_room.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::put;
using testing::TempDir;

// Without write_file's fsync, which is slow for thousands of small files.
std::string big_endian(std::uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
}

std::string idx_header(std::initializer_list<std::uint32_t> sizes, char type = 8) {
    std::string text = {0, 0, type, static_cast<char>(sizes.size())};
    for (const std::uint32_t size : sizes) {
        text += big_endian(size);
    }
    return text;
}

std::string gzipped(const std::string& text) {
    const std::span<const std::byte> piece = as_bytes(text);
    const Buffer packed = gzip(std::span(&piece, 1));
    return {reinterpret_cast<const char*>(packed.data()), packed.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Bytes 0, 1, 2, ... modulo 251, so that a wrong stride shows.
std::string ramp(std::size_t count) {
    std::string text(count, '\0');
    for (std::size_t i = 0; i < count; ++i) {
        text[i] = static_cast<char>(i % 251);
    }
    return text;
}

// The error from opening `content` as an IDX file; empty where it opens.
std::string open_error(const std::string& content) {
    const TempDir dir;
    put(dir / "file", content);
    try {
        const IdxFile file(dir / "file");
        return "";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr((dir / "file").string()));
        return error.what();
    }
}

TEST(Idx, ReadsSamplesLabelsKeysAndClasses) {
    const TempDir dir;
    put(dir / "images", idx_header({5, 2, 3}) + ramp(30));
    put(dir / "labels", idx_header({5}) + std::string{3, 0, 1, 3, 2});
    const IdxDataset source(dir / "images", dir / "labels", Split::test);
    ASSERT_EQ(source.size(), 5);
    Sample sample;
    source.read(4, sample);
    EXPECT_EQ(text_of(sample.bytes), ramp(30).substr(24));
    EXPECT_FALSE(sample.encoded);
    EXPECT_EQ(sample.height, 2);
    EXPECT_EQ(sample.width, 3);
    EXPECT_EQ(sample.channels, 1);
    EXPECT_EQ(sample.label, 2);
    EXPECT_EQ(source.key(4), "test/4");
    EXPECT_THAT(source.classes(), ::testing::ElementsAre("0", "1", "2", "3"));
    EXPECT_EQ(source.format(), "idx");
    EXPECT_EQ(source.bytes(), 16 + 30 + 8 + 5);
    EXPECT_THROW(source.read(5, sample), InvalidArgument);
    EXPECT_THROW(source.read(-1, sample), InvalidArgument);
}

TEST(Idx, ReadsColourImages) {
    const TempDir dir;
    put(dir / "images", idx_header({2, 4, 5, 3}) + ramp(120));
    put(dir / "labels", idx_header({2}) + std::string{0, 9});
    const IdxDataset source(dir / "images", dir / "labels", Split::train);
    Sample sample;
    source.read(1, sample);
    EXPECT_EQ(sample.channels, 3);
    EXPECT_EQ(sample.height, 4);
    EXPECT_EQ(sample.width, 5);
    EXPECT_EQ(text_of(sample.bytes), ramp(120).substr(60));
    EXPECT_EQ(source.key(1), "train/1");
}

TEST(Idx, GzipGivesTheSameBytesUnderAnyName) {
    const TempDir dir;
    const std::string content = idx_header({50, 7, 9}) + ramp(50 * 63);
    put(dir / "plain", content);
    put(dir / "packed-without-gz-in-its-name", gzipped(content));
    put(dir / "members.gz", gzipped(content.substr(0, 9)) + gzipped("") + gzipped(content.substr(9)));
    const IdxFile plain(dir / "plain");
    for (const char* name : {"packed-without-gz-in-its-name", "members.gz"}) {
        const IdxFile packed(dir / name);
        EXPECT_EQ(packed.shape(), (Shape{50, 7, 9}));
        EXPECT_EQ(text_of(packed.bytes()), text_of(plain.bytes())) << name;
        EXPECT_EQ(packed.file_bytes(), static_cast<std::int64_t>(fs::file_size(dir / name)));
    }
}

TEST(Idx, WritesWhatItReads) {
    const TempDir dir;
    std::string pixels = ramp(3 * 4 * 5 * 2);
    const TensorView tensor{reinterpret_cast<std::byte*>(pixels.data()), DType::uint8, {3, 4, 5, 2}};
    write_idx(dir / "a-ubyte", tensor);
    write_idx(dir / "a-ubyte.gz", tensor);
    EXPECT_EQ(read_text(dir / "a-ubyte"), idx_header({3, 4, 5, 2}) + pixels);
    EXPECT_EQ(read_text(dir / "a-ubyte.gz").substr(0, 2), "\x1f\x8b");
    const IdxFile packed(dir / "a-ubyte.gz");
    EXPECT_EQ(packed.shape(), tensor.shape);
    EXPECT_EQ(text_of(packed.bytes()), pixels);

    EXPECT_THROW(write_idx(dir / "b", {tensor.data, DType::float32, {2}}), InvalidArgument);
    EXPECT_THROW(write_idx(dir / "b", {tensor.data, DType::uint8, {}}), InvalidArgument);
    EXPECT_THROW(write_idx(dir / "b", {tensor.data, DType::uint8, {1, 1, 1, 1, 1}}), InvalidArgument);
    EXPECT_THROW(write_idx(dir / "b", {tensor.data, DType::uint8, {std::int64_t{1} << 32, 0}}), InvalidArgument);
    EXPECT_FALSE(fs::exists(dir / "b"));
}

TEST(Idx, NamesBothSizesAndThePlaceWhereTheHeaderLies) {
    const std::string expected = "expected 46 bytes, a header of 16 and 5 x 2 x 3 elements";
    EXPECT_THAT(open_error(idx_header({5, 2, 3}) + ramp(29)), HasSubstr("@ byte 45] " + expected + ", got 45 bytes"));
    EXPECT_THAT(open_error(idx_header({5, 2, 3}) + ramp(31)), HasSubstr("@ byte 46] " + expected + ", got 47 bytes"));
    EXPECT_THAT(open_error(gzipped(idx_header({5, 2, 3}) + ramp(29))),
                HasSubstr(expected + " after inflating, got 45 bytes"));
    EXPECT_THAT(open_error(gzipped(idx_header({5, 2, 3}) + ramp(31))), HasSubstr("got 46 bytes and more"));
}

TEST(Idx, RefusesWhatIsNotUint8Idx) {
    EXPECT_THAT(open_error(""), HasSubstr("expected 4 bytes of IDX magic, got 0"));
    EXPECT_THAT(open_error("GIF89a and more"), HasSubstr("expected an IDX file"));
    EXPECT_THAT(open_error(std::string{0, 0, 8, 0}), HasSubstr("1 to 4 dimensions"));
    EXPECT_THAT(open_error(std::string{0, 0, 8, 5}), HasSubstr("1 to 4 dimensions"));
    EXPECT_THAT(open_error(idx_header({5, 2, 3}).substr(0, 10)), HasSubstr("expected 16 bytes of header, got 10"));
    EXPECT_THAT(open_error(idx_header({1}, 0x0D) + "1234"),
                HasSubstr("expected uint8 elements (type 08), got type 0d"));
    const TempDir dir;
    EXPECT_THROW(IdxFile(dir / "absent"), IoError);
}

TEST(Idx, RefusesSizesBeforeTakingMemory) {
    constexpr std::uint32_t kMost = 0xFFFFFFFF;
    EXPECT_THAT(open_error(idx_header({kMost, kMost, kMost, kMost})), HasSubstr("sizes that fit memory"));
    EXPECT_THAT(open_error(idx_header({1u << 31, 1u << 31, 4, 4})), HasSubstr("sizes that fit memory"));
    EXPECT_THAT(open_error(idx_header({kMost, 28, 28})), HasSubstr("got 16 bytes"));
    EXPECT_THAT(open_error(gzipped(idx_header({kMost, 28, 28}) + ramp(100))), HasSubstr("bytes of gzip can hold"));
}

// A gzip file with 64 MiB of zeros after a header that promises 100 bytes: refused after one byte too many.
TEST(Idx, RefusesGzipBombs) {
    const TempDir dir;
    const std::string bomb = gzipped(idx_header({100}) + std::string(std::size_t{64} << 20, '\0'));
    put(dir / "bomb", bomb);
    try {
        const IdxFile file(dir / "bomb");
        FAIL() << "opened";
    } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("got 108 bytes and more"));
        EXPECT_LT(error.place().offset.value(), 100);
    }
}

TEST(Idx, LabelsMustMatchImages) {
    const TempDir dir;
    put(dir / "images", idx_header({5, 2, 3}) + ramp(30));
    const auto error_with = [&](const std::string& images, const std::string& labels) -> std::string {
        put(dir / "images", images);
        put(dir / "labels", labels);
        try {
            const IdxDataset source(dir / "images", dir / "labels", Split::train);
            return "";
        } catch (const DataError& error) {
            return error.what();
        }
    };
    const std::string images = idx_header({5, 2, 3}) + ramp(30);
    EXPECT_EQ(error_with(images, idx_header({5}) + ramp(5)), "");
    EXPECT_THAT(error_with(images, idx_header({4}) + ramp(4)), HasSubstr("labels @ byte 4] expected 5 labels"));
    EXPECT_THAT(error_with(images, idx_header({5, 1}) + ramp(5)), HasSubstr("expected 5 labels in one dimension"));
    EXPECT_THAT(error_with(idx_header({30}) + ramp(30), idx_header({30}) + ramp(30)), HasSubstr("3 or 4 dimensions"));
    EXPECT_THAT(error_with(idx_header({0, 2, 3}), idx_header({0})), HasSubstr("number of images of 1"));
    EXPECT_THAT(error_with(idx_header({0xFFFFFFFF, 0, 3}), idx_header({0})), HasSubstr("number of images"));
    EXPECT_THAT(error_with(idx_header({5, 0, 3}), idx_header({5}) + ramp(5)), HasSubstr("@ byte 8] expected a height"));
    EXPECT_THAT(error_with(idx_header({1, 1, 1, 7}) + ramp(7), idx_header({1}) + ramp(1)), HasSubstr("channels"));
}

// Each damaged file throws DataError or Unsupported, or opens with a shape that fits its bytes.
void expect_robust(const std::string& content) {
    const TempDir dir;
    put(dir / "file", content);
    try {
        const IdxFile file(dir / "file");
        EXPECT_EQ(static_cast<std::int64_t>(file.bytes().size()), element_count(file.shape()));
    } catch (const DataError& error) {
        EXPECT_EQ(error.place().path, (dir / "file").string());
    } catch (const Unsupported& error) {
        EXPECT_THAT(error.what(), HasSubstr("expected uint8 elements"));
    }
}

TEST(Idx, SurvivesEveryFlippedBitAndEveryTruncation) {
    const std::string plain = idx_header({5, 2, 3}) + ramp(30);
    const std::string packed = gzipped(plain);
    for (const std::string& content : {plain, packed}) {
        for (std::size_t length = 0; length < content.size(); ++length) {
            EXPECT_NE(open_error(content.substr(0, length)), "") << "cut to " << length;
        }
        for (std::size_t bit = 0; bit < 8 * content.size(); ++bit) {
            std::string damaged = content;
            damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
            expect_robust(damaged);
        }
    }
}

TEST(Idx, SurvivesRandomHeaders) {
    Rng rng({.seed = 3});
    for (int i = 0; i < 500; ++i) {
        std::string content = idx_header({5, 2, 3}) + ramp(30);
        for (std::uint32_t change = rng.below(4) + 1; change > 0; --change) {
            content[2 + rng.below(14)] = static_cast<char>(rng.next());
        }
        expect_robust(rng.chance(0.5f) ? content : gzipped(content));
    }
}

TEST(Idx, FindsFilesByTheirNames) {
    const TempDir dir;
    EXPECT_FALSE(holds_idx(dir.path()));
    for (const char* name : {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-labels.idx1-ubyte",
                             "t10k-images.idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "notes.txt"}) {
        put(dir / name, "x");
    }
    EXPECT_TRUE(holds_idx(dir.path()));
    const IdxPaths train = find_idx(dir.path(), Split::train);
    EXPECT_EQ(train.images.filename(), "train-images-idx3-ubyte");
    EXPECT_EQ(train.labels.filename(), "train-labels.idx1-ubyte");
    const IdxPaths test = find_idx(dir.path(), Split::test);
    EXPECT_EQ(test.images.filename(), "t10k-images.idx3-ubyte.gz");
    EXPECT_EQ(test.labels.filename(), "t10k-labels-idx1-ubyte.gz");
}

TEST(Idx, FindsPrefixedSetsAndSaysWhatIsMissing) {
    const auto error_of = [](const fs::path& dir, Split split) -> std::string {
        try {
            find_idx(dir, split);
            return "";
        } catch (const DataError& error) {
            return error.what();
        }
    };
    const TempDir dir;
    put(dir / "emnist-digits-train-images-idx3-ubyte.gz", "x");
    EXPECT_THAT(error_of(dir.path(), Split::train), HasSubstr("got the images only"));
    EXPECT_THAT(error_of(dir.path(), Split::test), HasSubstr("t10k-labels-idx1-ubyte, plain or .gz, got neither"));
    put(dir / "emnist-digits-train-labels-idx1-ubyte.gz", "x");
    EXPECT_EQ(find_idx(dir.path(), Split::train).labels.filename(), "emnist-digits-train-labels-idx1-ubyte.gz");
    put(dir / "emnist-letters-train-labels-idx1-ubyte.gz", "x");
    EXPECT_THAT(error_of(dir.path(), Split::train), HasSubstr("got emnist-digits-, emnist-letters-"));
}

TEST(Idx, MnistIsWhatItIsKnownToBe) {
    STOKER_SKIP_WITHOUT(mnist, "mnist");
    struct Known {
        Split split;
        std::int64_t size;
        std::int64_t first_label;
        std::int64_t sevens;
    };
    for (const Known& known : {Known{Split::train, 60000, 5, 6265}, Known{Split::test, 10000, 7, 1028}}) {
        const IdxPaths paths = find_idx(mnist, known.split);
        const IdxDataset source(paths.images, paths.labels, known.split);
        EXPECT_EQ(source.size(), known.size);
        EXPECT_EQ(source.classes().size(), 10u);
        Sample sample;
        std::int64_t sevens = 0;
        for (std::int64_t i = source.size(); i-- > 0;) {
            source.read(i, sample);
            sevens += sample.label == 7 ? 1 : 0;
        }
        EXPECT_EQ(sevens, known.sevens);
        EXPECT_EQ(sample.label, known.first_label);
        EXPECT_EQ(sample.bytes.size(), 784u);
    }
}

TEST(Idx, GzipThatTakesTooMuchMemoryIsRefusedBeforeItIsInflated) {
    const TempDir folder;
    const fs::path path = folder / "images.gz";
    put(path, gzipped(idx_header({100, 1024, 1024}) + std::string(100 << 20, '\0')));
    ASSERT_LT(fs::file_size(path), 1u << 20);
    const testing::MemoryRoom room(50 * testing::kMiB);
    EXPECT_THAT([&] { IdxFile file(path); }, ::testing::ThrowsMessage<MemoryError>(
                                                 ::testing::AllOf(HasSubstr(path.string()), HasSubstr("100 MiB"))));
    put(folder / "plain", idx_header({100, 1024, 1024}) + std::string(100 << 20, '\0'));
    EXPECT_EQ(IdxFile(folder / "plain").bytes().size(), 100u << 20) << "a mapped file may be larger than memory";
}

}  // namespace
}  // namespace stoker
