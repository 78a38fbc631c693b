// TFRecord shards with known samples: image, label and fields, the index and its cache, compressed, remote and damaged
// shards. The files that TensorFlow wrote are read by tests/python/test_format_tfrecord.py.
#include "stoker/formats/tfrecord/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "formats/field_value_support.h"
#include "formats/counting_file.h"
#include "formats/tfrecord/tfrecord_support.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/io/gzip.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace stoker::testing;

std::string text(std::span<const std::byte> bytes) {
    return std::string(as_text(bytes));
}

std::string gzipped(const std::string& plain) {
    const std::span<const std::byte> pieces[] = {as_bytes(plain)};
    return text(gzip(pieces).bytes());
}

// Each test has its own cache folder.
class TfRecordTest : public ::testing::Test {
  protected:
    TfRecordTest() { ::setenv("STOKER_CACHE", (dir_ / "cache").c_str(), 1); }
    ~TfRecordTest() override { ::unsetenv("STOKER_CACHE"); }

    std::string write(const std::string& name, const std::string& records) const {
        fs::create_directories((dir_ / name).parent_path());
        write_file(dir_ / name, records);
        return (dir_ / name).string();
    }
    TfRecordDataset open(const std::string& records, const FieldNames& fields = {}) const {
        return TfRecordDataset(write("x.tfrecord", records), Split::train, {.fields = fields});
    }
    // A shard of one Example with an image, a label and `more`.
    TfRecordDataset open_with(const TfFeatures& more, const FieldNames& fields) const {
        TfFeatures all = {{"image", tf_texts({tf_image("")})}, {"label", tf_integers({1})}};
        all.insert(all.end(), more.begin(), more.end());
        return open(tf_record(tf_example(all)), fields);
    }

    TempDir dir_;
};

struct Seen {
    std::string bytes;  // behind the image's first
    std::int64_t label;
    bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    return out << seen.bytes << " of " << seen.label;
}

std::vector<Seen> all(const Dataset& dataset) {
    std::vector<Seen> seen;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        dataset.read(i, sample);
        EXPECT_EQ(dataset.label(i), sample.label);
        EXPECT_TRUE(sample.encoded);
        seen.push_back({text(sample.bytes).substr(tf_image("").size()), sample.label});
    }
    return seen;
}

DataPlace place_of_error(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    try {
        dataset.read(index, sample);
    } catch (const DataError& error) {
        return error.place();
    }
    ADD_FAILURE() << "read";
    return {};
}

const std::string kThree = tf_record(tf_sample("A", 2)) + tf_record(tf_sample("BB", 0)) + tf_record(tf_sample("C", -1));
const std::vector<Seen> kThreeSeen = {{"A", 2}, {"BB", 0}, {"C", -1}};

TEST_F(TfRecordTest, SamplesAreRecords) {
    const auto dataset = open(kThree);
    EXPECT_EQ(all(dataset), kThreeSeen);
    EXPECT_EQ(dataset.format(), "tfrecord");
    EXPECT_EQ(dataset.bytes(), std::ssize(kThree));
    EXPECT_EQ(dataset.key(1), "x.tfrecord/1");
    EXPECT_THAT(dataset.classes(), ElementsAre("0", "1", "2"));
    EXPECT_THAT(dataset.shard_sizes(), IsEmpty());
    EXPECT_THAT(dataset.fields(), IsEmpty());
    EXPECT_EQ(dataset.advice(), "");
    Sample sample;
    EXPECT_THROW(dataset.read(3, sample), InvalidArgument);
    EXPECT_THROW(dataset.key(-1), InvalidArgument);
}

TEST_F(TfRecordTest, ShardsOfAPattern) {
    write("a/x-00000-of-00003", tf_record(tf_sample("A", 0)));
    write("a/x-00001-of-00003", "");
    write("b/x-00000-of-00003", tf_record(tf_sample("B", 1)) + tf_record(tf_sample("C", 4)));
    const TfRecordDataset dataset((dir_ / "{a,b}/x-*-of-00003").string());
    EXPECT_EQ(all(dataset), (std::vector<Seen>{{"A", 0}, {"B", 1}, {"C", 4}}));
    EXPECT_EQ(dataset.key(0), "a/x-00000-of-00003/0");
    EXPECT_EQ(dataset.key(2), "b/x-00000-of-00003/1");
    EXPECT_THROW(TfRecordDataset((dir_ / "a/x-00001-of-00003").string()), DataError);  // no records
}

TEST_F(TfRecordTest, CompressedShardsGiveTheSameSamples) {
    const auto dataset = open(gzipped(kThree));
    EXPECT_EQ(all(dataset), kThreeSeen);
    EXPECT_THAT(dataset.shard_sizes(), ElementsAre(3));
    EXPECT_EQ(dataset.advice(), "");
    const std::string first = tf_record(tf_sample("A", 2));
    EXPECT_EQ(all(open(gzipped(first) + gzipped(kThree.substr(first.size())))), kThreeSeen);  // two members
    EXPECT_THAT(open(gzipped(kThree)).classes(), SizeIs(3));
}

TEST_F(TfRecordTest, KeysOfShardsOfOneName) {
    CountingFile::Counts counts;
    const TfRecordDataset dataset(
        "https://host/x",
        {.names = {"https://host/x?part=1", "https://host/y", "https://host/x?part=2"}, .left_out = {}}, {},
        [&](const std::string& name) { return std::make_unique<CountingFile>(kThree, true, counts, name); });
    std::set<std::string> keys;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        keys.insert(dataset.key(i));
    }
    EXPECT_EQ(std::ssize(keys), dataset.size());
    EXPECT_EQ(dataset.key(3), "y/0");
}

TEST_F(TfRecordTest, ADamagedBlockOfACompressedShardIsFetchedAgain) {
    CountingFile::Counts counts;
    const std::string packed = gzipped(kThree);
    const TfRecordDataset dataset(
        "https://host/x", {.names = {"https://host/x", "https://host/y"}, .left_out = {}}, {},
        [&](const std::string& name) { return std::make_unique<CountingFile>(packed, true, counts, name); });
    counts.damaged_at = packed.size() / 2;
    EXPECT_EQ(all(dataset).size(), 6);
    EXPECT_EQ(counts.anew, 1);  // the other shard was decoded when it was opened
}

TEST_F(TfRecordTest, CompressedShardsThatDoNotFitIntoMemoryTogether) {
    set_memory_limit(1000);  // a quarter of it is for decoded shards
    write("x.tfrecord", gzipped(kThree));
    write("y.tfrecord", gzipped(kThree));
    const TfRecordDataset dataset((dir_ / "*.tfrecord").string());
    set_memory_limit(0);
    EXPECT_THAT(dataset.advice(), HasSubstr("compressed"));
    EXPECT_EQ(all(dataset).size(), 6);
}

TEST_F(TfRecordTest, ManyThreadsReadACompressedShard) {
    const auto dataset = open(gzipped(kThree));
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] { right += all(dataset) == kThreeSeen ? 1 : 0; });
    }
    std::ranges::for_each(threads, &std::thread::join);
    EXPECT_EQ(right, 8);
}

// ---- Image and label ----

TEST_F(TfRecordTest, TheImageIsTheFeatureWithOne) {
    const auto image = tf_texts({tf_image("")});
    const auto opened = [&](const TfFeatures& features, const FieldNames& fields = {}) {
        return open(tf_record(tf_example(features)), fields);
    };
    EXPECT_THAT(all(opened({{"anything", image}, {"id", tf_texts({"7"})}})), SizeIs(1));
    EXPECT_THAT(all(opened({{"", image}})), SizeIs(1));
    EXPECT_THAT(all(opened({{"depth", image}, {"image", image}, {"mask", image}})), SizeIs(1));
    EXPECT_THROW(opened({{"depth", image}, {"mask", image}}), DataError);
    EXPECT_THAT(all(opened({{"depth", image}, {"mask", image}}, {.image = "mask", .label = ""})), SizeIs(1));
    EXPECT_THROW(opened({{"depth", image}}, {.image = "mask", .label = ""}), DataError);
    EXPECT_THROW(opened({{"image", tf_texts({"raw"})}}), DataError);
    EXPECT_THROW(opened({}), DataError);
    // The other image is a field.
    EXPECT_THAT(
        all(opened({{"depth", image}, {"mask", image}}, {.image = "", .label = "", .more = {{.name = "mask"}}})),
        SizeIs(1));
}

TEST_F(TfRecordTest, LabelsAreSingleIntegers) {
    const auto labelled = [&](const std::string& feature, const FieldNames& fields = {}) {
        return open(tf_record(tf_example({{"image", tf_texts({tf_image("")})}, {"label", feature}})), fields);
    };
    EXPECT_EQ(all(labelled(tf_integers({5})))[0].label, 5);
    EXPECT_EQ(all(labelled(tf_integers({1, 2})))[0].label, -1);  // of another kind
    EXPECT_EQ(all(labelled(tf_texts({"cat"})))[0].label, -1);
    const FieldNames named{.image = "", .label = "label"};
    EXPECT_EQ(all(labelled(tf_integers({5}), named))[0].label, 5);
    for (const std::string& bad : {tf_integers({1, 2}), tf_texts({"cat"}), tf_integers({-2}), tf_integers({1 << 24})}) {
        const auto dataset = labelled(bad, named);
        EXPECT_EQ(dataset.label(0), std::nullopt);
        place_of_error(dataset, 0);
    }
    EXPECT_EQ(all(labelled(tf_integers({1, 2}), {.image = "", .label = "label", .unlabelled = true}))[0].label, -1);
    EXPECT_THROW(labelled(tf_integers({1}), {.image = "", .label = "other"}), DataError);
    EXPECT_THAT(labelled(tf_integers({1}), {.image = "", .label = "other", .unlabelled = true}).classes(), IsEmpty());
}

TEST_F(TfRecordTest, ClassNames) {
    write("classes.txt", "a\nb\nc\n");
    EXPECT_THAT(open(kThree).classes(), ElementsAre("a", "b", "c"));
    write("x-classes.txt", "d\ne\nf\n");
    EXPECT_THAT(open(kThree).classes(), ElementsAre("d", "e", "f"));
    write("image-class-label.labels.txt", "g\nh\ni\nj\n");
    EXPECT_THAT(open(kThree).classes(), ElementsAre("g", "h", "i", "j"));
    write("image-class-label.labels.txt", "g\n");
    EXPECT_THROW(open(kThree), DataError);
    fs::remove(dir_ / "image-class-label.labels.txt");
    write("x-00000-of-00001", kThree);
    EXPECT_THAT(TfRecordDataset((dir_ / "x-00000-of-00001").string()).classes(), ElementsAre("d", "e", "f"));
}

// ---- Further fields ----

TEST_F(TfRecordTest, FieldsOfEachKind) {
    const auto dataset = open_with({{"score", tf_floats({0.5F})},
                                    {"point", tf_floats({1, 2, 3}, false)},
                                    {"ids", tf_integers({7, 8})},
                                    {"caption", tf_texts({"a cat"})},
                                    {"depth", tf_texts({tf_image("D")})},
                                    {"box", tf_floats({1, 2, 3, 4})}},
                                   {.image = "",
                                    .label = "",
                                    .more = {{.name = "s", .from = "score"},
                                             {.name = "point"},
                                             {.name = "ids", .from = "", .kind = FieldKind::tokens, .any_length = true},
                                             {.name = "caption"},
                                             {.name = "depth"},
                                             {.name = "box", .from = "", .kind = FieldKind::boxes},
                                             {.name = "again", .from = "score"}}});
    EXPECT_EQ(describe_fields(dataset.fields()),
              "s float32 (), point float32 (3), ids int64 (-1), caption uint8 (-1), depth image, box float32 (-1, 4), "
              "again float32 ()");
    Sample sample;
    dataset.read(0, sample);
    const auto floats = [&](std::size_t at) { return numbers_of<float>(sample.fields[at]); };
    EXPECT_THAT(floats(0), ElementsAre(0.5F));
    EXPECT_THAT(floats(1), ElementsAre(1, 2, 3));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[2]), ElementsAre(7, 8));
    EXPECT_EQ(text(sample.fields[3].bytes), "a cat");
    EXPECT_EQ(text(sample.fields[4].bytes), tf_image("D"));
    EXPECT_THAT(floats(5), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(floats(6), ElementsAre(0.5F));
    EXPECT_THAT(open_with({{"score", tf_floats({0.5F})}, {"two", tf_texts({"a", "b"})}}, {}).stored_fields(),
                SizeIs(1));
}

TEST_F(TfRecordTest, LengthsThatDifferAreAnyLength) {
    const auto record = [](std::initializer_list<std::int64_t> values) {
        return tf_record(tf_example({{"t", tf_integers(values)}}));
    };
    const FieldNames fields{.image = "", .label = "", .more = {{.name = "t"}}};
    const auto dataset = open(record({1, 2}) + record({}) + record({3}), fields);
    EXPECT_FALSE(dataset.has_image());
    EXPECT_EQ(describe_fields(dataset.fields()), "t int64 (-1)");
    Sample sample;
    dataset.read(0, sample);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[0]), ElementsAre(1, 2));
    dataset.read(1, sample);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[0]), IsEmpty());
    EXPECT_EQ(describe_fields(open(record({1}) + record({4}), fields).fields()), "t int64 ()");
    EXPECT_EQ(describe_fields(open(record({1, 2}) + record({4, 5}), fields).fields()), "t int64 (2)");
}

TEST_F(TfRecordTest, BoxesInFourFeatures) {
    const TfFeatures sides = {{"image/object/bbox/xmin", tf_floats({0, 0.5F})},
                              {"image/object/bbox/ymin", tf_floats({0.25F, 0})},
                              {"image/object/bbox/xmax", tf_floats({1, 0.75F})},
                              {"image/object/bbox/ymax", tf_floats({1, 0.5F})}};
    TfFeatures sized = sides;
    sized.insert(sized.end(), {{"image/width", tf_integers({8})}, {"image/height", tf_integers({4})}});
    std::string from = "image/object/bbox/xmin, image/object/bbox/ymin,image/object/bbox/xmax,image/object/bbox/ymax";
    const FieldNames fields{
        .image = "", .label = "", .more = {{.name = "boxes", .from = from, .kind = FieldKind::boxes}}};
    Sample sample;
    open_with(sized, fields).read(0, sample);
    EXPECT_THAT(numbers_of<float>(sample.fields[0]), ElementsAre(0, 1, 8, 4, 4, 0, 6, 2));
    EXPECT_THROW(open_with(sides, fields), DataError);  // fractions of an unknown size
    FieldNames typo = fields;
    typo.more[0].from.back() = 'y';
    EXPECT_THROW(open_with(sized, typo), DataError);
    sized[1].second = tf_floats({0.25F});
    place_of_error(open_with(sized, fields), 0);  // one value less
    const FieldNames pixels{
        .image = "", .label = "", .more = {{.name = "boxes", .from = "a,b,a,b", .kind = FieldKind::boxes}}};
    open_with({{"a", tf_floats({1})}, {"b", tf_floats({2})}}, pixels).read(0, sample);
    EXPECT_THAT(numbers_of<float>(sample.fields[0]), ElementsAre(1, 2, 1, 2));
    EXPECT_THROW(open_with(sides, {.image = "", .label = "", .more = {{.name = "v", .from = from}}}), Unsupported);
}

TEST_F(TfRecordTest, BoxesInAnyOrderOfTheirSides) {
    const std::string path = "image/object/bbox/";
    const TfFeatures sides = {{path + "xmin", tf_floats({0.125F})}, {path + "ymin", tf_floats({0.25F})},
                              {path + "xmax", tf_floats({0.5F})},   {path + "ymax", tf_floats({0.75F})},
                              {"image/width", tf_integers({8})},    {"image/height", tf_integers({4})},
                              {"my/xmin", tf_floats({1})},          {"my/ymin", tf_floats({2})},
                              {"my/xmax", tf_floats({3})},          {"my/ymax", tf_floats({4})}};
    const auto boxes = [&](const std::string& from) {
        Sample sample;
        open_with(sides, {.image = "", .label = "", .more = {{.name = "b", .from = from, .kind = FieldKind::boxes}}})
            .read(0, sample);
        return numbers_of<float>(sample.fields[0]);
    };
    EXPECT_THAT(boxes(path + "ymin," + path + "xmin," + path + "ymax," + path + "xmax"), ElementsAre(1, 1, 4, 3));
    EXPECT_THAT(boxes(path + "xmin," + path + "xmax," + path + "ymin," + path + "ymax"), ElementsAre(1, 1, 4, 3));
    EXPECT_THAT(boxes("my/ymin,my/xmin,my/ymax,my/xmax"), ElementsAre(1, 2, 3, 4));
    EXPECT_THROW(boxes(path + "xmin," + path + "ymin," + path + "xmin," + path + "ymin"), DataError);
}

TEST_F(TfRecordTest, FieldsThatDoNotFit) {
    const auto kind = [&](const std::string& feature, FieldKind wanted) {
        open_with({{"f", feature}}, {.image = "", .label = "", .more = {{.name = "f", .from = "", .kind = wanted}}});
    };
    EXPECT_THROW(kind(tf_texts({"text"}), FieldKind::value), Unsupported);
    EXPECT_THROW(kind(tf_floats({1}), FieldKind::label), Unsupported);
    EXPECT_THROW(kind(tf_floats({1}), FieldKind::image), Unsupported);
    EXPECT_THROW(kind(tf_floats({1, 2, 3}), FieldKind::boxes), Unsupported);
    EXPECT_THROW(kind(tf_texts({"a", "b"}), FieldKind::bytes), DataError);
    EXPECT_THROW(open_with({}, {.image = "", .label = "", .more = {{.name = "f"}}}), DataError);
}

// ---- Damage ----

TEST_F(TfRecordTest, AWrongChecksumIsABadSample) {
    std::string records = kThree;
    const std::size_t second = tf_record(tf_sample("A", 2)).size();
    records[second + 12 + 20] ^= 1;
    for (const std::string& stored : {records, gzipped(records)}) {
        const auto dataset = open(stored);
        EXPECT_EQ(dataset.size(), 3);
        const DataPlace place = place_of_error(dataset, 1);
        EXPECT_EQ(place.path, (dir_ / "x.tfrecord").string());
        EXPECT_EQ(place.offset, static_cast<std::int64_t>(second + 12));
        Sample sample;
        dataset.read(2, sample);
        EXPECT_EQ(text(sample.bytes), tf_image("C"));
    }
}

TEST_F(TfRecordTest, RecordsThatAreNotExamplesAreBadSamples) {
    const auto dataset = open(kThree + tf_record("\x0b no message") + tf_record(tf_example({{"other", ""}})));
    place_of_error(dataset, 3);
    place_of_error(dataset, 4);
    EXPECT_THROW(open(tf_record("\x0b no message")), DataError);
    EXPECT_THROW(open(tf_record(tf_example({}) + tf_field(2, tf_field(1, "lists")))), Unsupported);
}

TEST_F(TfRecordTest, DamagedShardsAreRefusedAtOnce) {
    const std::size_t first = tf_record(tf_sample("A", 2)).size();
    for (const std::size_t size : {kThree.size() - 1, first + 5, first + 12, first + 13, std::size_t{1}}) {
        EXPECT_THROW(open(kThree.substr(0, size)), DataError) << size;
        EXPECT_THROW(open(gzipped(kThree.substr(0, size))), DataError) << size;
    }
    for (const std::size_t at : {std::size_t{0}, first, first + 7, first + 8}) {
        std::string damaged = kThree;
        damaged[at] ^= 64;
        EXPECT_THROW(open(damaged), DataError) << at;
        EXPECT_THROW(open(gzipped(damaged)), DataError) << at;
    }
    const std::string packed = gzipped(kThree);
    EXPECT_THROW(open(packed.substr(0, packed.size() - 9)), DataError);
    EXPECT_THROW(open(packed + "more"), DataError);
    EXPECT_THROW(open("not a TFRecord at all"), DataError);
    // A length with a right checksum that the shard cannot have: no memory is allocated for it.
    const std::string length = number_bytes(std::uint64_t{1} << 62);
    EXPECT_THROW(open(length + number_bytes(masked_crc32c(as_bytes(length))) + "data"), DataError);
    const std::string large = number_bytes((std::uint64_t{1} << 31) - 100);
    EXPECT_THROW(open(gzipped(large + number_bytes(masked_crc32c(as_bytes(large))) + "data")), DataError);
}

// ---- The index ----

TEST_F(TfRecordTest, LargeImagesAreNotReadForTheIndex) {
    std::string records;
    for (int i = 0; i < 64; ++i) {
        records += tf_record(tf_sample(std::string(200'000, 'x'), i));
    }
    CountingFile::Counts counts;
    const CountingFile file(records, false, counts);
    const TfIndex index = make_tf_index(file, {.names = {"image/class/label"}, .strict = false});
    EXPECT_EQ(index.size(), 64);
    EXPECT_EQ(index.max_label(), 63);
    EXPECT_LT(counts.bytes, records.size() / 4);
    EXPECT_LT(counts.reads, 3 * 64);
}

TEST_F(TfRecordTest, RemoteShardsAreReadAhead) {
    CountingFile::Counts counts;
    const auto remote = [&](const std::string& name) {
        return std::make_unique<CountingFile>(name.ends_with("z") ? gzipped(kThree) : kThree, true, counts, name);
    };
    const TfRecordDataset dataset(
        "https://host/x", {.names = {"https://host/x?token=1", "https://host/y", "https://host/z"}, .left_out = {}}, {},
        remote);
    EXPECT_EQ(dataset.size(), 9);
    EXPECT_THAT(dataset.shard_sizes(), ElementsAre(3, 3, 3));
    EXPECT_EQ(dataset.key(0), "x/0");
    const std::int64_t next[] = {4, 0, 2, 8, 7};
    dataset.prefetch(next);
    EXPECT_EQ(counts.ahead, 3);  // neighbours join
    EXPECT_EQ(all(dataset).size(), 9);
    EXPECT_EQ(counts.anew, 0);
    const TfRecordDataset healed("https://host/x", {.names = {"https://host/x"}, .left_out = {}}, {}, remote);
    counts.damaged_at = kThree.size() - 10;  // as a cache with a damaged block
    EXPECT_EQ(all(healed), kThreeSeen);
    EXPECT_EQ(counts.anew, 1);
}

TEST_F(TfRecordTest, AnIndexIsKeptUntilTheShardChanges) {
    CountingFile::Counts counts;
    const TfLabelNames labels{.names = {"image/class/label"}, .strict = false};
    const CountingFile file(kThree, true, counts);
    EXPECT_EQ(cached_tf_index(file, labels).max_label(), 2);
    const std::uint64_t reads = counts.reads;
    EXPECT_EQ(cached_tf_index(file, labels).max_label(), 2);
    EXPECT_EQ(counts.reads, reads);
    EXPECT_EQ(cached_tf_index(file, {.names = {"other"}, .strict = false}).max_label(), -1);
    EXPECT_GT(counts.reads, reads);
    const CountingFile longer(kThree + tf_record(tf_sample("D", 7)), true, counts);  // and the same stamp
    EXPECT_EQ(cached_tf_index(longer, labels).max_label(), 7);
}

TEST_F(TfRecordTest, HostileIndices) {
    CountingFile::Counts counts;
    const TfIndex index = make_tf_index(CountingFile(kThree, false, counts), {.names = {"label"}, .strict = false});
    const auto parsed = [&](const std::function<void(Buffer&)>& change, std::uint64_t shard) {
        Buffer bytes(index.bytes().size());
        std::ranges::copy(index.bytes(), bytes.data());
        change(bytes);
        return TfIndex::parse(std::move(bytes), shard).has_value();
    };
    EXPECT_TRUE(parsed([](Buffer&) {}, kThree.size()));
    EXPECT_FALSE(parsed([](Buffer&) {}, kThree.size() - 1));
    EXPECT_FALSE(parsed([](Buffer& bytes) { bytes.resize(bytes.size() - 1); }, kThree.size()));
    for (const std::size_t at : {0, 8, 16, 24, 32 + 7, 32 + 11, 32 + 15, 32 + 16 + 7}) {
        EXPECT_FALSE(parsed([&](Buffer& bytes) { bytes.data()[at] ^= std::byte{0x7e}; }, kThree.size())) << at;
    }
}

}  // namespace
}  // namespace stoker
