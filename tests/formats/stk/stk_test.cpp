// The stk format: data is read back as written, as views into the map; an interrupted writer is resumed.
// stk_damage_test.cpp covers damaged and hostile bytes.
#include "stoker/formats/stk/stk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>

#include "formats/stk/stk_support.h"
#include "stoker/base/error.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "support/page_cache.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

template <typename Kind, typename Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const Kind& error) {
        return error.what();
    }
    return "nothing thrown";
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
        names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
}

TEST(Stk, EveryKindOfFieldIsReadBack) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 50, 3000);
    const StkReader reader(dir / "x.stk");
    ASSERT_EQ(reader.size(), 50);
    EXPECT_GT(reader.shards().size(), 3u);
    EXPECT_EQ(reader.schema(), every_kind());
    const std::size_t image = reader.field("image", StkKind::image);
    const std::size_t boxes = reader.field("boxes", StkKind::tensor);
    for (std::int64_t i = 0; i < reader.size(); ++i) {
        const StkSample sample(i);
        const auto& expected = std::get<StkImage>(sample.values[0]);
        const StkImage found = reader.image(image, i);
        EXPECT_EQ(reader.key(i), sample.key);
        EXPECT_EQ(text_of(found.bytes), sample.image);
        EXPECT_EQ(found.codec, expected.codec);
        EXPECT_EQ(found.original_file, expected.original_file);
        EXPECT_EQ((std::array{found.height, found.width, found.channels}),
                  (std::array{expected.height, expected.width, expected.channels}));
        EXPECT_EQ(reader.integer(reader.field("label", StkKind::label), i), std::get<std::int64_t>(sample.values[1]));
        EXPECT_EQ(reader.integer(reader.field("id", StkKind::integer), i), std::get<std::int64_t>(sample.values[2]));
        EXPECT_EQ(reader.number(reader.field("weight", StkKind::number), i), std::get<double>(sample.values[3]));
        EXPECT_EQ(text_of(reader.bytes(reader.field("caption", StkKind::bytes), i)), sample.caption);
        const TensorView tensor = reader.tensor(boxes, i);
        EXPECT_EQ(tensor.shape, (Shape{i % 3, 4}));
        EXPECT_TRUE(std::ranges::equal(tensor.as<float>(), sample.boxes));
        EXPECT_NO_THROW(reader.verify(i));
    }
}

TEST(StkDataset, ReadsTheFieldsThatAreAskedFor) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 20, 3000);
    EXPECT_TRUE(StkDataset(dir / "x.stk").fields().empty());
    const StkDataset dataset(dir / "x.stk", {{.name = "id"},
                                             {.name = "weight"},
                                             {.name = "caption", .kind = FieldKind::bytes},
                                             {.name = "marks", .from = "boxes", .kind = FieldKind::boxes},
                                             {.name = "pair", .from = "image", .kind = FieldKind::image}});
    const std::vector<Field> expected = {
        {.name = "id", .dtype = DType::int64},
        {.name = "weight", .dtype = DType::float64},
        {.name = "caption", .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}},
        {.name = "marks", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {-1, 4}},
        {.name = "pair", .kind = FieldKind::image, .dtype = DType::uint8}};
    EXPECT_TRUE(std::ranges::equal(dataset.fields(), expected));
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        dataset.read(i, sample);
        const StkSample written(i);
        EXPECT_TRUE(std::ranges::equal(sample.fields[0].bytes, bytes_of(std::get<std::int64_t>(written.values[2]))));
        EXPECT_TRUE(std::ranges::equal(sample.fields[1].bytes, bytes_of(std::get<double>(written.values[3]))));
        EXPECT_EQ(text_of(sample.fields[2].bytes), written.caption);
        EXPECT_TRUE(std::ranges::equal(sample.fields[3].bytes, std::as_bytes(std::span(written.boxes))));
        EXPECT_TRUE(std::ranges::equal(sample.fields[4].bytes, sample.bytes));
        EXPECT_EQ(sample.fields[4].encoded, sample.encoded);
        EXPECT_EQ(sample.fields[4].height, sample.height);
    }
    EXPECT_THAT(error_of<DataError>([&] { StkDataset(dir / "x.stk", {{.name = "colour"}}); }),
                HasSubstr("a field colour"));
}

TEST(Stk, PayloadsAreAlignedAndFollowedByReadableBytes) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 20, 1 << 20);
    const StkShard shard(dir / "x.stk/shard-000000.stk");
    const auto* begin = shard.image(0, 0).bytes.data() - sizeof(StkHeader);
    for (std::int64_t i = 0; i < shard.samples(); ++i) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shard.image(0, i).bytes.data()) % 64, 0u);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shard.tensor(5, i).data) % 64, 0u);
        const auto bytes = shard.bytes(4, i);
        EXPECT_LE(bytes.data() + bytes.size() + 128, begin + shard.bytes());
    }
}

TEST(Stk, AsADataset) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 30, 2000);
    const auto dataset = open_dataset((dir / "x.stk/").string(), Split::test);
    EXPECT_EQ(dataset->format(), "stk");
    EXPECT_EQ(dataset->size(), 30);
    EXPECT_TRUE(std::ranges::equal(dataset->classes(), kClasses));
    EXPECT_FALSE(has_splits((dir / "x.stk").string()));
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(dir / "x.stk")) {
        bytes += entry.file_size();
    }
    EXPECT_EQ(dataset->bytes(), static_cast<std::int64_t>(bytes));

    Sample sample;
    const std::byte* before = nullptr;
    for (std::int64_t i = 0; i < 30; ++i) {
        dataset->read(i, sample);
        const StkSample expected(i);
        EXPECT_EQ(text_of(sample.bytes), expected.image);
        EXPECT_EQ(dataset->key(i), expected.key);
        EXPECT_EQ(sample.label, std::get<std::int64_t>(expected.values[1]));
        EXPECT_EQ(sample.encoded, i % 4 != 3);
        EXPECT_EQ(sample.height, i % 4 == 3 ? 2 : 0);
        EXPECT_EQ(sample.storage.capacity(), 0u);  // small ones are views into the map
        EXPECT_NE(sample.bytes.data(), before);
        before = sample.bytes.data();
    }
    const auto& stk = dynamic_cast<const StkDataset&>(*dataset);
    EXPECT_THAT(stk.codecs(), ElementsAre(Pair("jpeg", 23), Pair("raw", 7)));
    EXPECT_THAT(error_of<InvalidArgument>([&] { dataset->read(30, sample); }), HasSubstr("an index below 30"));
    EXPECT_THAT(error_of<InvalidArgument>([&] { dataset->key(-1); }), HasSubstr("an index below 30"));
}

// A data set may have more shards than the process may open files, and leaves descriptors for others.
TEST(Stk, HasMoreShardsThanAProcessMayOpenFiles) {
    const TempDir dir;
    constexpr std::int64_t kShards = 100;
    const auto content = [](std::int64_t i) { return random_bytes(20000, static_cast<std::uint32_t>(i)); };
    {
        StkWriter writer(dir / "x.stk", {{{.name = "i", .kind = StkKind::image}}}, {.shard_size = 1});
        for (std::int64_t i = 0; i < kShards; ++i) {
            const std::string bytes = content(i);
            const StkValue value = StkImage{.bytes = as_bytes(bytes), .codec = StkCodec::png};
            writer.add(fmt::format("{}", i), std::span(&value, 1));
        }
        writer.finish("{}");
    }
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit tight{64, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    try {
        const StkDataset train(dir / "x.stk");
        const StkDataset val(dir / "x.stk");
        EXPECT_EQ(train.reader().shards().size(), static_cast<std::size_t>(kShards));
        Sample sample;
        for (std::int64_t i = 0; i < kShards; ++i) {
            for (const StkDataset* dataset : {&train, &val}) {
                dataset->read(i, sample);
                EXPECT_EQ(text_of(sample.bytes), content(i));
            }
        }
        EXPECT_NO_THROW(read_text(dir / "x.stk/stk.json"));
    } catch (const IoError& error) {
        ADD_FAILURE() << error.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Stk, PayloadsInMemoryAreViewsLargeOnesElsewhereAreRead) {
    const TempDir dir;
    StkWriter writer(dir / "x.stk", {{{.name = "i", .kind = StkKind::image}}});
    const std::vector<std::string> contents = {random_bytes(200, 1), random_bytes(5'000'000, 2)};
    for (const std::string& bytes : contents) {
        const StkValue value = StkImage{.bytes = as_bytes(bytes), .codec = StkCodec::png};
        writer.add(fmt::format("{}", bytes.size()), std::span(&value, 1));
    }
    writer.finish("{}");
    const fs::path shard = dir / "x.stk" / stk_shard_name(0);
    const auto is_copy = [&](const StkDataset& dataset, std::int64_t i) {
        Sample sample;
        dataset.read(i, sample);
        EXPECT_EQ(text_of(sample.bytes), contents[static_cast<std::size_t>(i)]);
        return sample.bytes.data() == sample.storage.data();
    };
    const auto open = [&] {
        return [&, dataset = std::make_shared<StkDataset>(dir / "x.stk")] { return is_copy(*dataset, 1); };
    };
    const std::size_t begin = read_text(shard).find(contents[1]);  // a busy system may keep these pages and drop others
    ASSERT_NE(begin, std::string::npos);
    const auto seen = testing::read_cold_and_warm(shard, begin, contents[1].size(), open);
    EXPECT_EQ(seen.copied_cold, seen.was_cold);
    EXPECT_TRUE(seen.viewed_warm);
    drop_from_cache(shard);
    EXPECT_FALSE(is_copy(StkDataset(dir / "x.stk"), 0)) << "small payloads are always views";
}

// Raw pixels of one size have a constant distance; one image of another size breaks it.
TEST(Stk, ImagesOfOneSizeAreFoundWithoutTheIndex) {
    const TempDir dir;
    for (const int outlier : {-1, 0, 3, 6}) {
        const auto height = [&](int i) { return i == outlier ? 9 : 5; };
        const fs::path path = dir / fmt::format("{}.stk", outlier);
        StkWriter writer(path, {{{.name = "i", .kind = StkKind::image}, {.name = "b", .kind = StkKind::bytes}}});
        const auto content = [&](int i) {
            return random_bytes(static_cast<std::size_t>(height(i) * 7), 10U + static_cast<unsigned>(i));
        };
        for (int i = 0; i < 7; ++i) {
            const std::string bytes = content(i);
            const StkValue values[] = {
                StkImage{
                    .bytes = as_bytes(bytes), .codec = StkCodec::raw, .height = height(i), .width = 7, .channels = 1},
                as_bytes("abc")};
            writer.add(fmt::format("{}", i), values);
        }
        writer.finish("{}");
        const StkReader reader(path);
        for (int i = 0; i < 7; ++i) {
            const StkImage image = reader.image(0, i);
            EXPECT_EQ(text_of(image.bytes), content(i)) << "image " << i << ", another size at " << outlier;
            EXPECT_EQ(image.height, height(i));
            EXPECT_NO_THROW(reader.verify(i));
        }
    }
}

TEST(Stk, ADatasetNeedsNeitherImageNorLabel) {
    const TempDir dir;
    const auto write = [&](const char* name, StkSchema schema, StkValue value) {
        StkWriter writer(dir / name, std::move(schema));
        writer.add("k", std::span(&value, 1));
        writer.finish("{}");
    };
    write("n.stk", {{{.name = "n", .kind = StkKind::number}}}, 1.5);
    const StkDataset numbers(dir / "n.stk", {{.name = "n"}});
    EXPECT_FALSE(numbers.has_image());
    EXPECT_THROW(numbers.image(0), InvalidArgument);
    Sample number;
    numbers.read(0, number);
    EXPECT_TRUE(number.bytes.empty());
    EXPECT_EQ(number.fields[0].bytes.size(), sizeof(double));
    EXPECT_EQ(StkReader(dir / "n.stk").number(0, 0), 1.5);
    write("i.stk", {{{.name = "i", .kind = StkKind::image}}}, StkImage{.bytes = as_bytes("x"), .codec = StkCodec::png});
    const StkDataset dataset(dir / "i.stk");
    Sample sample;
    sample.label = 7;
    dataset.read(0, sample);
    EXPECT_EQ(sample.label, -1);
    EXPECT_TRUE(dataset.classes().empty());
}

TEST(Stk, FieldsAreFoundByNameAndKind) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 3, 1 << 20);
    const StkReader reader(dir / "x.stk");
    EXPECT_THAT(error_of<InvalidArgument>([&] { reader.field("absent", StkKind::bytes); }),
                HasSubstr("a field absent of kind bytes, got none"));
    EXPECT_THAT(error_of<InvalidArgument>([&] { reader.field("id", StkKind::bytes); }), HasSubstr("got int"));
    EXPECT_THAT(error_of<InvalidArgument>([&] { reader.bytes(0, 0); }), HasSubstr("a field of kind bytes"));
    EXPECT_THAT(error_of<InvalidArgument>([&] { reader.number(9, 0); }), HasSubstr("a field of kind float"));
}

TEST(Stk, TheWriterRefusesValuesThatDoNotFit) {
    const TempDir dir;
    StkWriter writer(dir / "x.stk", every_kind());
    const auto refuse = [&](std::size_t field, StkValue value, const char* expected) {
        StkSample sample(3);
        sample.values[field] = std::move(value);
        EXPECT_THAT(error_of<InvalidArgument>([&] { writer.add("k", sample.values); }), HasSubstr(expected));
    };
    const std::string six(6, 'x');
    float tensor[4] = {};
    auto* data = reinterpret_cast<std::byte*>(tensor);
    refuse(0, 1.0, "an image");
    refuse(0, StkImage{.bytes = as_bytes(six), .codec = StkCodec::raw}, "the shape of raw pixels");
    refuse(0, StkImage{.bytes = as_bytes(six), .height = 1, .width = 1, .channels = 5}, "1 to 4 channels");
    refuse(0, StkImage{.bytes = as_bytes(six), .height = 2, .width = 2, .channels = 1}, "2 x 2 x 1 bytes, got 6");
    refuse(0, StkImage{.bytes = as_bytes(six), .codec = StkCodec::png, .height = 2}, "no shape");
    refuse(1, std::int64_t{3}, "a label of -1 to 2");
    refuse(1, std::int64_t{-2}, "a label of -1 to 2");
    refuse(2, 1.0, "an int64");
    refuse(3, std::int64_t{1}, "a double");
    refuse(4, std::int64_t{1}, "bytes");
    refuse(5, TensorView{data, DType::float32, {4}}, "float32 of rank 2, got float32 of rank 1");
    refuse(5, TensorView{data, DType::int32, {2, 2}}, "float32 of rank 2, got int32");
    EXPECT_THROW(writer.add("k", {}), InvalidArgument);
    EXPECT_THROW(writer.add(std::string(70'000, 'k'), StkSample(0).values), InvalidArgument);
    EXPECT_EQ(writer.samples(), 0u);
    EXPECT_THAT(error_of<InvalidArgument>([&] { writer.finish("{}"); }), HasSubstr("at least one sample"));
}

TEST(Stk, BadSchemasAreRefused) {
    const TempDir dir;
    const auto refuse = [&](StkSchema schema) {
        EXPECT_THROW(StkWriter(dir / "x.stk", std::move(schema)), InvalidArgument);
    };
    refuse({});
    refuse({{{.name = "", .kind = StkKind::bytes}}});
    refuse({{{.name = "a", .kind = StkKind::bytes}, {.name = "a", .kind = StkKind::image}}});
    refuse({{{.name = "t", .kind = StkKind::tensor, .rank = 17}}});
    EXPECT_FALSE(fs::exists(dir / "x.stk"));
}

// ---- Resuming ----

TEST(StkWriter, ResumesAfterTheLastFinishedShard) {
    const TempDir dir;
    write_every_kind(dir / "whole.stk", 50, 3000);
    std::uint64_t kept = 0;
    {
        StkWriter writer(dir / "x.stk", every_kind(), {.shard_size = 3000, .origin = R"({"a": 1})"});
        for (std::int64_t i = 0; i < 30; ++i) {
            const StkSample sample(i);
            if (writer.closes_shard(sample.values)) {
                writer.close_shard(fmt::format(R"({{"before": {}}})", i));
            }
            writer.add(sample.key, sample.values);
        }
        kept = writer.manifest().samples();
        ASSERT_TRUE(kept > 0 && kept < 30);
    }  // destroyed: the open shard is removed
    EXPECT_THAT(error_of<DataError>([&] { StkReader(dir / "x.stk"); }),
                AllOf(HasSubstr("an unfinished packing"), HasSubstr("stoker pack")));
    std::ofstream(dir / "x.stk/shard-000077.stk") << "a shard without a line";
    std::ofstream(dir / "x.stk/shard-000002.stk.tmp-1") << "left by a killed writer";

    StkWriter writer(dir / "x.stk", every_kind(), {.shard_size = 3000, .origin = R"({ "a":1 })"});
    EXPECT_EQ(writer.samples(), kept);
    EXPECT_EQ(writer.manifest().notes.front(), fmt::format(R"({{"before":{}}})", writer.manifest().shards[0].samples));
    for (auto i = static_cast<std::int64_t>(kept); i < 50; ++i) {
        const StkSample sample(i);
        writer.add(sample.key, sample.values);
    }
    writer.finish("{}");
    ASSERT_EQ(names_in(dir / "x.stk"), names_in(dir / "whole.stk"));
    for (const std::string& name : names_in(dir / "whole.stk")) {
        EXPECT_EQ(read_text(dir / "x.stk" / name), read_text(dir / "whole.stk" / name)) << name;
    }
}

TEST(StkWriter, KeepShardsRemovesTheOthers) {
    const TempDir dir;
    {
        StkWriter writer(dir / "x.stk", every_kind(), {.shard_size = 1000});
        for (std::int64_t i = 0; i < 20; ++i) {
            const StkSample sample(i);
            writer.add(sample.key, sample.values);
        }
    }
    StkWriter writer(dir / "x.stk", every_kind(), {.shard_size = 1000});
    ASSERT_GT(writer.manifest().shards.size(), 2u);
    writer.keep_shards(1);
    EXPECT_THAT(names_in(dir / "x.stk"), ElementsAre("shard-000000.stk", "stk.part.json"));
    EXPECT_EQ(writer.samples(), writer.manifest().shards[0].samples);
}

TEST(StkWriter, RefusesOtherFolders) {
    const TempDir dir;
    fs::create_directories(dir / "full");
    std::ofstream(dir / "full/mine.txt") << "mine";
    EXPECT_THAT(error_of<IoError>([&] { StkWriter(dir / "full", every_kind()); }), HasSubstr("one with files in it"));
    std::ofstream(dir / "file") << "mine";
    EXPECT_THROW(StkWriter(dir / "file", every_kind()), IoError);
    EXPECT_THROW(StkWriter(dir / "file/below", every_kind()), IoError);

    write_every_kind(dir / "x.stk", 3, 1 << 20);
    EXPECT_THAT(error_of<IoError>([&] { StkWriter(dir / "x.stk", every_kind()); }), HasSubstr("one with files in it"));

    const StkWriter writer(dir / "y.stk", every_kind(), {.origin = R"({"codec":"keep"})"});
    EXPECT_THAT(error_of<IoError>([&] { StkWriter(dir / "y.stk", every_kind()); }),
                HasSubstr("one that another process is writing"));
}

TEST(StkWriter, RefusesToResumeWithOtherOptions) {
    const TempDir dir;
    {
        StkWriter writer(dir / "y.stk", every_kind(), {.shard_size = 3000, .origin = R"({"codec":"keep"})"});
        for (std::int64_t i = 0; i < 20; ++i) {
            const StkSample sample(i);
            writer.add(sample.key, sample.values);
        }
    }
    EXPECT_THAT(
        error_of<InvalidArgument>([&] { StkWriter(dir / "y.stk", every_kind(), {.origin = R"({"codec":"raw"})"}); }),
        AllOf(HasSubstr(R"({"codec":"keep"}, got {"codec":"raw"})"), HasSubstr("repeat that command")));
    { const StkWriter writer(dir / "empty.stk", every_kind(), {.origin = R"({"codec":"keep"})"}); }
    { const StkWriter writer(dir / "empty.stk", every_kind(), {.origin = R"({"codec":"raw"})"}); }
    EXPECT_THAT(read_manifest(dir / "empty.stk/stk.part.json").origin, HasSubstr("raw")) << "nothing was kept";
}

}  // namespace
}  // namespace stoker
