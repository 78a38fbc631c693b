// Shards with known samples: grouping, image and label of a sample, the index and its cache, requests to remote shards.
#include "stoker/formats/webdataset/webdataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "formats/webdataset/tar_support.h"
#include "stoker/base/error.h"
#include "stoker/base/user_cache.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/open.h"
#include "stoker/formats/webdataset/sample_grouper.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace stoker::testing;

// Each test has its own cache folder.
class WebDatasetTest : public ::testing::Test {
  protected:
    WebDatasetTest() { ::setenv("STOKER_CACHE", (dir_ / "cache").c_str(), 1); }
    ~WebDatasetTest() override { ::unsetenv("STOKER_CACHE"); }

    std::string at(const std::string& name) const { return (dir_ / name).string(); }
    std::string write(const std::string& name, const std::string& members) const {
        write_file(dir_ / name, members + tar_end());
        return at(name);
    }
    WebDataset open(const std::string& members, const FieldNames& fields = {}) const {
        return WebDataset(write("x.tar", members), {.fields = fields});
    }
    std::string refusal(const std::string& members, const FieldNames& fields = {}) const {
        try {
            open(members, fields);
        } catch (const DataError& error) {
            return error.what();
        }
        return "opened";
    }

    TempDir dir_;
};

std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Seen {
    std::string key;
    std::string bytes;
    std::int64_t label;
    bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    return out << seen.key << ": " << seen.bytes << " of " << seen.label;
}

std::vector<Seen> all(const Dataset& dataset) {
    std::vector<Seen> seen;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        dataset.read(i, sample);
        EXPECT_EQ(dataset.label(i), sample.label);
        seen.push_back({dataset.key(i), text(sample.bytes), sample.label});
    }
    return seen;
}

std::vector<std::int64_t> labels(const Dataset& dataset) {
    std::vector<std::int64_t> labels;
    for (const Seen& seen : all(dataset)) {
        labels.push_back(seen.label);
    }
    return labels;
}

// .npy of the given shape, elements from 0 on.
std::string npy(const std::string& shape, std::size_t count, bool fortran = false, const std::string& type = "|u1") {
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", type, fortran ? "True" : "False", shape);
    header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::string file = "\x93NUMPY\x01";
    file += '\0';
    file += static_cast<char>(header.size() % 256);
    file += static_cast<char>(header.size() / 256);
    file += header;
    for (std::size_t i = 0; i < count; ++i) {
        file += static_cast<char>(i);
    }
    return file;
}

TEST_F(WebDatasetTest, SamplesAreMembersOfOneKey) {
    const auto dataset =
        open(tar_member("d/", "", {.type = '5'}) + tar_member("d/a.JPEG", "A") + tar_member("d/a.cls", "3") +
             tar_member("d/a.txt", "a cat") + tar_member("b.cls", "1\n") + tar_member("link", "", {.type = '2'}) +
             tar_member("b.png", "B") + tar_member("c.x/c.ppm", "C"));
    EXPECT_EQ(all(dataset), (std::vector<Seen>{{"d/a.JPEG", "A", 3}, {"b.png", "B", 1}, {"c.x/c.ppm", "C", -1}}));
    EXPECT_EQ(dataset.format(), "webdataset");
    EXPECT_EQ(dataset.path(), at("x.tar"));
    EXPECT_EQ(dataset.bytes(), static_cast<std::int64_t>(fs::file_size(at("x.tar"))));
    EXPECT_THAT(dataset.classes(), ElementsAre("0", "1", "2", "3"));
    EXPECT_THAT(dataset.shard_sizes(), IsEmpty());
    Sample sample;
    EXPECT_THROW(dataset.read(3, sample), InvalidArgument);
    EXPECT_THROW(dataset.key(-1), InvalidArgument);
}

TEST_F(WebDatasetTest, NamesAreSplitAtTheFirstDot) {
    const auto parts = [](std::string_view name) {
        const TarMemberNameParts found = split_tar_member_name(name);
        return fmt::format("{} | {}", found.key, found.extension);
    };
    EXPECT_EQ(parts("a/b.c/001.seg.png"), "a/b.c/001 | seg.png");
    EXPECT_EQ(parts("001.JPG"), "001 | JPG");
    EXPECT_EQ(parts("001."), "001 | ");
    for (const char* none : {"001", "a.b/001", ".jpg", "a/.jpg", "._001.jpg", "__a__/001.jpg", "__a__", ""}) {
        EXPECT_EQ(parts(none), " | ") << none;
    }
    EXPECT_EQ(parts("__a__.jpg"), "__a__ | jpg");
    EXPECT_EQ(parts("a/__b__/1.jpg"), "a/__b__/1 | jpg");
}

TEST_F(WebDatasetTest, SamplesWithoutAnImageAreLeftOut) {
    const auto dataset =
        open(tar_member("a.jpg", "A") + tar_member("README.txt", "all") + tar_member("b.cls", "1") +
             tar_member("c.left.jpg", "L") + tar_member("c.right.jpg", "R") + tar_member("e.2019.jpg", "E") +
             tar_member("f.thumb.jpg", "T") + tar_member("f.jpg", "F"));
    EXPECT_EQ(all(dataset), (std::vector<Seen>{{"a.jpg", "A", -1}, {"e.2019.jpg", "E", -1}, {"f.jpg", "F", -1}}));
    EXPECT_THAT(dataset.classes(), IsEmpty());
    EXPECT_EQ(dataset.advice(), "left out: 2 samples without one image (b, ...)");
    EXPECT_EQ(open(tar_member("a.jpg", "A") + tar_member("README.txt", "all")).advice(), "");
    EXPECT_THAT(refusal(tar_member("a.psd", "A") + tar_member("a.json", "{}") + tar_member("b.psd", "B")),
                AllOf(HasSubstr("[" + at("x.tar") + "] expected samples with an image: jpg, png"),
                      HasSubstr("got none; there are psd, json; name its extension with data.fields.image")));
    EXPECT_THAT(refusal(""), HasSubstr("no samples at all"));
}

TEST_F(WebDatasetTest, TheImageIsTheFirstOfTheUsualExtensions) {
    EXPECT_EQ(all(open(tar_member("a.npy", "N") + tar_member("a.png", "P") + tar_member("a.jpeg", "J") +
                       tar_member("b.dct", "D"))),
              (std::vector<Seen>{{"a.jpeg", "J", -1}, {"b.dct", "D", -1}}));
    const FieldNames seg = {.image = "Seg.PNG", .label = {}};
    EXPECT_EQ(all(open(tar_member("a.png", "P") + tar_member("a.seg.png", "S") + tar_member("b.png", "B"), seg)),
              (std::vector<Seen>{{"a.seg.png", "S", -1}}));
    EXPECT_THAT(refusal(tar_member("a.png", "P"), {.image = "webp", .label = {}}),
                HasSubstr("samples with the image webp, got none; there are png"));
}

TEST_F(WebDatasetTest, Labels) {
    const auto label = [&](const std::string& members, const FieldNames& fields = {}) {
        return labels(open(tar_member("a.jpg", "A") + members, fields)).front();
    };
    EXPECT_EQ(label(tar_member("a.cls", " 12\r\n")), 12);
    EXPECT_EQ(label(tar_member("a.cls", "-1")), -1);
    EXPECT_EQ(label(tar_member("a.json", R"({"a": [1], "label": 4})")), 4);
    EXPECT_EQ(label(tar_member("a.json", R"({"class_id": 5, "cls": 6})")), 6);
    EXPECT_EQ(label(tar_member("a.json", R"({"class_id": 5})")), 5);
    EXPECT_EQ(label(tar_member("a.txt", "7")), 7);
    EXPECT_EQ(label(tar_member("a.txt", "7") + tar_member("a.json", R"({"label": 8})") + tar_member("a.cls", "9")), 9);
    EXPECT_EQ(label(tar_member("a.cls", "9") + tar_member("a.json", R"({"label": 8})") + tar_member("a.txt", "7")), 9);
    // Content that need not be a label and is none.
    for (const char* json : {R"({"label": "cat"})", R"({"label": 1.5})", R"({"label": -7})", "[1]", "{", "", "NaN",
                             R"({"label": 99999999999})", R"({"label": 18446744073709551615})", R"({"label": true})"}) {
        EXPECT_EQ(label(tar_member("a.json", json) + tar_member("a.txt", "7")), 7) << json;
    }
    EXPECT_EQ(
        label(tar_member("a.txt", "a cat on a mat, which is a text of more than sixty-four bytes, as captions are")),
        -1);
    // Named by the user.
    const auto named = [](const char* name) { return FieldNames{.image = {}, .label = name}; };
    const std::string both =
        tar_member("a.json", R"({"label": 1, "coarse": 2})") + tar_member("a.cls", "3") + tar_member("a.top.txt", "4");
    EXPECT_EQ(label(both, named("json:coarse")), 2);
    EXPECT_EQ(label(both, named("coarse")), 2);
    EXPECT_EQ(label(both, named("json")), 1);
    EXPECT_EQ(label(both, named("CLS")), 3);
    EXPECT_EQ(label(both, named("top.txt")), 4);
    EXPECT_THAT(refusal(tar_member("a.jpg", "A") + both, named("fine")),
                HasSubstr("expected samples with the label fine, got none; there are jpg, json, cls, top.txt"));
}

TEST_F(WebDatasetTest, ABadLabelFailsItsSampleOnly) {
    const auto check = [&](const std::string& member, const FieldNames& fields) {
        const auto dataset = open(tar_member("a.jpg", "A") + tar_member("a.cls", "1") + tar_member("b.jpg", "B") +
                                      member + tar_member("c.jpg", "C") + tar_member("c.cls", "0"),
                                  fields);
        Sample sample;
        dataset.read(0, sample);
        dataset.read(2, sample);
        EXPECT_EQ(dataset.label(1), std::nullopt);
        try {
            dataset.read(1, sample);
            ADD_FAILURE() << "read";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().key, "b.jpg");
            EXPECT_THAT(error.what(), HasSubstr("a class index of 0 to 16777215 as label"));
        }
    };
    for (const char* bad : {"", "cat", "1.0", "1 2", "-2", "16777216", "99999999999999999999", "0x1", "+1"}) {
        check(tar_member("b.cls", bad), {});
    }
    check(tar_member("b.cls", std::string(100, '1')), {});
    check(tar_member("b.json", "{") + tar_member("b.cls", "1"), {.image = {}, .label = "json"});
    check(tar_member("b.json", R"({"x": "1"})"), {.image = {}, .label = "json:x"});
}

TEST_F(WebDatasetTest, Arrays) {
    const auto dataset = open(tar_member("a.npy", npy("2, 3, 3", 18)) + tar_member("a.cls", "1") +
                              tar_member("b.npy", npy("3, 2, 5", 30)) + tar_member("c.npy", npy("2, 3", 6, true)) +
                              tar_member("e.npy", npy("1, 5, 6", 30)) + tar_member("f.npy", npy("2, 3", 3)) +
                              tar_member("g.npy", npy("2, 3", 48, false, "<i8")) + tar_member("h.jpg", "H"));
    Sample sample;
    const auto pixels = [&](std::int64_t index) {
        dataset.read(index, sample);
        EXPECT_FALSE(sample.encoded);
        std::vector<int> values;
        for (const std::byte byte : sample.bytes) {
            values.push_back(std::to_integer<int>(byte));
        }
        EXPECT_EQ(values.size(), static_cast<std::size_t>(sample.height * sample.width * sample.channels));
        return values;
    };
    EXPECT_EQ(dataset.key(0), "a");
    EXPECT_EQ(pixels(0).back(), 17);
    EXPECT_EQ(sample.label, 1);
    EXPECT_EQ(sample.channels, 3);
    const auto planes = pixels(1);
    EXPECT_EQ((std::vector{sample.height, sample.width, sample.channels}), (std::vector{2, 5, 3}));
    EXPECT_THAT(std::vector(planes.begin(), planes.begin() + 4), ElementsAre(0, 10, 20, 1));
    EXPECT_THAT(pixels(2), ElementsAre(0, 2, 4, 1, 3, 5));
    EXPECT_EQ(pixels(3).back(), 29);
    EXPECT_EQ((std::vector{sample.height, sample.width, sample.channels}), (std::vector{5, 6, 1}));
    for (const std::int64_t bad : {4, 5}) {
        try {
            dataset.read(bad, sample);
            ADD_FAILURE() << bad;
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().path, at("x.tar"));
            EXPECT_EQ(error.place().key, dataset.key(bad));
            EXPECT_TRUE(error.place().offset);
        }
    }
    dataset.read(6, sample);
    EXPECT_TRUE(sample.encoded);
    EXPECT_EQ(sample.height, 0);
}

TEST_F(WebDatasetTest, MembersOfASampleMustBeConsecutive) {
    EXPECT_THAT(refusal(tar_member("a.jpg", "A") + tar_member("b.jpg", "B") + tar_member("a.cls", "1")),
                AllOf(HasSubstr("x.tar: a.cls @ byte 2048] expected consecutive members for each sample"),
                      HasSubstr("sort the files by name")));
    EXPECT_THAT(refusal(tar_member("a.jpg", "A") + tar_member("a.JPG", "A")), HasSubstr("\"jpg\" twice"));
    // The same key in another shard is another sample.
    write("s-0.tar", tar_member("a.jpg", "0"));
    write("s-1.tar", tar_member("a.jpg", "1"));
    EXPECT_EQ(all(WebDataset(at("s-{0..1}.tar"))), (std::vector<Seen>{{"a.jpg", "0", -1}, {"a.jpg", "1", -1}}));
}

TEST_F(WebDatasetTest, EverySpecification) {
    for (int i = 0; i < 12; ++i) {
        write(fmt::format("s-{:02}.tar", i),
              i == 5 ? tar_member("only.txt", "5") : tar_member(fmt::format("{}.png", i), fmt::to_string(i)));
    }
    const auto keys = [&](const std::string& spec) {
        const auto dataset = open_dataset(spec, Split::train);
        EXPECT_EQ(dataset->format(), "webdataset");
        std::string listed;
        for (const Seen& seen : all(*dataset)) {
            listed += seen.key.substr(0, seen.key.find('.')) + " ";
        }
        return listed;
    };
    EXPECT_EQ(keys(at("s-03.tar")), "3 ");
    EXPECT_EQ(keys(at("s-{00..11}.tar")), "0 1 2 3 4 6 7 8 9 10 11 ");
    EXPECT_EQ(keys(at("s-{11,02}.tar")), "11 2 ");
    EXPECT_EQ(keys(at("s-*.tar")), "0 1 2 3 4 6 7 8 9 10 11 ");
    EXPECT_EQ(keys(at("s-1?.tar")), "10 11 ");
    EXPECT_EQ(keys(dir_.path().string()), "0 1 2 3 4 6 7 8 9 10 11 ");
    EXPECT_FALSE(has_splits(at("s-{00..11}.tar")));
    EXPECT_THROW(open_dataset(at("s-{00..12}.tar"), Split::train), IoError);
    EXPECT_THROW(open_dataset(at("s-{11..00}.tar"), Split::train), InvalidArgument);
    EXPECT_THROW(open_dataset(at("t-*.tar"), Split::train), IoError);
    write_file(dir_ / "z.tar.gz", std::string_view("\x1f\x8b\x08 and so on"));
    EXPECT_THROW(open_dataset(at("z.tar.gz"), Split::train), Unsupported);
}

TEST_F(WebDatasetTest, ClassNames) {
    const auto classes = [&](const std::string& shard) {
        const WebDataset dataset(write(shard, tar_member("a.png", "A") + tar_member("a.cls", "1")));
        return std::vector<std::string>(dataset.classes().begin(), dataset.classes().end());
    };
    EXPECT_THAT(classes("train-000000.tar"), ElementsAre("0", "1"));
    write_file(dir_ / "classes.txt", std::string_view("tench\r\ngold fish\nshark\n\n"));
    EXPECT_THAT(classes("train-000000.tar"), ElementsAre("tench", "gold fish", "shark"));
    write_file(dir_ / "train-classes.txt", std::string_view("cat\ndog"));
    EXPECT_THAT(classes("train-000000.tar"), ElementsAre("cat", "dog"));
    EXPECT_THAT(classes("train.tar"), ElementsAre("cat", "dog"));
    EXPECT_THAT(classes("train_7.tar"), ElementsAre("cat", "dog"));
    EXPECT_THAT(classes("00001.tar"), ElementsAre("tench", "gold fish", "shark"));
    write_file(dir_ / "train-classes.txt", std::string_view("cat\n"));
    EXPECT_THROW(classes("train.tar"), DataError);
    write_file(dir_ / "train-classes.txt", std::string_view("cat\n\ndog\n"));
    EXPECT_THROW(classes("train.tar"), DataError);
    EXPECT_THAT(
        class_name_files("d/e/imagenet-train-000123.tar"),
        ElementsAre("d/e/imagenet-train-000123-classes.txt", "d/e/imagenet-train-classes.txt", "d/e/classes.txt"));
    EXPECT_THAT(class_name_files("imagenet2012.tar"),
                ElementsAre("imagenet2012-classes.txt", "imagenet-classes.txt", "classes.txt"));
    EXPECT_THAT(class_name_files("x--000000.tar"),
                ElementsAre("x--000000-classes.txt", "x--classes.txt", "x-classes.txt", "classes.txt"));
    EXPECT_THAT(class_name_files("2012.tar"), ElementsAre("2012-classes.txt", "classes.txt"));
}

TEST_F(WebDatasetTest, ClassNamesThatTakeTooMuchMemoryAreRefused) {
    std::string lines;
    for (int i = 0; i < 3'000'000; ++i) {
        lines += "c\n";
    }
    write_file(dir_ / "classes.txt", lines);
    const std::string shard = write("x.tar", tar_member("a.png", "A") + tar_member("a.cls", "1"));
    EXPECT_EQ(WebDataset(shard).classes().size(), 3'000'000U);
    const MemoryRoom room(60 * kMiB);
    EXPECT_THROW(WebDataset{shard}, MemoryError);
}

// A single large label does not create millions of class names.
TEST_F(WebDatasetTest, LargeLabels) {
    const auto dataset = open(tar_member("a.png", "A") + tar_member("a.cls", "16777215"));
    EXPECT_EQ(dataset.label(0), 16777215);
    EXPECT_THAT(dataset.classes(), IsEmpty());
}

// The index comes from the cache while shard and fields are unchanged, and is rebuilt otherwise.
TEST_F(WebDatasetTest, IndexIsCached) {
    const std::string members = tar_member("a.png", "A") + tar_member("a.cls", "1") + tar_member("b.jpg", "B");
    MemoryFile::Log log;
    const auto reads = [&](const std::string& stamp, const FieldNames& fields = {}) {
        log = {};
        const WebDataset dataset("x", {"https://h/x.tar"}, fields, [&](const std::string& name) {
            return std::make_unique<MemoryFile>(name, members + tar_end(), &log, stamp);
        });
        EXPECT_EQ(dataset.key(0), "a.png");
        return log.reads.size();
    };
    EXPECT_GT(reads("1"), 0u);
    EXPECT_EQ(reads("1"), 0u);
    EXPECT_GT(reads("2"), 0u);
    EXPECT_GT(reads("2", {.image = "png", .label = {}}), 0u);
    EXPECT_EQ(reads("2"), 0u);
    EXPECT_GT(reads(""), 0u);  // as from a server that sends no version: nothing is cached
    EXPECT_GT(reads(""), 0u);

    // An index that does not fit the shard, or is damaged, is ignored.
    for (const bool cut : {false, true}) {
        auto kept = read_user_cache("tar_index", "https://h/x.tar", "2");
        ASSERT_TRUE(kept);
        const auto bytes = kept->bytes();
        EXPECT_FALSE(TarIndex::parse(std::move(*read_user_cache("tar_index", "https://h/x.tar", "2")), 1024));
        bytes[44] = std::byte{0x7f};  // in the first offset
        ASSERT_TRUE(write_user_cache("tar_index", "https://h/x.tar", "2", cut ? bytes.first(50) : bytes));
        EXPECT_GT(reads("2"), 0u);
        EXPECT_EQ(reads("2"), 0u);
    }
    ::setenv("STOKER_CACHE", "/dev/null/nowhere", 1);  // a cache that cannot be written to
    EXPECT_GT(reads("3"), 0u);
    EXPECT_GT(reads("3"), 0u);
}

TEST_F(WebDatasetTest, DamagedIndices) {
    open(tar_member("a.png", "A") + tar_member("b.jpg", "BB"));
    const MemoryFile shard("m.tar", tar_member("a.png", "A") + tar_member("b.jpg", "BB") + tar_end());
    const TarIndex index = make_tar_index(shard, {});
    std::mt19937 random(3);
    int good = 0;
    for (int round = 0; round < 3000; ++round) {
        Buffer bytes(index.bytes().size());
        std::ranges::copy(index.bytes(), bytes.data());
        bytes.data()[random() % bytes.size()] = static_cast<std::byte>(random());
        const auto parsed = TarIndex::parse(std::move(bytes), shard.size());
        good += parsed.has_value();
        for (std::int64_t i = 0; parsed && i < parsed->size(); ++i) {
            EXPECT_LE((*parsed)[i].offset + (*parsed)[i].size, shard.size());
            EXPECT_LE(parsed->key(i).size(), 10u);
        }
    }
    EXPECT_GT(good, 100);
    EXPECT_LT(good, 2900);
}

TEST_F(WebDatasetTest, ManyShardsFewDescriptors) {
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) {
        names.push_back(write(fmt::format("s-{:02}.tar", i), tar_member("a.png", fmt::format("image {}", i))));
    }
    std::atomic<int> open = 0;
    struct Counted final : ByteFile {
        Counted(std::unique_ptr<ByteFile> from, std::atomic<int>& count) : file(std::move(from)), number(count) {
            ++number;
        }
        ~Counted() override { --number; }
        std::uint64_t size() const override { return file->size(); }
        void read(std::uint64_t offset, std::span<std::byte> out) const override { file->read(offset, out); }
        const std::string& name() const override { return file->name(); }
        std::string stamp() const override { return file->stamp(); }
        std::unique_ptr<ByteFile> file;
        std::atomic<int>& number;
    };
    const WebDataset dataset(
        "s", names, {}, [&](const std::string& name) { return std::make_unique<Counted>(open_byte_file(name), open); },
        4);
    EXPECT_LE(open, 4);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            Sample sample;
            for (int i = 0; i < 400; ++i) {
                const int index = (i * 7 + t * 11) % 40;
                dataset.read(index, sample);
                EXPECT_EQ(text(sample.bytes), fmt::format("image {}", index));
                EXPECT_LE(open, 4 + 2 * 4);  // plus those that threads are using
            }
        });
    }
    threads.clear();
    EXPECT_LE(open, 4);

    // A shard that has changed is detected when it is opened again.
    write("s-07.tar", tar_member("a.png", "another image of another size") + tar_member("b.png", "b"));
    Sample sample;
    for (int i = 20; i < 30; ++i) {
        dataset.read(i, sample);
    }
    try {
        dataset.read(7, sample);
        ADD_FAILURE();
    } catch (const IoError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(names[7]), HasSubstr("another process has changed it")));
    }
    fs::remove(names[8]);
    EXPECT_THROW(dataset.read(8, sample), IoError);
}

TEST_F(WebDatasetTest, RemoteShards) {
    std::map<std::string, std::string> shards;
    std::vector<std::string> names;
    for (int s = 0; s < 3; ++s) {
        std::string members;
        for (int i = 0; i < 5 && s != 1; ++i) {
            members += tar_member(fmt::format("{}-{}.png", s, i),
                                  std::string(static_cast<std::size_t>(i == 3 ? 100'000 : 1000), 'x'));
        }
        names.push_back(fmt::format("s3://bucket/s-{}.tar", s));
        shards[names.back()] = members + tar_end();
    }
    std::map<std::string, MemoryFile::Log> logs;
    for (const std::string& name : names) {
        logs[name];
    }
    const WebDataset dataset("s3://bucket/s-{0..2}.tar", names, {}, [&](const std::string& name) {
        return std::make_unique<MemoryFile>(name, shards.at(name), &logs.at(name));
    });
    EXPECT_EQ(dataset.size(), 10);
    EXPECT_THAT(dataset.shard_sizes(), ElementsAre(5, 5));
    for (auto& [name, log] : logs) {
        log = {};
    }
    // Neighbours, in any order, form one range; the fourth image lies between the third and the fifth.
    dataset.prefetch(std::vector<std::int64_t>{7, 0, 2, 1, 4, 9, 0});
    EXPECT_THAT(logs[names[0]].wanted,
                ElementsAre(ByteRange{512, 2 * 1536 + 1000}, ByteRange{3 * 1536 + 1024 + 100'352, 1000}));
    EXPECT_THAT(logs[names[1]].wanted, IsEmpty());
    EXPECT_THAT(logs[names[2]].wanted,
                ElementsAre(ByteRange{2 * 1536 + 512, 1000}, ByteRange{3 * 1536 + 1024 + 100'352, 1000}));
    // One read per sample, of the image only.
    Sample sample;
    dataset.read(3, sample);
    EXPECT_THAT(logs[names[0]].reads, ElementsAre(ByteRange{3 * 1536 + 512, 100'000}));
    dataset.prefetch({});
    EXPECT_THROW(dataset.prefetch(std::vector<std::int64_t>{10}), InvalidArgument);
}

}  // namespace
}  // namespace stoker
