// Epochs from a server that fails, stops and restarts: the batches equal those of the same local files, pixel for
// pixel, or the loader stops with a one-line error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>

#include "formats/webdataset/tar_support.h"
#include "pipeline/pixel_source.h"
#include "stoker/base/file.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk_writer.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = ServerFault::Kind;

constexpr std::int64_t kCount = 90;
constexpr int kSide = 16;
constexpr std::uint64_t kBlock = 2048;  // more than lies between two images of a tar: no block that nobody reads

std::vector<std::byte> pixels_of(std::int64_t index) {
    std::vector<std::byte> pixels(kSide * kSide * 3);
    std::minstd_rand random(static_cast<unsigned>(index) + 1);
    for (std::byte& pixel : pixels) {
        pixel = static_cast<std::byte>(random() >> 8);
    }
    return pixels;
}

void write_tars(const fs::path& folder) {
    for (int shard = 0; shard < 3; ++shard) {
        std::string tar;
        for (std::int64_t i = shard * kCount / 3; i < (shard + 1) * kCount / 3; ++i) {
            const auto pixels = pixels_of(i);
            const auto png = encode_png(
                {reinterpret_cast<const std::uint8_t*>(pixels.data()), kSide, kSide, 3, std::ptrdiff_t{kSide} * 3});
            tar += tar_member(fmt::format("{:04}.png", i), {reinterpret_cast<const char*>(png.data()), png.size()});
            tar += tar_member(fmt::format("{:04}.cls", i), fmt::format("{}", i % 7));
        }
        std::ofstream(folder / fmt::format("x-{}.tar", shard), std::ios::binary) << tar << std::string(1024, '\0');
    }
}

void write_stk(const fs::path& folder) {
    StkWriter writer(folder / "x.stk",
                     {{{.name = "image", .kind = StkKind::image}, {.name = "label", .kind = StkKind::label}}},
                     {.shard_size = 30'000});
    for (std::int64_t i = 0; i < kCount; ++i) {
        const auto pixels = pixels_of(i);
        const StkValue values[] = {
            StkImage{.bytes = pixels, .codec = StkCodec::raw, .height = kSide, .width = kSide, .channels = 3}, i % 7};
        writer.add(fmt::format("{:04}", i), values);
    }
    writer.finish("{}");
}

RemoteOptions quick() {
    RemoteOptions options;
    options.block_bytes = kBlock;
    options.request_bytes = 2 * kBlock;
    options.first_pause = std::chrono::milliseconds(2);
    options.patience = std::chrono::milliseconds(30'000);
    options.stall_time = std::chrono::seconds(1);
    return options;
}

// One answer in four fails. Wrong bytes come only where a hash tells them: of whole blocks of an stk set, so that what
// is then fetched anew is right.
class RandomFaults {
  public:
    RandomFaults(unsigned seed, bool wrong_bytes) : random_(seed), wrong_bytes_(wrong_bytes) {}

    ServerFault operator()(const SeenRequest& request) {
        constexpr std::array kKinds = {Kind::status, Kind::short_body, Kind::short_length, Kind::long_body,
                                       Kind::reset,  Kind::no_answer,  Kind::other_range};
        const std::scoped_lock lock(mutex_);
        ++asked_;
        const auto bytes = static_cast<std::size_t>(random_() % 3000);
        if (random_() % 4 != 0) {
            return {};
        }
        if (random_() % 60 == 0) {
            return {.kind = Kind::stall, .bytes = bytes};
        }
        if (wrong_bytes_ && request.size() % kBlock == 0 && !request.path.ends_with(".json") && random_() % 3 == 0) {
            return {.kind = Kind::wrong_bytes, .bytes = bytes};
        }
        const int status = std::array{500, 503, 429, 502}[random_() % 4];
        return {.kind = kKinds[random_() % kKinds.size()], .status = status, .bytes = bytes};
    }

    int asked() const { return asked_; }

  private:
    std::atomic<int> asked_{0};
    std::mutex mutex_;
    std::minstd_rand random_;
    bool wrong_bytes_;
};

class RemoteLoaderTest : public ::testing::TestWithParam<const char*> {
  protected:
    RemoteLoaderTest() {
        ::setenv("STOKER_CACHE", (dir_ / "user").c_str(), 1);
        write_tars(dir_.path());
        write_stk(dir_.path());
        for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
            if (entry.is_regular_file()) {
                server_.put("/" + fs::relative(entry.path(), dir_.path()).string(), {.bytes = read_text(entry.path())});
            }
        }
    }
    ~RemoteLoaderTest() override { ::unsetenv("STOKER_CACHE"); }

    std::string data() const { return GetParam(); }
    bool stk() const { return data().ends_with(".stk"); }

    // Nothing in memory but a tar's index, whose creation reads all of such a small file.
    std::shared_ptr<const Dataset> open(const RemoteOptions& options = quick()) const {
        if (!stk()) {
            open_dataset(server_.url("/" + data()), Split::train, {.remote = quick()});
        }
        return open_dataset(server_.url("/" + data()), Split::train, {.remote = options});
    }

    std::unique_ptr<Loader> loader(std::shared_ptr<const Dataset> dataset, std::uint64_t seed) const {
        LoaderOptions options{.batch_size = 8, .workers = 3, .epochs = 2, .seed = seed};
        options.sampler = make_sampler({.size = kCount, .seed = seed, .window = 24, .shards = shards_});
        return std::make_unique<Loader>(std::move(dataset), random_ops(), options);
    }

    // The batches of the same local files, in the same order.
    std::vector<Seen> local(std::uint64_t seed) const {
        const auto dataset = open_dataset((dir_ / data()).string(), Split::train);
        return see_epochs(*loader(std::shared_ptr<const Dataset>(open_local()), seed), 2);
    }
    std::unique_ptr<Dataset> open_local() const { return open_dataset((dir_ / data()).string(), Split::train); }

    std::uint64_t payload_requests() const {
        std::uint64_t count = 0;
        for (const SeenRequest& request : server_.seen()) {
            count += request.size() > 1;  // one byte: to see that the object is still the same
        }
        return count;
    }

    TempDir dir_;
    HttpServer server_;
    std::vector<std::int64_t> shards_;
};

TEST_P(RemoteLoaderTest, TheSameBatchesWhateverTheServerDoes) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        const auto faults = std::make_shared<RandomFaults>(seed, stk());
        const auto dataset = open();
        shards_ = dataset->shard_sizes();
        ASSERT_GT(shards_.size(), 2U);
        server_.set_faults([faults](const SeenRequest& request) { return (*faults)(request); });
        const auto remote = loader(dataset, seed);
        std::vector<Seen> seen;
        std::thread restart;
        for (int ended = 0; ended < 2;) {
            if (seen.size() % 7 == 3 && !restart.joinable()) {  // in the middle of an epoch
                server_.stop();
                restart = std::thread([&] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(60));
                    server_.start();
                });
            } else if (seen.size() % 7 == 0 && restart.joinable()) {
                restart.join();
            }
            const auto batch = remote->next();
            if (batch == nullptr) {
                ++ended;
            } else {
                seen.push_back(see(*batch));
            }
        }
        if (restart.joinable()) {
            restart.join();
        }
        EXPECT_EQ(difference(seen, local(seed)), "") << "seed " << seed;
        EXPECT_GT(faults->asked(), 20);
        server_.set_faults({});
    }
}

TEST_P(RemoteLoaderTest, AServerThatStaysAwayIsOneClearLine) {
    RemoteOptions options = quick();
    options.patience = std::chrono::milliseconds(400);
    const auto dataset = open(options);
    shards_ = dataset->shard_sizes();
    const auto remote = loader(dataset, 5);
    std::vector<Seen> seen = {see(*remote->next())};
    server_.stop();
    std::string message;
    try {
        while (const auto batch = remote->next()) {
            seen.push_back(see(*batch));
        }
    } catch (const IoError& error) {
        message = error.what();
    }
    EXPECT_THAT(message, AllOf(HasSubstr("http://127.0.0.1"), HasSubstr("tries in")));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    std::vector<Seen> expected = local(5);
    ASSERT_LT(seen.size(), expected.size());
    expected.resize(seen.size());
    EXPECT_EQ(difference(seen, expected), "");
}

// ---- The disk cache ----

std::int64_t bytes_in(const fs::path& directory) {
    std::int64_t sum = 0;
    std::error_code gone;
    for (fs::directory_iterator each(directory, gone), end; !gone && each != end; each.increment(gone)) {
        const auto size = each->file_size(gone);
        sum += gone ? 0 : static_cast<std::int64_t>((size + 4095) / 4096 * 4096);  // pages
        gone.clear();
    }
    return sum;
}

TEST_P(RemoteLoaderTest, TheSecondRunOverACachedSetNeedsNoPayloads) {
    RemoteOptions options = quick();
    options.cache_dir = dir_ / "cache";
    options.cache_bytes = 10 << 20;
    for (int run = 0; run < 3; ++run) {
        server_.forget_seen();
        const auto dataset = open(options);
        shards_ = dataset->shard_sizes();
        EXPECT_EQ(difference(see_epochs(*loader(dataset, 7), 2), local(7)), "");
        EXPECT_EQ(payload_requests() > 0, run == 0);
    }
}

TEST_P(RemoteLoaderTest, TheCachesBudgetIsKeptAllTheTime) {
    RemoteOptions options = quick();
    options.cache_dir = dir_ / "cache";
    options.cache_bytes = 100'000;  // a third of the data, as blocks are kept
    const auto dataset = open(options);
    shards_ = dataset->shard_sizes();
    const auto remote = loader(dataset, 8);
    std::vector<Seen> seen;
    for (int ended = 0; ended < 2;) {
        const auto batch = remote->next();
        ended += batch == nullptr;
        if (batch != nullptr) {
            seen.push_back(see(*batch));
        }
        EXPECT_LE(bytes_in(options.cache_dir), options.cache_bytes);
    }
    EXPECT_GT(bytes_in(options.cache_dir), options.cache_bytes / 4);
    EXPECT_EQ(difference(seen, local(8)), "");
}

// A child process fills the cache until it is killed; the remaining cache is used and contains nothing wrong.
TEST_P(RemoteLoaderTest, AKillInMidEpochLeavesAUsableCache) {
    RemoteOptions options = quick();
    options.cache_dir = dir_ / "cache";
    options.cache_bytes = 10 << 20;
    for (const std::uint64_t requests : {6, 8, 10}) {
        server_.forget_seen();
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            try {
                const auto dataset = open(options);
                see_epochs(*loader(dataset, 1), 2);
            } catch (...) {  // the parent sees too few requests
            }
            ::pause();
        }
        for (int i = 0; i < 2000 && payload_requests() < requests; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        ::kill(child, SIGKILL);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        EXPECT_LE(bytes_in(options.cache_dir), options.cache_bytes);
    }
    for (int run = 0; run < 2; ++run) {
        server_.forget_seen();
        const auto dataset = open(options);
        shards_ = dataset->shard_sizes();
        EXPECT_EQ(difference(see_epochs(*loader(dataset, 9), 2), local(9)), "");
        EXPECT_TRUE(run == 0 || payload_requests() == 0);
    }
    EXPECT_LE(bytes_in(options.cache_dir), options.cache_bytes);
}

INSTANTIATE_TEST_SUITE_P(, RemoteLoaderTest, ::testing::Values("x-{0..2}.tar", "x.stk"),
                         [](const auto& each) { return std::string(each.index == 0 ? "Tar" : "Stk"); });

}  // namespace
}  // namespace stoker
