// The safetensors reader on files written byte by byte here: valid files are read exactly, and no hostile header leads
// outside the file. test_weights.py compares with the reference package.
#include "stoker/formats/arrays/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/rng.h"
#include "support/memory_room.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::put;
using testing::TempDir;

std::string file_of(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string file(sizeof length, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    file += header;
    for (std::size_t i = 0; i < data_bytes; ++i) {
        file += static_cast<char>(i);
    }
    return file;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

// A run whose data were cut short writes its checkpoint nevertheless.
TEST(Safetensors, AreWrittenWhileAnotherFileIsDamaged) {
    const TempDir folder;
    put(folder / "data", std::string(8192, 'x'));
    const MappedFile data(folder / "data");
    fs::resize_file(folder / "data", 0);
    const std::byte first = static_cast<const volatile std::byte*>(data.bytes().data())[0];
    EXPECT_EQ(first, std::byte{0});
    EXPECT_THROW(check_maps(), IoError);
    std::vector<float> weights(4, 1.0F);
    write_safetensors(folder / "a.safetensors",
                      {{"a", {reinterpret_cast<std::byte*>(weights.data()), DType::float32, {4}}}});
    EXPECT_TRUE(fs::exists(folder / "a.safetensors"));
}

TEST(Safetensors, ReadsBackWhatItWrote) {
    const TempDir folder;
    std::vector<float> weights(12);
    std::iota(weights.begin(), weights.end(), -3.5f);
    std::vector<std::int64_t> steps = {1, -2, std::int64_t{1} << 60};
    std::vector<std::uint8_t> odd = {7, 8, 9};
    const std::vector<NamedView> tensors = {
        {"fc.weight", {reinterpret_cast<std::byte*>(weights.data()), DType::float32, {3, 4}}},
        {"odd \"name\" \xc3\xbc", {reinterpret_cast<std::byte*>(odd.data()), DType::uint8, {3}}},
        {"steps", {reinterpret_cast<std::byte*>(steps.data()), DType::int64, {3, 1}}},
        {"scalar", {reinterpret_cast<std::byte*>(weights.data() + 5), DType::float32, {}}},
        {"empty", {nullptr, DType::float64, {0, 5}}},
    };
    write_safetensors(folder / "x.safetensors", tensors);
    const SafetensorsFile file(folder / "x.safetensors");
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, view] = file.tensors()[i];
        EXPECT_EQ(name, tensors[i].name);
        EXPECT_EQ(view.dtype, tensors[i].view.dtype);
        EXPECT_EQ(view.shape, tensors[i].view.shape);
        ASSERT_EQ(view.bytes(), tensors[i].view.bytes());
        if (view.bytes() > 0) {
            EXPECT_EQ(std::memcmp(view.data, tensors[i].view.data, view.bytes()), 0) << name;
        }
    }
    EXPECT_TRUE(file.contains("steps"));
    std::int64_t last = 0;  // not aligned in this file, after three bytes
    std::memcpy(&last, file.at("steps").data + 16, sizeof last);
    EXPECT_EQ(last, std::int64_t{1} << 60);
    EXPECT_FALSE(file.contains("step"));
    EXPECT_THROW(file.at("step"), DataError);
}

TEST(Safetensors, DataBeginsAtAMultipleOfEight) {
    const TempDir folder;
    for (std::size_t length = 1; length <= 9; ++length) {
        write_safetensors(folder / "x", {{std::string(length, 'n'), {nullptr, DType::uint8, {0}}}});
        EXPECT_EQ(fs::file_size(folder / "x") % 8, 0u);
    }
}

TEST(Safetensors, ReadsMetadataAndTrailingSpaces) {
    const TempDir folder;
    put(folder / "x",
        file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}   )", 4));
    const SafetensorsFile file(folder / "x");
    ASSERT_EQ(file.tensors().size(), 1u);
    EXPECT_EQ(file.at("a").as<std::uint8_t>()[3], 3);
}

TEST(Safetensors, WritesMetadata) {
    const TempDir folder;
    const SafetensorsMetadata metadata = {{"classes", R"(["ash","b\"eech"])"}, {"format", "pt"}};
    write_safetensors(folder / "x", {{"a", {nullptr, DType::uint8, {0}}}}, metadata);
    const SafetensorsFile file(folder / "x");
    EXPECT_EQ(file.metadata(), metadata);
    EXPECT_EQ(file.tensors().size(), 1u);
    write_safetensors(folder / "x", {},
                      {{"classes", "\xff"}});  // class names come from folder names, which need not be UTF-8
    EXPECT_EQ(SafetensorsFile(folder / "x").metadata().at("classes"), "\xef\xbf\xbd");
    put(folder / "x", file_of(R"({"__metadata__":{"a":1,"b":"c","d":{}}})", 0));
    EXPECT_EQ(SafetensorsFile(folder / "x").metadata(), (SafetensorsMetadata{{"b", "c"}}));
    put(folder / "x", file_of(R"({"__metadata__":"c"})", 0));
    EXPECT_TRUE(SafetensorsFile(folder / "x").metadata().empty());
}

// Header lengths 0x280 and 0x04034b50 look like the beginning of a pickle and of a zip file.
TEST(Safetensors, ALengthMayLookLikeAnotherFormat) {
    const TempDir dir;
    const fs::path path = dir.path() / "x.safetensors";
    for (const std::size_t length : {std::size_t{0x280}, std::size_t{0x10280}}) {
        std::string header = entry("U8", "[4]", "[0,4]");
        header.resize(length, ' ');
        put(path, file_of(header, 4));
        EXPECT_EQ(SafetensorsFile(path).tensors().size(), 1);
    }
}

TEST(Safetensors, SaysWhatAFileIsThatItCannotRead) {
    const TempDir folder;
    const std::string whole = file_of(entry("F32", "[2,2]", "[0,16]"), 16);
    const std::string header = fmt::format("{}", whole.size() - 16);
    const std::pair<std::string, std::string> files[] = {
        {whole.substr(0, whole.size() - 3),
         fmt::format("got one that ends after {} of {} bytes: copied incompletely?", whole.size() - 3, whole.size())},
        {whole.substr(0, whole.size() - 16), fmt::format("ends after {} of {} bytes", header, whole.size())},
        {whole.substr(0, 20), fmt::format("ends after 20 of at least {} bytes: copied incompletely?", header)},
        {"a text of some length, and no weights", "expected a safetensors file, got a file that does not begin as one"},
        {std::string("\x80\x02}q\0", 5), "got a file of torch.save; save it with safetensors.torch.save_file"},
        {"PK\3\4 and the rest of a zip file", "got a file of torch.save"},
        {std::string("\x20\0\0\0\0\0\0\0no JSON", 15), "a file that does not begin as one"},
    };
    for (const auto& [bytes, text] : files) {
        put(folder / "x", bytes);
        try {
            const SafetensorsFile file(folder / "x");
            ADD_FAILURE() << text;
        } catch (const DataError& error) {
            EXPECT_THAT(error.what(), HasSubstr(text));
        }
    }
}

TEST(Safetensors, HostileHeadersAreRefused) {
    const TempDir folder;
    const std::string sound = entry("F32", "[2,2]", "[0,16]");
    put(folder / "x", file_of(sound, 16));
    EXPECT_NO_THROW(SafetensorsFile(folder / "x"));
    const std::pair<std::string, std::string> hostile[] = {
        {"empty file", ""},
        {"seven bytes", std::string(7, '\0')},
        {"no JSON", file_of("", 0)},
        {"array", file_of("[]", 0)},
        {"half a header", file_of(sound.substr(0, sound.size() - 3), 16)},
        {"tensor that is not an object", file_of(R"({"a":3})", 16)},
        {"no dtype", file_of(R"({"a":{"shape":[4],"data_offsets":[0,16]}})", 16)},
        {"unknown dtype beyond the file", file_of(entry("F8_E4M3", "[16]", "[0,17]"), 16)},
        {"dtype of another type", file_of(R"({"a":{"dtype":4,"shape":[4],"data_offsets":[0,16]}})", 16)},
        {"data cut short", file_of(sound, 15)},
        {"end before begin", file_of(entry("F32", "[0]", "[8,4]"), 16)},
        {"begin beyond the file", file_of(entry("F32", "[0]", "[17,17]"), 16)},
        {"too few bytes for the shape", file_of(entry("F32", "[2,2]", "[0,12]"), 16)},
        {"too many", file_of(entry("F32", "[2,1]", "[0,16]"), 16)},
        {"one offset", file_of(entry("F32", "[4]", "[16]"), 16)},
        {"three offsets", file_of(entry("F32", "[4]", "[0,16,16]"), 16)},
        {"offsets in an object", file_of(entry("F32", "[4]", R"({"0":0,"1":16})"), 16)},
        {"negative offsets", file_of(entry("F32", "[4]", "[-16,0]"), 16)},
        {"fractional offset", file_of(entry("F32", "[4]", "[0.5,16]"), 16)},
        {"negative side", file_of(entry("F32", "[-2,-2]", "[0,16]"), 16)},
        {"negative side of nothing", file_of(entry("F32", "[0,-2]", "[0,0]"), 16)},
        {"fractional side", file_of(entry("F32", "[4.7]", "[0,16]"), 16)},
        {"shape that is a number", file_of(entry("F32", "4", "[0,16]"), 16)},
        {"shape that is null", file_of(entry("F32", "null", "[0,4]"), 16)},
        {"shape in an object", file_of(entry("F32", R"({"n":4})", "[0,16]"), 16)},
        {"sides whose product wraps to 4", file_of(entry("F32", "[4294967296,4294967296,4]", "[0,16]"), 16)},
        {"sides whose bytes wrap to 0", file_of(entry("F32", "[4611686018427387904]", "[0,0]"), 16)},
        {"a side above 2^31 of nothing", file_of(entry("F32", "[0,4611686018427387904]", "[0,0]"), 16)},
        {"a side above 2^63", file_of(entry("F32", "[0,18446744073709551615]", "[0,0]"), 16)},
        {"a side above 2^64", file_of(entry("F32", "[36893488147419103232]", "[0,0]"), 16)},
    };
    for (const auto& [what, bytes] : hostile) {
        put(folder / "x", bytes);
        try {
            const SafetensorsFile file(folder / "x");
            ADD_FAILURE() << what << " was read";
        } catch (const DataError& error) {
            EXPECT_THAT(error.what(), HasSubstr((folder / "x").string())) << what;
        }
    }
}

TEST(Safetensors, ATypeThatIsNotKnownHasBytes) {
    const std::string file = file_of(entry("F4", "[3,11]", "[0,17]"), 17);
    const auto entries = parse_safetensors(std::as_bytes(std::span(file.data(), file.size())));
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].dtype, "F4");
    EXPECT_EQ(entries[0].bytes.size(), 17u);
    EXPECT_FALSE(safetensors_array_type("F4").has_value());
    const std::string odd = file_of(entry(std::string(100'000, 'n'), "[1]", "[0,1]"), 1);
    EXPECT_LT(parse_safetensors(std::as_bytes(std::span(odd.data(), odd.size()))).at(0).dtype.size(), 200u);
}

TEST(Safetensors, AKeyThatOccursTwiceIsRefused) {
    const std::string tensor = R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})";
    const std::string other = R"({"dtype":"F32","shape":[2,2],"data_offsets":[16,32]})";
    const std::pair<std::string, std::string> headers[] = {
        {R"("a")", fmt::format(R"({{"a":{},"b":{},"a":{}}})", tensor, other, tensor)},
        {R"("shape")",
         fmt::format(R"({{"b":{},"a":{{"shape":[4],"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}}})", other)},
        {R"("x")", fmt::format(R"({{"__metadata__":{{"x":"1","x":"2"}},"a":{}}})", tensor)},
        {R"("__metadata__")", fmt::format(R"({{"__metadata__":{{}},"a":{},"__metadata__":{{}}}})", tensor)},
    };
    for (const auto& [key, header] : headers) {
        const std::string file = file_of(header, 32);
        EXPECT_THAT([&] { parse_safetensors(as_bytes(file)); },
                    ::testing::ThrowsMessage<DataError>(HasSubstr("the key " + key + " twice")));
    }
    const std::string apart = file_of(fmt::format(R"({{"a":{},"shape":{}}})", tensor, other), 32);
    EXPECT_EQ(parse_safetensors(as_bytes(apart)).size(), 2u) << "the same key in several objects";
}

TEST(Safetensors, OverlappingTensorsAreRefused) {
    const auto file = [](const char* second) {
        return file_of(fmt::format(R"({{"b":{{"dtype":"U8","shape":[8],"data_offsets":{}}},)"
                                   R"("a":{{"dtype":"U8","shape":[8],"data_offsets":[4,12]}},)"
                                   R"("none":{{"dtype":"U8","shape":[0],"data_offsets":[6,6]}}}})",
                                   second),
                       24);
    };
    for (const char* second : {"[4,12]", "[0,8]", "[11,19]"}) {
        EXPECT_THAT([&] { parse_safetensors(as_bytes(file(second))); },
                    ::testing::ThrowsMessage<DataError>(
                        ::testing::AllOf(HasSubstr("do not overlap"), HasSubstr("\"a\""), HasSubstr("\"b\""))))
            << second;
    }
    EXPECT_EQ(parse_safetensors(as_bytes(file("[12,20]"))).size(), 3u);
}

TEST(Safetensors, AHeaderThatTakesTooMuchMemoryIsRefused) {
    const std::string file = file_of(R"({"a":[)" + std::string(4'000'000, ' ') + "]}", 0);
    const testing::MemoryRoom room(100 * testing::kMiB);
    EXPECT_THROW(parse_safetensors(as_bytes(file)), MemoryError);
}

TEST(Safetensors, HeaderLongerThanTheFileIsRefusedBeforeAllocation) {
    const TempDir folder;
    for (const std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0},
                                       ~std::uint64_t{0} - 7, std::uint64_t{17}}) {
        std::string bytes(sizeof length + 16, ' ');
        std::memcpy(bytes.data(), &length, sizeof length);
        put(folder / "x", bytes);
        EXPECT_THROW(SafetensorsFile(folder / "x"), DataError) << length;
    }
}

TEST(Safetensors, DeepNestingIsRefusedWithoutDeepRecursion) {
    const TempDir folder;
    put(folder / "x", file_of(R"({"a":)" + std::string(2'000'000, '['), 0));
    EXPECT_THROW(SafetensorsFile(folder / "x"), DataError);
    put(folder / "x", file_of(R"({"a":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}", 0));
    EXPECT_THROW(SafetensorsFile(folder / "x"), DataError);
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    for (const std::string& header : {entry("U8", deep, "[0,1]"), entry("U8", "[1]", deep)}) {
        const std::string file = file_of(header, 1);
        EXPECT_THAT([&] { parse_safetensors(as_bytes(file)); },
                    ::testing::ThrowsMessage<DataError>(HasSubstr("at most 64 levels of JSON")));
    }
}

// Each key is compared with all before it: a million of them would take hours.
TEST(Safetensors, TooManyTensorsAreRefusedSoon) {
    std::string header = "{";
    for (int i = 0; i < 1'000'000; ++i) {
        header += fmt::format("{}\"{}\":0", i == 0 ? "" : ",", i);
    }
    const std::string file = file_of(header + "}", 0);
    EXPECT_THAT([&] { parse_safetensors(as_bytes(file)); },
                ::testing::ThrowsMessage<DataError>(HasSubstr("at most 32768 tensors")));
}

TEST(Safetensors, MessagesAreShortWhereTheFileIsNot) {
    std::string wide = "[-1";
    for (int i = 0; i < 100'000; ++i) {
        wide += ",1";
    }
    wide += ']';
    const std::string name(100'000, 'n');
    for (const std::string& header :
         {entry("U8", wide, "[0,1]"), entry(name, "[1]", "[0,2]"), entry("U8", "[1]", wide),
          R"({")" + name + R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", R"({")" + name + R"(":3})"}) {
        const std::string file = file_of(header, 1);
        try {
            parse_safetensors(as_bytes(file));
            ADD_FAILURE() << header.substr(0, 40);
        } catch (const DataError& error) {
            EXPECT_LT(std::string_view(error.what()).size(), 500u);
        }
    }
}

TEST(Safetensors, DamagedHeadersNeverLeadOutsideTheFile) {
    const TempDir folder;
    const std::string sound = file_of(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                                      R"("b":{"dtype":"I64","shape":[3],"data_offsets":[16,40]}})",
                                      40);
    for (std::uint64_t round = 0; round < 3000; ++round) {
        Rng rng({.seed = 11, .sample = round});
        std::string bytes = sound;
        const int damages = 1 + static_cast<int>(rng.below(3));
        for (int i = 0; i < damages; ++i) {
            static constexpr std::string_view kAlphabet = "0123456789[]{},:\"-.eF\\\0\xff";
            bytes[rng.below(static_cast<std::uint32_t>(bytes.size()))] =
                kAlphabet[rng.below(static_cast<std::uint32_t>(kAlphabet.size()))];
        }
        put(folder / "x", bytes);
        try {
            const SafetensorsFile file(folder / "x");
            for (const auto& [name, view] : file.tensors()) {
                std::size_t sum = 0;  // the address sanitizer finds reads outside the map
                for (std::size_t i = 0; i < view.bytes(); ++i) {
                    sum += std::to_integer<std::size_t>(view.data[i]);
                }
                EXPECT_LE(sum, 255u * 40u);
                EXPECT_LE(view.bytes(), 40u);
            }
        } catch (const DataError&) {
        }
    }
}

TEST(Safetensors, MissingFileIsAnIoError) {
    EXPECT_THROW(SafetensorsFile("/nonexistent/x.safetensors"), IoError);
}

}  // namespace
}  // namespace stoker
