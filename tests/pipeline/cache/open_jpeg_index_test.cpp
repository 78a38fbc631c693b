// The index's file is in the user's cache folder, under a name that depends on the data set's place alone. A loader
// gives the same bytes with it.
#include "stoker/pipeline/cache/open_jpeg_index.h"

#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "stoker/base/error.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"
#include "support/environment_variable.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

std::vector<std::byte> images_of(const std::shared_ptr<const Dataset>& dataset, std::shared_ptr<JpegIndex> index) {
    Loader loader(dataset, Transform({RandomResizedCrop{.height = 32, .width = 32}}),
                  {.batch_size = 4, .workers = 2, .epochs = 3, .seed = 5, .jpeg_index = std::move(index)});
    std::vector<std::byte> all;
    for (int epoch = 0; epoch < 3; ++epoch) {
        for (const auto& batch : loader) {
            const auto bytes = batch->field(kImageField);
            const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data);
            all.insert(all.end(), begin, begin + batch->used_bytes(kImageField));
        }
    }
    return all;
}

TEST(OpenJpegIndex, IsOneFileForOneDataSet) {
    const TempDir dir;
    const EnvironmentVariable cache("STOKER_CACHE", (dir / "cache").string());
    const auto path = [&](const std::string& data) { return open_jpeg_index(data)->path(); };
    EXPECT_EQ(path("data/train").parent_path(), dir / "cache/jpeg_index_1");
    EXPECT_EQ(path("data/train"), path("./data/../data/train"));
    EXPECT_EQ(path("data/train"), path(std::filesystem::absolute("data/train").string()));
    EXPECT_NE(path("data/train"), path("data/val"));
    EXPECT_EQ(path("data/train"), path("data/train/"));
    std::filesystem::create_directories(dir / "real");
    std::filesystem::create_directory_symlink(dir / "real", dir / "link");
    EXPECT_EQ(path((dir / "real").string()), path((dir / "link").string()));
    EXPECT_NE(path("s3://bucket/train"), path("s3://bucket/val"));
    EXPECT_EQ(path("https://host/a.tar?signature=1"), path("https://host/a.tar?signature=2"));
    EXPECT_FALSE(std::filesystem::exists(dir / "cache"));
}

TEST(OpenJpegIndex, LoadersGiveTheSameBytes) {
    const TempDir dir;
    const EnvironmentVariable cache("STOKER_CACHE", (dir / "cache").string());
    for (int i = 0; i < 9; ++i) {
        put(dir / ("data/all/" + std::to_string(i) + ".jpg"),
            encode_jpeg(picture(200 + i, 240, 3, static_cast<std::uint64_t>(i)).view(), {.quality = 95}));
    }
    const std::shared_ptr<const Dataset> dataset = open_dataset((dir / "data").string(), Split::train);
    const auto plain = images_of(dataset, nullptr);
    for (int run = 0; run < 2; ++run) {
        const std::shared_ptr<JpegIndex> index = open_jpeg_index((dir / "data").string());
        EXPECT_EQ(index->images(), run == 0 ? 0 : 9);
        EXPECT_EQ(images_of(dataset, index), plain);
    }
}

TEST(OpenJpegIndex, WithoutAHomeThereIsNone) {
    const EnvironmentVariable own("STOKER_CACHE", std::nullopt);
    const EnvironmentVariable all("XDG_CACHE_HOME", std::nullopt);
    const EnvironmentVariable home("HOME", std::nullopt);
    EXPECT_EQ(open_jpeg_index("data"), nullptr);
}

}  // namespace
}  // namespace stoker::testing
