// stk data sets behind a server: in spite of failures and wrong bytes, every sample equals the local reader's, or one
// clear error says what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <random>

#include "formats/stk/stk_support.h"
#include "io/remote/remote_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Kind = ServerFault::Kind;

RemoteOptions tiny_blocks() {
    RemoteOptions options = quick();
    options.block_bytes = 512;
    options.request_bytes = 4096;
    return options;
}

class StkRemoteTest : public ::testing::Test {
  protected:
    static constexpr std::int64_t kCount = 60;

    StkRemoteTest() {
        write_every_kind(local_, kCount, 4000);
        serve();
    }

    void serve() {
        for (const auto& entry : fs::directory_iterator(local_)) {
            server_.put("/x.stk/" + entry.path().filename().string(), {.bytes = read_text(entry.path())});
        }
    }

    void serve_changed(const std::string& name, const std::function<void(std::string&)>& change) {
        std::string bytes = read_text(local_ / name);
        change(bytes);
        server_.put("/x.stk/" + name, {.bytes = bytes});
    }

    std::unique_ptr<Dataset> open(const RemoteOptions& options = tiny_blocks(),
                                  const std::string& path = "/x.stk") const {
        return open_dataset(server_.url(path), Split::train, {.remote = options});
    }

    // Compares every sample of `remote`, in shuffled order, with the local one.
    void expect_same(const Dataset& remote, unsigned seed = 1) const {
        const StkDataset local(local_);
        ASSERT_EQ(remote.size(), local.size());
        EXPECT_EQ(remote.bytes(), local.bytes());
        EXPECT_THAT(remote.classes(), ElementsAreArray(local.classes()));
        std::vector<std::int64_t> order(static_cast<std::size_t>(remote.size()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::minstd_rand(seed));
        Sample found;
        Sample expected;
        for (const std::int64_t i : order) {
            remote.read(i, found);
            local.read(i, expected);
            ASSERT_EQ(text_of(found.bytes), text_of(expected.bytes)) << i;
            ASSERT_EQ(remote.key(i), local.key(i));
            ASSERT_EQ(remote.label(i), local.label(i));
            ASSERT_EQ(std::tuple(found.encoded, found.height, found.width, found.channels, found.label),
                      std::tuple(expected.encoded, expected.height, expected.width, expected.channels, expected.label));
        }
    }

    TempDir dir_;
    fs::path local_ = dir_ / "x.stk";
    HttpServer server_;
};

TEST_F(StkRemoteTest, EverySampleIsTheLocalReaders) {
    for (const char* path : {"/x.stk", "/x.stk/"}) {
        const auto dataset = open(tiny_blocks(), path);
        EXPECT_EQ(dataset->format(), "stk");
        EXPECT_EQ(dataset->path(), server_.url(path));
        expect_same(*dataset);
        EXPECT_FALSE(has_splits(server_.url(path)));
    }
    const auto dataset = open();
    const auto& stk = dynamic_cast<const StkDataset&>(*dataset);
    const StkDataset local(local_);
    EXPECT_EQ(stk.codecs(), local.codecs());
    std::vector<std::int64_t> sizes;
    for (const StkShard& shard : local.reader().shards()) {
        sizes.push_back(shard.samples());
    }
    EXPECT_GT(sizes.size(), 3U);
    EXPECT_EQ(dataset->shard_sizes(), sizes);
    EXPECT_TRUE(local.shard_sizes().empty());
    for (std::int64_t i = 0; i < kCount; ++i) {
        EXPECT_NO_THROW(stk.reader().verify(i));
    }
}

TEST_F(StkRemoteTest, FieldsBesideTheImageAreReadAsPayloads) {
    const StkReader remote(server_.url("/x.stk"), tiny_blocks());
    const StkReader local(local_);
    const std::size_t caption = remote.field("caption", StkKind::bytes);
    const std::size_t boxes = remote.field("boxes", StkKind::tensor);
    for (std::int64_t i = 0; i < kCount; ++i) {
        const auto [shard, sample] = remote.place(i);
        std::vector<std::byte> found(shard.payload_range(caption, sample).size);
        shard.read(caption, sample, found);
        EXPECT_EQ(text_of(found), text_of(local.bytes(caption, i)));
        found.resize(shard.payload_range(boxes, sample).size);
        shard.read(boxes, sample, found);
        const TensorView tensor = local.tensor(boxes, i);
        EXPECT_EQ(text_of(found), text_of({tensor.data, tensor.bytes()}));
        EXPECT_EQ(remote.number(remote.field("weight", StkKind::number), i), static_cast<double>(i) / 7);
    }
    EXPECT_THROW(remote.bytes(caption, 0), Unsupported);
    EXPECT_THROW(remote.tensor(boxes, 0), Unsupported);
    EXPECT_TRUE(remote.image(0, 0).bytes.empty());
}

TEST_F(StkRemoteTest, OpeningFetchesOnlyTheEnds) {
    std::uint64_t payloads = 0;
    {
        StkWriter writer(dir_ / "large.stk", {{{.name = "image", .kind = StkKind::image}}}, {.shard_size = 200'000});
        for (std::int64_t i = 0; i < 40; ++i) {
            const std::string bytes = random_bytes(20'000, static_cast<std::uint32_t>(i));
            payloads += bytes.size();
            const StkValue value = StkImage{.bytes = as_bytes(bytes), .codec = StkCodec::png};
            writer.add(fmt::format("{}", i), std::span(&value, 1));
        }
        writer.finish("{}");
    }
    local_ = dir_ / "large.stk";
    serve();
    const auto dataset = open();
    std::uint64_t fetched = 0;
    for (const SeenRequest& request : server_.seen()) {
        fetched += request.size();
    }
    EXPECT_LT(fetched, payloads / 10);
    server_.forget_seen();
    const std::vector<std::int64_t> wanted = {2, 30, 1, 0};  // three neighbours and one in another shard
    dataset->prefetch(wanted);
    Sample sample;
    for (const std::int64_t i : wanted) {
        dataset->read(i, sample);
        EXPECT_EQ(text_of(sample.bytes), random_bytes(20'000, static_cast<std::uint32_t>(i)));
    }
    EXPECT_GT(server_.seen().size(), 2U);  // requests of 4096 bytes at most
    expect_same(*dataset);
    RemoteOptions large = tiny_blocks();
    large.request_bytes = 1 << 20;
    const auto again = open(large);
    server_.forget_seen();
    again->prefetch(wanted);
    for (const std::int64_t i : wanted) {
        again->read(i, sample);
    }
    EXPECT_EQ(server_.seen().size(), 2U);  // one for the neighbours
}

TEST_F(StkRemoteTest, ByteForByteUnderRandomFaults) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        std::mutex mutex;
        std::minstd_rand random(seed);
        server_.set_faults([&](const SeenRequest&) {
            constexpr std::array kKinds = {Kind::status, Kind::short_body, Kind::short_length, Kind::long_body,
                                           Kind::reset,  Kind::no_answer,  Kind::other_range};
            const std::scoped_lock lock(mutex);
            ServerFault fault{.kind = random() % 4 != 0 ? Kind::none : kKinds[random() % kKinds.size()], .status = 503};
            fault.bytes = random() % 2048;
            return fault;
        });
        RemoteOptions options = tiny_blocks();
        options.patience = std::chrono::milliseconds(20'000);
        const auto dataset = open(options);
        expect_same(*dataset, seed);
        server_.set_faults({});
    }
}

// The first answer for each range has one wrong bit, as from a bad proxy, and correct headers.
TEST_F(StkRemoteTest, WrongBytesAreFetchedAnewAndNeverUsed) {
    std::mutex mutex;
    std::set<std::pair<std::string, std::uint64_t>> seen;
    int wrong = 0;
    const auto once = [&](const SeenRequest& request) {
        const std::scoped_lock lock(mutex);
        const bool block = request.first % 512 == 0 && request.size() >= 512;  // not the second fetch
        const bool first =
            block && !request.path.ends_with(".json") && seen.insert({request.path, request.first}).second;
        wrong += first;
        return first ? ServerFault{.kind = Kind::wrong_bytes, .bytes = 40} : ServerFault{};
    };
    server_.set_faults(once);
    const auto dataset = open();
    expect_same(*dataset);
    EXPECT_GT(wrong, 3);
    for (std::int64_t i = 0; i < kCount; ++i) {
        EXPECT_NO_THROW(dynamic_cast<const StkDataset&>(*dataset).reader().verify(i));
    }
}

// The same with a disk cache: wrong bytes do not stay in it.
TEST_F(StkRemoteTest, WrongBytesDoNotStayInTheCache) {
    RemoteOptions options = tiny_blocks();
    options.cache_dir = dir_ / "cache";
    options.cache_bytes = 10 << 20;
    {
        const auto dataset = open(options);
        server_.set_faults([](const SeenRequest&) { return ServerFault{.kind = Kind::wrong_bytes, .bytes = 100}; });
        Sample sample;
        for (std::int64_t i = 0; i < kCount; ++i) {
            try {
                dataset->read(i, sample);
            } catch (const DataError&) {  // now the cache holds these bytes
            }
        }
        server_.set_faults({});
    }
    for (int i = 0; i < 3; ++i) {
        expect_same(*open(options));
    }
    server_.forget_seen();
    expect_same(*open(options));
    for (const SeenRequest& request : server_.seen()) {
        EXPECT_EQ(request.size(), 1U) << request.path;  // only to check that the file has not changed
    }
}

TEST_F(StkRemoteTest, EveryChangedByteOfAShardIsFoundOrNamed) {
    const std::string name = stk_shard_name(1);
    const std::size_t size = read_text(local_ / name).size();
    const StkDataset good(local_);
    const auto first = static_cast<std::int64_t>(good.reader().shards()[1].first());
    const std::int64_t count = good.reader().shards()[1].samples();
    for (std::size_t at = 0; at < size; at += at < 64 ? 3 : 31) {
        serve_changed(name, [&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8)); });
        std::string message;
        try {
            const auto dataset = open();
            for (std::int64_t i = first; i < first + count; ++i) {
                dynamic_cast<const StkDataset&>(*dataset).reader().verify(i);
            }
        } catch (const DataError& error) {
            message = error.what();
        } catch (const Unsupported& error) {
            message = error.what();
        }
        ASSERT_THAT(message, HasSubstr(server_.url("/x.stk/" + name))) << "byte " << at;
        ASSERT_EQ(message.find('\n'), std::string::npos);
    }
}

TEST_F(StkRemoteTest, DamagedPayloadsAreNamedByKeyAndOffset) {
    serve_changed(stk_shard_name(0), [](std::string& bytes) { bytes[64] = static_cast<char>(bytes[64] ^ 1); });
    const auto dataset = open();
    Sample sample;
    const std::string message = thrown_by<DataError>([&] { dataset->read(0, sample); });
    EXPECT_THAT(message, AllOf(HasSubstr(server_.url("/x.stk/shard-000000.stk")), HasSubstr("cat/0000.jpg"),
                               HasSubstr("64"), HasSubstr("bytes of hash")));
    dataset->read(1, sample);
    EXPECT_EQ(text_of(sample.bytes), StkSample(1).image);
}

TEST_F(StkRemoteTest, MissingAndTruncatedFiles) {
    EXPECT_THAT(thrown_by<IoError>([&] { open(tiny_blocks(), "/none.stk"); }),
                AllOf(HasSubstr("/none.stk/stk.json"), HasSubstr("404")));
    server_.set_faults([](const SeenRequest& request) {
        return request.path.ends_with("shard-000002.stk") ? ServerFault{.kind = Kind::status, .status = 404}
                                                          : ServerFault{};
    });
    EXPECT_THAT(thrown_by<IoError>([&] { open(); }), AllOf(HasSubstr("shard-000002.stk"), HasSubstr("404")));
    server_.set_faults({});
    serve_changed(stk_shard_name(1), [](std::string& bytes) { bytes.resize(bytes.size() - 100); });
    EXPECT_THAT(thrown_by<DataError>([&] { open(); }), AllOf(HasSubstr("shard-000001.stk"), HasSubstr("cut off")));
    serve_changed(stk_shard_name(1), [](std::string& bytes) { bytes.resize(20); });
    EXPECT_THAT(thrown_by<DataError>([&] { open(); }), HasSubstr("a file of 20 bytes"));
    server_.put("/x.stk/shard-000001.stk", {.bytes = read_text(local_ / stk_shard_name(2))});
    EXPECT_THAT(thrown_by<DataError>([&] { open(); }), HasSubstr("another data set"));
    serve();
    server_.put("/x.stk/stk.json", {.bytes = "{}"});
    EXPECT_THAT(thrown_by<DataError>([&] { open(); }), AllOf(HasSubstr("stk.json"), HasSubstr("the manifest of")));
    server_.put("/x.stk/stk.json", {.bytes = R"({"format":"stk","version":1,"samples":0,"shards":[]})"});
    EXPECT_THAT(thrown_by<DataError>([&] { open(); }), HasSubstr("at least one shard"));
}

TEST_F(StkRemoteTest, AShardThatIsReplacedWhileInUse) {
    const auto dataset = open();
    Sample sample;
    for (const auto& entry : fs::directory_iterator(local_)) {
        server_.put("/x.stk/" + entry.path().filename().string(), {.bytes = read_text(entry.path()), .etag = "\"v2\""});
    }
    EXPECT_THAT(thrown_by<IoError>([&] {
                    for (std::int64_t i = 0; i < kCount; ++i) {  // some were fetched together with the index
                        dataset->read(i, sample);
                    }
                }),
                HasSubstr("replaced while it was open"));
}

TEST(StkUrl, IsRecognisedByItsName) {
    for (const char* url : {"http://h/x.stk", "https://h/a/x.stk/", "s3://b/x.stk", "http://h/x.stk?sig=1",
                            "gs://b/x?.stk", "hf://datasets/a/b@main/x.stk/"}) {
        EXPECT_TRUE(is_stk_url(url)) << url;
    }
    for (const char* url : {"x.stk", "http://h/x.tar", "http://h/x.tar?a=x.stk", "http://h/x.stk/shard-000000.tar"}) {
        EXPECT_FALSE(is_stk_url(url)) << url;
    }
    EXPECT_EQ(stk_url("http://h/x.stk", "stk.json"), "http://h/x.stk/stk.json");
    EXPECT_EQ(stk_url("http://h/x.stk/?sig=a/b", "stk.json"), "http://h/x.stk/stk.json?sig=a/b");
    EXPECT_EQ(stk_url("s3://b/what?.stk", "stk.json"), "s3://b/what?.stk/stk.json");
}

}  // namespace
}  // namespace stoker
