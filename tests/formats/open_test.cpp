// The reader that each path opens, and the one-line error for each path that none can read.
#include "stoker/formats/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/data.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempDir;

template <typename Kind>
std::string error_of(const std::string& data) {
    try {
        open_dataset(data, Split::train);
    } catch (const Kind& error) {
        return error.what();
    }
    return "opened";
}

const auto kListsFormats =
    AllOf(HasSubstr("one subfolder of images for each class, IDX"), HasSubstr(".npy, .npz, .safetensors, .pt"),
          HasSubstr("synth:digits"), HasSubstr("docs/data.md"), Not(HasSubstr("\n")));
const auto kPathDoesNotExist =
    AllOf(HasSubstr("expected a data set, got"), HasSubstr("docs/data.md"), Not(HasSubstr("\n")));

TEST(Open, ImageFolder) {
    const TempDir dir;
    fs::create_directories(dir / "cat");
    write_file(dir / "cat/1.jpg", std::string_view("x"));
    for (const Split split : {Split::train, Split::test}) {
        const auto dataset = open_dataset(dir.path().string(), split);
        EXPECT_EQ(dataset->format(), "image_folder");
        EXPECT_EQ(dataset->key(0), "cat/1.jpg");
    }
    EXPECT_EQ(open_dataset(dir.path().string() + "/", Split::train)->key(0), "cat/1.jpg");
    EXPECT_FALSE(has_splits(dir.path().string()));
}

TEST(Open, IdxDirectory) {
    const TempDir dir;
    const std::string image{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 77};
    write_file(dir / "train-images-idx3-ubyte", image);
    write_file(dir / "train-labels-idx1-ubyte", std::string{0, 0, 8, 1, 0, 0, 0, 1, 4});
    const auto dataset = open_dataset(dir.path().string(), Split::train);
    EXPECT_EQ(dataset->format(), "idx");
    EXPECT_EQ(dataset->key(0), "train/0");
    EXPECT_TRUE(has_splits(dir.path().string()));
    EXPECT_THROW(open_dataset(dir.path().string(), Split::test), DataError);
}

TEST(Open, Mnist) {
    STOKER_SKIP_WITHOUT(mnist, "mnist");
    EXPECT_TRUE(has_splits(mnist.string()));
    const auto train = open_dataset(mnist.string(), Split::train);
    const auto test = open_dataset(mnist.string(), Split::test);
    EXPECT_EQ(train->size(), 60'000);
    EXPECT_EQ(test->size(), 10'000);
    EXPECT_EQ(test->key(9'999), "test/9999");
}

TEST(Open, SynthDigits) {
    EXPECT_TRUE(has_splits("synth:digits"));
    EXPECT_TRUE(has_splits("synth:digits?count=5"));
    EXPECT_EQ(open_dataset("synth:digits", Split::train)->size(), 60'000);
    EXPECT_EQ(open_dataset("synth:digits", Split::test)->size(), 10'000);
    EXPECT_EQ(open_dataset("synth:digits?count=1200", Split::train)->size(), 1200);
    EXPECT_EQ(open_dataset("synth:digits?count=1200", Split::test)->size(), 200);
    EXPECT_EQ(open_dataset("synth:digits?count=3", Split::test)->size(), 1);

    const auto pixels = [](const std::string& data) {
        Sample sample;
        open_dataset(data, Split::train)->read(1, sample);
        return std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size());
    };
    const std::string seed_0 = pixels("synth:digits");
    EXPECT_EQ(seed_0.size(), 784u);
    EXPECT_EQ(pixels("synth:digits?seed=0&count=7"), seed_0);
    EXPECT_EQ(pixels("synth:digits?count=7&seed=9"), pixels("synth:digits?seed=9"));
    EXPECT_NE(pixels("synth:digits?seed=9"), seed_0);
}

TEST(Open, RefusesBadSynthParameters) {
    for (const char* data :
         {"synth:", "synth:photos", "synth:digitsx", "synth:digits?", "synth:digits?count",
          "synth:digits?count=", "synth:digits?count=0", "synth:digits?count=-5", "synth:digits?count=5x",
          "synth:digits?count=99999999999999999999", "synth:digits?seed=-1", "synth:digits?seed=1.5",
          "synth:digits?size=3", "synth:digits?count=5&", "synth:digits?&count=5"}) {
        EXPECT_THAT(error_of<InvalidArgument>(data), Not(HasSubstr("opened"))) << data;
    }
    EXPECT_THAT(error_of<InvalidArgument>("synth:digits?count=5x"),
                HasSubstr("[synth:digits?count=5x] expected count to be an integer of at least 1, got \"5x\""));
    EXPECT_FALSE(has_splits("synth:photos"));
}

TEST(Open, ErrorsListTheFormats) {
    const TempDir dir;
    const std::string absent = (dir / "absent").string();
    EXPECT_THAT(error_of<IoError>(absent),
                AllOf(kPathDoesNotExist, HasSubstr("[" + absent + "]"), HasSubstr("a path that does not exist")));
    EXPECT_THAT(error_of<IoError>(""), kPathDoesNotExist);
    EXPECT_FALSE(has_splits(absent));
    std::filesystem::create_directory(dir / "train");
    EXPECT_THAT(error_of<IoError>((dir / "trian").string()),
                HasSubstr("did you mean \"" + (dir / "train").string() + "\"?"));
    EXPECT_THAT(error_of<IoError>(absent), HasSubstr("has train; give a path"));
    std::filesystem::remove(dir / "train");

    EXPECT_THAT(error_of<DataError>(dir.path().string()), AllOf(kListsFormats, HasSubstr("got an empty folder")));
    const std::string file = (dir / "notes.txt").string();
    write_file(file, std::string_view("x"));
    EXPECT_THAT(error_of<DataError>(dir.path().string()),
                AllOf(kListsFormats, HasSubstr("without any of these, but with notes.txt")));
    EXPECT_THAT(error_of<Unsupported>(file), AllOf(kListsFormats, HasSubstr("got a file of another kind")));
    EXPECT_FALSE(has_splits(file));
    EXPECT_THAT(error_of<Unsupported>("https://example.org/x.bin"), HasSubstr("behind a URL: x.stk, x.tar"));

    write_file(dir / "1.PNG", std::string_view("x"));
    EXPECT_THAT(error_of<DataError>(dir.path().string()), HasSubstr("move the images into a subfolder"));
}

TEST(Open, ErrorsForFilesThatAreNoDataSets) {
    const TempDir dir;
    for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
             {"photos.zip", "got an archive; unpack it"},
             {"labels.tsv", "got a table; save it as .csv"},
             {"Film.MP4", "got a video; give the folder"},
             {"cat.JPG", "got one image; give the folder"},
             {"cat.svg", "got an image of an unsupported type; convert"},
             {"train-images-idx3-ubyte.gz", "got one file of a data set; give the folder that holds it"},
             {"shard-000000.stk", "got a file; an stk data set is a folder"},
             {"r.toml", "got a recipe; give the path in its data.train"}}) {
        const std::string file = (dir / name).string();
        write_file(file, std::string_view("x"));
        EXPECT_THAT(error_of<Unsupported>(file), HasSubstr("[" + file + "] expected a data set, " + words)) << name;
    }
    std::filesystem::create_directory(dir / "zipped");
    write_file(dir / "zipped" / "photos.zip", std::string_view("x"));
    write_file(dir / "zipped" / ".DS_Store", std::string_view("x"));
    EXPECT_THAT(error_of<DataError>((dir / "zipped").string()), HasSubstr("but with photos.zip; unpack it"));
    std::filesystem::remove(dir / "zipped" / "photos.zip");
    write_file(dir / "zipped" / "train.csv", std::string_view("x"));
    EXPECT_THAT(error_of<DataError>((dir / "zipped").string()), HasSubstr("give its path, or name it labels.csv"));
}

}  // namespace
}  // namespace stoker
