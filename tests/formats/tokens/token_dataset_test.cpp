// Windows of tokens in each element type, from .bin and .npy, small and larger than the pieces that are read by a call.
#include "stoker/formats/tokens/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "formats/arrays/npy_support.h"
#include "formats/field_value_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/concat.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using namespace testing;

template <typename Token>
std::string packed(const std::vector<std::int64_t>& tokens) {
    std::string bytes(tokens.size() * sizeof(Token), '\0');
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto token = static_cast<Token>(tokens[i]);
        std::memcpy(bytes.data() + i * sizeof(Token), &token, sizeof(Token));
    }
    return bytes;
}

std::vector<std::int64_t> counted(std::int64_t first, std::size_t count) {
    std::vector<std::int64_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

std::vector<std::int64_t> window(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    dataset.read(index, sample);
    EXPECT_EQ(sample.label, -1);
    return numbers_of<std::int64_t>(sample.fields.at(0));
}

template <typename Kind>
std::string error_of(const std::string& path, std::int64_t context, const FieldNames& fields = {}) {
    try {
        open_dataset(path, Split::train, {.fields = fields, .context = context});
    } catch (const Kind& error) {
        return error.what();
    }
    return "opened";
}

TEST(TokenDataset, WindowsOverlapByOneToken) {
    const TempDir dir;
    const std::string path = (dir / "x.bin").string();
    for (const auto& [count, windows] : {std::pair{5, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}}) {
        write_file(path, packed<std::uint16_t>(counted(60'000, static_cast<std::size_t>(count))));
        const auto dataset = open_dataset(path, Split::train, {.context = 4});
        ASSERT_EQ(dataset->size(), windows) << count;
        EXPECT_THAT(window(*dataset, 0), ElementsAre(60'000, 60'001, 60'002, 60'003, 60'004));
        if (windows > 1) {
            EXPECT_THAT(window(*dataset, 1), ElementsAre(60'004, 60'005, 60'006, 60'007, 60'008));
        }
        EXPECT_EQ(dataset->format(), "tokens");
        EXPECT_FALSE(dataset->has_image());
        EXPECT_EQ(describe_fields(dataset->fields()), "tokens int64 (5)");
        EXPECT_EQ(dataset->fields()[0].kind, FieldKind::tokens);
        EXPECT_THROW(window(*dataset, windows), InvalidArgument);
    }
    EXPECT_EQ(open_dataset(path, Split::train,
                           {.fields = {.image = {}, .label = {}, .more = {{.name = "ids"}}}, .context = 4})
                  ->fields()[0]
                  .name,
              "ids");
}

TEST(TokenDataset, ElementTypes) {
    const TempDir dir;
    const std::vector<std::int64_t> small = {0, 1, 255, 7, 9};
    const std::vector<std::int64_t> middle = {0, 1, 65'535, 7, 9};
    const std::vector<std::int64_t> large = {0, 1, 2'147'483'647, 7, 9};
    const std::vector<std::int64_t> wide = {0, 1, 4'294'967'295, 7, 9};
    write_file(dir / "a.u32.bin", packed<std::uint32_t>(wide));
    EXPECT_EQ(window(*open_dataset((dir / "a.u32.bin").string(), Split::train, {.context = 4}), 0), wide);
    const auto npy_window = [&](const std::string& descr, const std::string& bytes) {
        write_file(dir / "a.npy", npy(descr, "(5,)", bytes));
        return window(*open_dataset((dir / "a.npy").string(), Split::train, {.context = 4}), 0);
    };
    EXPECT_EQ(npy_window("|u1", packed<std::uint8_t>(small)), small);
    EXPECT_EQ(npy_window("<u2", packed<std::uint16_t>(middle)), middle);
    EXPECT_EQ(npy_window("<u4", packed<std::uint32_t>(wide)), wide);
    EXPECT_EQ(npy_window("<i4", packed<std::int32_t>(large)), large);
    EXPECT_EQ(npy_window("<i8", packed<std::int64_t>(wide)), wide);
    for (const auto& [descr, size] : {std::pair{"<f4", 4}, {">u2", 2}, {"<i2", 2}, {"<u8", 8}, {"|b1", 1}}) {
        write_file(dir / "a.npy", npy(descr, "(5,)", std::string(static_cast<std::size_t>(5 * size), '\0')));
        EXPECT_THROW(TokenDataset((dir / "a.npy").string(), Split::train, 4), Unsupported) << descr;
    }
    write_file(dir / "a.npy", npy("<i4", "(5,)", packed<std::int32_t>({0, 1, -1, 7, 9})));
    const auto negative = open_dataset((dir / "a.npy").string(), Split::train, {.context = 2});
    EXPECT_THROW(window(*negative, 0), DataError);
    EXPECT_THROW(window(*negative, 1), DataError);
}

TEST(TokenDataset, LargeWindowsAreReadByACall) {
    const TempDir dir;
    const std::size_t context = 20'000;
    write_file(dir / "x.bin", packed<std::uint16_t>(counted(0, 3 * context + 1)));
    const auto dataset =
        open_dataset((dir / "x.bin").string(), Split::train, {.context = static_cast<std::int64_t>(context)});
    ASSERT_EQ(dataset->size(), 3);
    const std::int64_t all[] = {0, 1, 2};
    dataset->prefetch(all);
    EXPECT_EQ(window(*dataset, 2), counted(40'000, context + 1));
}

TEST(TokenDataset, Splits) {
    const TempDir dir;
    write_file(dir / "train.bin", packed<std::uint16_t>(counted(0, 9)));
    EXPECT_THROW(open_dataset(dir.path().string(), Split::train, {.context = 4}), DataError);
    write_file(dir / "val.bin", packed<std::uint16_t>(counted(100, 5)));
    EXPECT_TRUE(has_splits(dir.path().string()));
    EXPECT_EQ(open_dataset(dir.path().string(), Split::train, {.context = 4})->size(), 2);
    EXPECT_EQ(window(*open_dataset(dir.path().string(), Split::test, {.context = 4}), 0), counted(100, 5));
    EXPECT_FALSE(has_splits((dir / "val.bin").string()));
}

TEST(TokenDataset, HeaderOfLlmC) {
    const TempDir dir;
    const std::string path = (dir / "x.bin").string();
    const auto header = [](std::int64_t magic, std::int64_t tokens) {
        std::vector<std::int64_t> words(256);
        words[0] = magic;
        words[1] = 1;
        words[2] = tokens;
        return packed<std::int32_t>(words);
    };
    write_file(path, header(20240520, 5) + packed<std::uint16_t>(counted(7, 5)));
    EXPECT_EQ(window(*open_dataset(path, Split::train, {.context = 4}), 0), counted(7, 5));
    write_file(path, header(20240801, 5) + packed<std::uint32_t>(counted(100'000, 5)));
    EXPECT_EQ(window(*open_dataset(path, Split::train, {.context = 4}), 0), counted(100'000, 5));
    write_file(path, header(20240520, 6) + packed<std::uint16_t>(counted(7, 5)));
    EXPECT_THAT(error_of<DataError>(path, 4), HasSubstr("the 6 tokens that its header states, got 10 bytes"));
}

TEST(TokenDataset, Refused) {
    const TempDir dir;
    const std::string path = (dir / "x.bin").string();
    write_file(path, packed<std::uint16_t>(counted(0, 5)));
    EXPECT_THAT(error_of<InvalidArgument>(path, 0),
                HasSubstr("[data.context] expected the number of tokens in a sample"));
    EXPECT_THROW(TokenDataset(path, Split::train, -1), InvalidArgument);
    EXPECT_THAT(error_of<DataError>(path, 5), HasSubstr("at least 6 tokens, one more than data.context, got 5"));
    EXPECT_THAT(error_of<Unsupported>(path, 2, {.image = {}, .label = {}, .more = {{.name = "a"}, {.name = "b"}}}),
                HasSubstr("one field of tokens"));
    EXPECT_THAT(
        error_of<Unsupported>(path, 2, {.image = {}, .label = {}, .more = {{.name = "a", .kind = FieldKind::mask}}}),
        HasSubstr("mask"));
    EXPECT_THAT(error_of<DataError>(path, 2, {.image = {}, .label = {}, .more = {{.name = "a", .from = "b"}}}),
                HasSubstr("the field tokens, got b"));
    write_file(path, std::string_view("abc"));
    EXPECT_THAT(error_of<DataError>(path, 1),
                HasSubstr("tokens of 2 bytes, got a file of 3 bytes; x.bin holds uint16"));
    write_file(path, std::string_view());
    EXPECT_THAT(error_of<DataError>(path, 1), HasSubstr("got 0"));
}

TEST(TokenDataset, PartsOfItHaveNoImageEither) {
    const TempDir dir;
    write_file(dir / "x.bin", packed<std::uint16_t>(counted(0, 9)));
    const std::shared_ptr<const Dataset> tokens = open_dataset((dir / "x.bin").string(), Split::train, {.context = 4});
    EXPECT_FALSE(Subset(tokens, {1}).has_image());
    EXPECT_FALSE(ConcatDataset({tokens, tokens}).has_image());
    const std::shared_ptr<const Dataset> images = open_dataset("synth:digits?count=6", Split::train);
    EXPECT_THROW(ConcatDataset({tokens, images}), InvalidArgument);
}

TEST(TokenDataset, AContextThatNothingUsesIsRefused) {
    EXPECT_THAT(error_of<InvalidArgument>("synth:digits?count=4", 16), HasSubstr("expected a token stream"));
}

// The index of documents with these lengths, each one sequence, in Megatron-LM's form.
std::string megatron_index(std::uint8_t code, std::size_t item_bytes, const std::vector<std::int64_t>& lengths) {
    std::vector<std::int64_t> begins;
    std::int64_t at = 0;
    for (const std::int64_t length : lengths) {
        begins.push_back(at);
        at += length * static_cast<std::int64_t>(item_bytes);
    }
    const auto count = static_cast<std::int64_t>(lengths.size());
    return std::string("MMIDIDX\0\0", 9) + packed<std::int64_t>({1}) + packed<std::uint8_t>({code}) +
           packed<std::int64_t>({count, count + 1}) + packed<std::int32_t>(lengths) + packed<std::int64_t>(begins) +
           packed<std::int64_t>(counted(0, lengths.size() + 1));
}

TEST(Tokens, MegatronsIndexHasTheType) {
    const TempDir dir;
    std::ofstream(dir / "x.bin", std::ios::binary) << packed<std::int32_t>({5, 70'000, 3, 9, 1'000'000});
    const std::string index = megatron_index(4, 4, {2, 3});
    std::ofstream(dir / "x.idx", std::ios::binary) << index;
    const auto dataset = open_dataset((dir / "x.bin").string(), Split::train, {.context = 4});
    EXPECT_THAT(window(*dataset, 0), ElementsAre(5, 70'000, 3, 9, 1'000'000));
    for (std::size_t size = 9; size < index.size(); ++size) {
        std::ofstream(dir / "x.idx", std::ios::binary) << index.substr(0, size);
        EXPECT_THAT(error_of<Error>((dir / "x.bin").string(), 4), HasSubstr("x.idx")) << size;
    }
    std::ofstream(dir / "x.idx", std::ios::binary) << megatron_index(8, 2, {2, 3});  // another type
    EXPECT_THAT(error_of<DataError>((dir / "x.bin").string(), 4), HasSubstr("5 tokens of uint16"));
    std::ofstream(dir / "x.idx", std::ios::binary) << megatron_index(7, 4, {2, 3});
    EXPECT_THAT(error_of<Unsupported>((dir / "x.bin").string(), 4), HasSubstr("type code 7"));
    std::ofstream(dir / "x.idx", std::ios::binary) << "another program's";
    EXPECT_EQ(open_dataset((dir / "x.bin").string(), Split::train, {.context = 4})->size(), 2);  // ten uint16
}

}  // namespace
}  // namespace stoker
