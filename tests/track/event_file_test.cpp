// Event files, parsed by the test itself: frames, CRCs, fields. tests/python/test_runs.py reads them with TensorBoard.
#include "stoker/track/event_file.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "stoker/base/crc32c.h"
#include "stoker/base/error.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using testing::TempDir;

template <typename Unsigned>
Unsigned fixed_at(std::string_view bytes, std::size_t at) {
    Unsigned value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

std::uint32_t masked(std::string_view bytes) {
    const std::uint32_t crc = crc32c(as_bytes(bytes));
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::vector<std::string> frames(const std::filesystem::path& path) {
    const std::string bytes = read_text(path);
    std::vector<std::string> messages;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto length = fixed_at<std::uint64_t>(bytes, at);
        EXPECT_EQ(fixed_at<std::uint32_t>(bytes, at + 8), masked(std::string_view(bytes).substr(at, 8)));
        messages.push_back(bytes.substr(at + 12, length));
        EXPECT_EQ(fixed_at<std::uint32_t>(bytes, at + 12 + length), masked(messages.back()));
        at += 16 + length;
    }
    return messages;
}

std::uint64_t take_varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes[0]);
        bytes.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
}

// The fields of a message, by number; the bytes of each.
std::multimap<std::uint64_t, std::string> fields(std::string_view message) {
    std::multimap<std::uint64_t, std::string> found;
    while (!message.empty()) {
        const std::uint64_t key = take_varint(message);
        std::size_t size = 0;
        if ((key & 7) == 0) {
            found.emplace(key >> 3, std::to_string(take_varint(message)));
            continue;
        }
        size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : take_varint(message);
        found.emplace(key >> 3, message.substr(0, size));
        message.remove_prefix(size);
    }
    return found;
}

TEST(EventFileTest, HoldsVersionStartAndScalars) {
    const TempDir dir;
    EventFile file({.folder = dir / "a/b", .first_step = 0, .wall_time = 1234.5});
    file.add(7, 1300.25, std::vector<Scalar>{{"train/loss", 0.5}, {"train/lr", 1e-3}});
    file.add(std::int64_t{1} << 40, 1301, std::vector<Scalar>{{"train/loss", std::nan("")}});
    file.flush();
    const std::vector<std::string> messages = frames(file.path());
    ASSERT_EQ(messages.size(), 4U);

    const auto version = fields(messages[0]);
    EXPECT_EQ(version.find(3)->second, "brain.Event:2");
    EXPECT_EQ(std::bit_cast<double>(fixed_at<std::uint64_t>(version.find(1)->second, 0)), 1234.5);
    EXPECT_EQ(fields(fields(messages[1]).find(7)->second).find(1)->second, "1");

    const auto event = fields(messages[2]);
    EXPECT_EQ(event.find(2)->second, "7");
    EXPECT_EQ(std::bit_cast<double>(fixed_at<std::uint64_t>(event.find(1)->second, 0)), 1300.25);
    const auto values = fields(event.find(5)->second);
    ASSERT_EQ(values.count(1), 2U);
    const auto loss = fields(values.find(1)->second);
    EXPECT_EQ(loss.find(1)->second, "train/loss");
    EXPECT_EQ(std::bit_cast<float>(fixed_at<std::uint32_t>(loss.find(2)->second, 0)), 0.5F);
    EXPECT_EQ(fields(messages[3]).find(2)->second, "1099511627776");
}

TEST(EventFileTest, LaterFilesSortBehindAndStartAtTheirStep) {
    const TempDir dir;
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) {  // all within a second
        EventFile file({.folder = dir.path(), .first_step = 10 * i});
        names.push_back(file.path().filename().string());
        EXPECT_TRUE(is_event_file(file.path()));
        const auto start = fields(frames(file.path())[1]);
        EXPECT_EQ(start.contains(2) ? start.find(2)->second : "0", std::to_string(10 * i));
    }
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), 12U);
    EXPECT_FALSE(is_event_file("metrics.jsonl"));
    EXPECT_FALSE(is_event_file("events.out.tfevents.1700000000.host.7.0")) << "as TensorBoard's own writer names them";
}

TEST(EventFileTest, WritesAtTheEndAndInBetween) {
    const TempDir dir;
    std::filesystem::path path;
    {
        EventFile file({.folder = dir.path()});
        path = file.path();
        for (int step = 1; step <= 5000; ++step) {
            file.add(step, step, std::vector<Scalar>{{"train/loss", 1.0 / step}});
        }
        EXPECT_GT(std::filesystem::file_size(path), 100'000U);
    }
    EXPECT_EQ(frames(path).size(), 5002U);
}

TEST(EventFileTest, AFolderThatCannotBeMadeIsAnError) {
    const TempDir dir;
    write_file(dir / "file", std::string_view("x"));
    EXPECT_THROW(EventFile({.folder = dir / "file"}), IoError);
    EXPECT_THROW(EventFile({.folder = dir / "file/inner"}), IoError);
}

}  // namespace
}  // namespace stoker
