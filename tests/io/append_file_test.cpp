// Appending, cutting back and hashing of files that writers resume.
#include "stoker/io/append_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stoker/base/error.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

TEST(AppendFile, ResumesAtTheSizeThatIsKept) {
    const TempDir dir;
    std::vector<std::byte> bytes(3'000'000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    const std::span<const std::byte> all(bytes);
    std::uint64_t hash = 0;
    {
        AppendFile file(dir / "x");
        file.append(all.first(1000));
        file.append(all.subspan(1000, 2'000'000));  // more than the buffer holds
        file.sync();
        EXPECT_EQ(file.take_hash(), hash_bytes(all.first(2'001'000)));
        file.append(all.first(500));
    }
    {
        AppendFile file(dir / "x", 1500);
        EXPECT_EQ(fs::file_size(dir / "x"), 1500U);
        file.append(all.subspan(1500));
        file.replace(3, all.subspan(3, 10));
        hash = file.take_hash();
        file.sync();
        EXPECT_THROW(file.replace(2'999'995, all.first(10)), InternalError);
    }
    EXPECT_TRUE(std::ranges::equal(as_bytes(read_text(dir / "x")), all));
    EXPECT_EQ(hash, hash_range(dir / "x", 1500, 3'000'000));
    EXPECT_THROW(AppendFile(dir / "x", 3'000'001), IoError);
    EXPECT_THAT([] { AppendFile file("/dev/null"); },  // can be opened, but not cut
                ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("Invalid argument")));
    EXPECT_THROW(hash_range(dir / "x", 0, 3'000'001), IoError);
}

}  // namespace
}  // namespace stoker
