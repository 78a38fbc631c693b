// All targets except stk: the samples are read back as packed, a packing stopped anywhere is resumed, nothing appears
// under the target's name before it is complete, and other files are not touched.
#include "stoker/pack/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/open.h"
#include "stoker/pack/pack.h"
#include "support/temp_dir.h"

namespace stoker::target_test {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Stopped {};

// Key, label, height, width, channels and bytes, as stored.
using Stored = std::tuple<std::string, std::int64_t, int, int, int, std::string>;

std::vector<Stored> stored(const Dataset& dataset) {
    std::vector<Stored> all;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        sample.label = -1;
        dataset.read(i, sample);
        const bool raw = !sample.encoded;
        all.emplace_back(dataset.key(i), sample.label, raw ? sample.height : 0, raw ? sample.width : 0,
                         raw ? sample.channels : 0,
                         std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()));
    }
    return all;
}

std::map<std::string, std::string> files_in(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file()) {
            files[fs::relative(entry.path(), directory).string()] = read_text(entry.path());
        }
    }
    return files;
}

struct Case {
    const char* target;
    const char* data;     // "": a folder of images
    bool same_bytes;      // an uninterrupted and a resumed packing give the same bytes
    const char* payload;  // a file in the staging folder whose bytes are checked
};

void PrintTo(const Case& tested, std::ostream* out) {
    *out << tested.target << " of " << (*tested.data == '\0' ? "images" : tested.data);
}

class Target : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        make_folder(dir_ / "images");
        const std::string data = GetParam().data;
        dataset_ = open_dataset(data.empty() ? (dir_ / "images").string() : data, Split::train);
        options_ = {.shard_size = data.empty() ? 9'000U : 6'000U, .workers = 2};
    }

    fs::path target(const std::string& folder = "out") const {
        fs::create_directories(dir_ / folder);
        return dir_ / folder / GetParam().target;
    }

    PackOptions stopping(const std::string& phase, std::int64_t at) const {
        PackOptions options = options_;
        options.progress = [=](const PackProgress& progress) {
            if (phase == progress.phase && progress.done >= at) {
                throw Stopped{};
            }
        };
        return options;
    }

    // Only the staging folder.
    void expect_nothing_but_the_working_folder() const {
        for (const auto& entry : fs::directory_iterator(dir_ / "out")) {
            EXPECT_EQ(entry.path().extension(), ".part") << entry.path();
        }
    }

    TempDir dir_;
    std::unique_ptr<Dataset> dataset_;
    PackOptions options_;
};

TEST_P(Target, TheSameSamplesComeBack) {
    const PackResult result = pack(*dataset_, target(), options_);
    const auto packed = open_dataset(result.path, Split::train);
    EXPECT_TRUE(stored(*packed) == stored(*dataset_));
    EXPECT_TRUE(std::ranges::equal(packed->classes(), dataset_->classes()));
    EXPECT_EQ(result.samples, dataset_->size());
    EXPECT_EQ(result.resumed_samples, 0);
    EXPECT_EQ(result.shards > 1, std::string_view(GetParam().target).find('{') != std::string_view::npos);
    std::int64_t codecs = 0;
    for (const auto& [name, count] : result.codecs) {
        codecs += count;
    }
    EXPECT_EQ(codecs, dataset_->size());
    std::int64_t bytes = 0;
    for (const auto& [name, content] : files_in(dir_ / "out")) {
        bytes += name.ends_with(".json") || name.ends_with("-lock") ? 0 : static_cast<std::int64_t>(content.size());
    }
    EXPECT_EQ(result.bytes_out, bytes);
}

TEST_P(Target, AStoppedPackingIsResumed) {
    const PackResult whole = pack(*dataset_, target("whole"), options_);
    const auto expected = files_in(dir_ / "whole");
    const std::int64_t size = dataset_->size();
    std::int64_t resumed = 0;
    for (std::int64_t at = 1; at <= size; at += size / 6) {
        fs::remove_all(dir_ / "out");
        EXPECT_THROW(pack(*dataset_, target(), stopping("pack", at)), Stopped);
        expect_nothing_but_the_working_folder();
        const std::int64_t again = std::min(size, at + size / 3);
        EXPECT_THROW(pack(*dataset_, target(), stopping("pack", again)), Stopped);
        const PackResult result = pack(*dataset_, target(), options_);
        EXPECT_LT(result.resumed_samples, again);
        resumed += result.resumed_samples;
        EXPECT_EQ(result.samples, size);
        EXPECT_EQ(result.bytes_in, whole.bytes_in);
        EXPECT_EQ(result.codecs, whole.codecs);
        EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
        if (GetParam().same_bytes) {
            EXPECT_TRUE(files_in(dir_ / "out") == expected) << at;  // too long to print
        }
    }
    EXPECT_GT(resumed, 0);
}

TEST_P(Target, StoppedAtTheEndItIsResumed) {
    for (const char* phase : {"write", "verify"}) {
        fs::remove_all(dir_ / "out");
        bool stopped = false;
        try {
            pack(*dataset_, target(), stopping(phase, 1));
        } catch (const Stopped&) {
            stopped = true;
            expect_nothing_but_the_working_folder();
        }
        EXPECT_TRUE(stopped || std::string_view(phase) == "write");  // some targets have nothing to write then
        const PackResult result = pack(*dataset_, target(), options_);
        EXPECT_EQ(result.resumed_samples, dataset_->size());
        EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
    }
}

TEST_P(Target, AnIncompleteJournalLineIsIgnored) {
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    fs::path journal;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "out")) {
        journal = entry.path().filename() == "journal.jsonl" ? entry.path() : journal;
    }
    const std::string text = read_text(journal);
    std::set<std::int64_t> resumed;
    const std::size_t head = text.find('\n') + 1;
    const auto kept = files_in(dir_ / "out");
    for (std::size_t size = head; size <= text.size(); size += (text.size() - head) / 7) {
        fs::remove_all(dir_ / "out");
        for (const auto& [name, content] : kept) {
            fs::create_directories((dir_ / "out" / name).parent_path());
            write_file(dir_ / "out" / name, content);
        }
        write_file(journal, text.substr(0, size));
        const PackResult result = pack(*dataset_, target(), options_);
        EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_)) << size;
        resumed.insert(result.resumed_samples);
    }
    EXPECT_GT(resumed.size(), 2U);
}

TEST_P(Target, ADeepJournalLineIsIgnored) {
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    fs::path journal;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "out")) {
        journal = entry.path().filename() == "journal.jsonl" ? entry.path() : journal;
    }
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    const std::string hash = R"("0123456789abcdef")";
    write_file(journal, read_text(journal) + R"({"samples":1,"codecs":{},"content":)" + hash + R"(,"hash":)" + hash +
                            R"(,"state":)" + deep + R"(,"notes":"{}"})" + "\n");
    const PackResult result = pack(*dataset_, target(), options_);
    EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
}

TEST_P(Target, ADamagedPartIsPackedAgain) {
    if (GetParam().payload == nullptr) {
        GTEST_SKIP() << "LMDB trusts the pages of its file";
    }
    pack(*dataset_, target("whole"), options_);
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    const fs::path payload = dir_ / "out" / GetParam().payload;
    std::string bytes = read_text(payload);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(payload, bytes);
    const PackResult result = pack(*dataset_, target(), options_);
    EXPECT_LT(result.resumed_samples, dataset_->size());
    EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
}

TEST_P(Target, AMissingPartIsPackedAgainAnUnreadableOneIsAnError) {
    if (GetParam().payload == nullptr) {
        GTEST_SKIP() << "LMDB has one file of all parts";
    }
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    const fs::path payload = dir_ / "out" / GetParam().payload;
    fs::rename(payload, dir_ / "kept");
    fs::create_directory(payload);  // an I/O error, not different bytes
    EXPECT_THROW(pack(*dataset_, target(), options_), IoError);
    fs::remove(payload);
    fs::rename(dir_ / "kept", payload);
    EXPECT_THROW(pack(*dataset_, target(), stopping("check", dataset_->size() / 3)),
                 Stopped);  // earlier parts are still kept
    fs::remove(payload);
    const PackResult result = pack(*dataset_, target(), options_);
    EXPECT_EQ(result.resumed_samples, 0);
    EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
}

TEST_P(Target, APartWithNotesThatAreNoJsonIsPackedAgain) {
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "out")) {
        if (entry.path().filename() == "journal.jsonl") {
            std::string text = read_text(entry.path());
            const std::string_view before = R"("notes":"{)";
            const std::size_t at = text.find(before);
            ASSERT_NE(at, std::string::npos);
            write_file(entry.path(), text.replace(at, before.size(), R"("notes":"[{)"));
        }
    }
    EXPECT_EQ(pack(*dataset_, target(), options_).resumed_samples, 0);
}

TEST_P(Target, BracesInTheNameOfAFolderAreNoRange) {
    const PackResult result = pack(*dataset_, target("run{1..3}"), options_);
    EXPECT_EQ(result.samples, dataset_->size());
}

TEST_P(Target, ACompleteOneHasNothingToDo) {
    const PackResult first = pack(*dataset_, target(), options_);
    const auto files = files_in(dir_ / "out");
    const PackResult again = pack(*dataset_, target(), options_);
    EXPECT_TRUE(again.nothing_to_do);
    EXPECT_FALSE(first.nothing_to_do);
    EXPECT_EQ(again.codecs, first.codecs);
    EXPECT_EQ(again.bytes_in, first.bytes_in);
    EXPECT_EQ(again.bytes_out, first.bytes_out);
    EXPECT_EQ(again.path, first.path);
    PackOptions other = options_;
    other.transcode.resize_shorter = 8;
    EXPECT_THAT([&] { pack(*dataset_, target(), other); },
                ThrowsMessage<InvalidArgument>(HasSubstr("no --resize-shorter, as the data set was packed with")));
    EXPECT_TRUE(files_in(dir_ / "out") == files);
}

TEST_P(Target, AnUnfinishedOneKeepsItsOptions) {
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", dataset_->size())), Stopped);
    PackOptions other = options_;
    other.transcode.resize_shorter = 8;
    EXPECT_THAT([&] { pack(*dataset_, target(), other); },
                ThrowsMessage<InvalidArgument>(HasSubstr("no --resize-shorter, as the data set was begun with")));
    EXPECT_NO_THROW(pack(*dataset_, target(), options_));
}

TEST_P(Target, OnePackingAtATime) {
    PackOptions outer = options_;
    int tried = 0;
    outer.progress = [&](const PackProgress& progress) {
        if (tried++ == 0) {
            EXPECT_STREQ(progress.phase, "pack");
            EXPECT_THAT([&] { pack(*dataset_, target(), options_); },
                        ThrowsMessage<IoError>(HasSubstr("another process is writing")));
        }
    };
    const PackResult result = pack(*dataset_, target(), outer);
    EXPECT_TRUE(stored(*open_dataset(result.path, Split::train)) == stored(*dataset_));
}

TEST_P(Target, ExistingFilesAreNotTouched) {
    std::string name = GetParam().target;
    if (const std::size_t brace = name.find('{'); brace != std::string::npos) {
        name.replace(brace, name.find('}') + 1 - brace, "000007");
    }
    fs::create_directories(dir_ / "out");
    write_file(dir_ / "out" / name, "mine");
    EXPECT_THAT([&] { pack(*dataset_, target(), options_); }, ThrowsMessage<IoError>(HasSubstr("remove it first")));
    EXPECT_EQ(read_text(dir_ / "out" / name), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "out"), fs::directory_iterator()), 1);
}

TEST_P(Target, KilledBetweenTwoRenamesItIsFinishedLater) {
    const PackResult first = pack(*dataset_, target(), options_);
    const auto whole = files_in(dir_ / "out");
    for (std::size_t moved = 0; moved < whole.size(); ++moved) {  // back into the staging folder, except the first ones
        fs::path record;
        for (const auto& [name, content] : whole) {
            record = name.ends_with(".pack.json") ? fs::path(name) : record;
        }
        const std::string stem = record.string().substr(0, record.string().size() - 10);
        const fs::path folder = dir_ / "out" / (stem + ".part");
        fs::create_directories(folder);
        std::size_t at = 0;
        for (const auto& [name, content] : whole) {
            if (name == record.string()) {
                fs::rename(dir_ / "out" / name, folder / "pack.json");
            } else if (at++ >= moved) {
                fs::rename(dir_ / "out" / name, folder / name);
            }
        }
        const PackResult again = pack(*dataset_, target(), options_);
        EXPECT_TRUE(again.nothing_to_do);
        EXPECT_TRUE(files_in(dir_ / "out") == whole);
        EXPECT_FALSE(fs::exists(folder));
    }
}

TEST_P(Target, ARemovedOneIsPackedAnew) {
    pack(*dataset_, target(), options_);
    const auto whole = files_in(dir_ / "out");
    for (const auto& [name, content] : whole) {
        if (!name.ends_with(".json")) {
            fs::remove(dir_ / "out" / name);
        }
    }
    EXPECT_FALSE(pack(*dataset_, target(), options_).nothing_to_do);
    if (GetParam().same_bytes) {
        EXPECT_TRUE(files_in(dir_ / "out") == whole);
    }
    for (const auto& [name, content] : whole) {
        if (!name.ends_with(".json")) {
            write_file(dir_ / "out" / name, content + "x");
        }
    }
    EXPECT_THAT([&] { pack(*dataset_, target(), options_); },
                ThrowsMessage<InvalidArgument>(HasSubstr("pack.json lists, got ")));
}

TEST_P(Target, BadSamplesAreLeftOutAndListed) {
    if (*GetParam().data != '\0') {
        GTEST_SKIP() << "digits are never bad";
    }
    write_file(dir_ / "images/c1/5.jpg", std::string_view("no image"));
    write_file(dir_ / "images/c2/9.jpg", std::string_view("no image"));
    dataset_ = std::make_unique<ImageFolder>(dir_ / "images");
    EXPECT_THAT([&] { pack(*dataset_, target(), options_); }, ThrowsMessage<DataError>(HasSubstr("c1/5.jpg")));
    options_.skip_bad = true;
    EXPECT_THROW(pack(*dataset_, target(), stopping("pack", 11)), Stopped);
    const PackResult result = pack(*dataset_, target(), options_);
    ASSERT_EQ(result.skipped.size(), 2U);
    EXPECT_EQ(result.skipped[1].key, "c2/9.jpg");
    auto expected = std::vector<Stored>();
    Sample sample;
    const auto packed = open_dataset(result.path, Split::train);
    ASSERT_EQ(packed->size(), 10);
    for (std::int64_t i = 0; i < 10; ++i) {
        packed->read(i, sample);
        EXPECT_EQ(packed->key(i)[1] - '0', sample.label);
        EXPECT_NE(packed->key(i), "c1/5.jpg");
    }
    EXPECT_EQ(pack(*dataset_, target(), options_).skipped.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(
    All, Target,
    ::testing::Values(Case{"x.tar", "", true, "x.tar.part/x.tar"},
                      Case{"x-{000000..}.tar", "", true, "x.part/x-000000.tar"}, Case{"x.lmdb", "", false, nullptr},
                      Case{"x.h5", "", true, "x.h5.part/images"},
                      Case{"x.tar", "synth:digits?count=96", true, "x.tar.part/x.tar"},
                      Case{"x-{000000..}.tar", "synth:digits?count=96", true, "x.part/x-000000.tar"},
                      Case{"x.lmdb", "synth:digits?count=96", false, nullptr},
                      Case{"x.h5", "synth:digits?count=96", true, "x.h5.part/records"},
                      Case{"x.npz", "synth:digits?count=96", true, "x.npz.part/images"}));

// The file of class names is found for any archive name.
TEST(TarClasses, AreFoundWhateverTheNameEndsIn) {
    const TempDir dir;
    make_folder(dir / "images");
    const ImageFolder dataset(dir / "images");
    for (const char* name : {"imagenet2012.tar", "v2.tar", "2012.tar", "x-7.tar", "v3-{000000..}.tar",
                             "x-2012-{000000..}.tar", "x--{000000..}.tar", "7-{000000..}.tar"}) {
        const PackResult result = pack(dataset, dir / name, {});
        const auto packed = open_dataset(result.path, Split::train);
        EXPECT_TRUE(std::ranges::equal(packed->classes(), dataset.classes())) << name;
    }
}

TEST(TargetFormat, GoesByTheEnding) {
    EXPECT_EQ(target_format("a/x.stk").name, "stk");
    EXPECT_EQ(target_format("a/x.tar").name, "tar");
    EXPECT_FALSE(target_format("a/x.tar").shards);
    EXPECT_TRUE(target_format("a/x-{000000..}.tar").shards);
    EXPECT_EQ(target_format("x.h5").name, "hdf5");
    EXPECT_EQ(target_format("x.npz").name, "npz");
    for (const char* name : {"x", "x.zip", ".stk", "a/.npz", "-{000000..}.tar", "x.tar.gz", "", "a/"}) {
        EXPECT_THAT([&] { target_format(name); },
                    ThrowsMessage<InvalidArgument>(HasSubstr("data.stk, data.tar, data-{000000..}.tar, data.lmdb, "
                                                             "data.h5 or data.npz")))
            << name;
    }
    for (const char* name : {"x-{00..99}.tar", "x-%06d.tar", "x-*.tar", "x?.tar", "x[1].tar"}) {
        EXPECT_THAT([&] { target_format(name); }, ThrowsMessage<InvalidArgument>(HasSubstr("--shard-size"))) << name;
    }
}

}  // namespace
}  // namespace stoker::target_test
