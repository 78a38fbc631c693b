// The list of bad samples has each once, also after a resume and after a line that was cut short.
#include "stoker/train/run/quarantine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

class Named final : public Dataset {
  public:
    std::int64_t size() const override { return 10; }
    void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
    std::string path() const override { return "data/train"; }
};

std::vector<BadSample> bad(std::initializer_list<std::int64_t> indices) {
    std::vector<BadSample> samples;
    for (const std::int64_t index : indices) {
        samples.push_back({.index = index,
                           .key = "cat/" + std::to_string(index),
                           .offset = 12,
                           .reason = "expected a JPEG, got \"text\"",
                           .replaced_by = index + 1});
    }
    return samples;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    return lines;
}

TEST(Quarantine, ListsEachSampleOnceAlsoAfterAResume) {
    const testing::TempDir dir;
    const auto file = dir / "quarantine.jsonl";
    Quarantine first;
    first.open(file);
    first.add(Quarantine::lines({}, Named(), 0));
    EXPECT_FALSE(std::filesystem::exists(file)) << "no bad sample, no file";
    first.add(Quarantine::lines(bad({3, 4}), Named(), 0));
    first.add(Quarantine::lines(bad({4, 3, 5}), Named(), 0));
    Quarantine second;
    second.open(file);
    second.add(Quarantine::lines(bad({5, 6}), Named(), 1));
    const auto lines = lines_of(file);
    ASSERT_EQ(lines.size(), 4);
    EXPECT_EQ(lines[0], R"({"source":"data/train","key":"cat/3","offset":12,"reason":"expected a JPEG, got \"text\"",)"
                        R"("replaced_by":"4","rank":0})");
    EXPECT_EQ(nlohmann::json::parse(lines[3]).at("rank"), 1);
}

TEST(Quarantine, ALineThatWasCutShortSpoilsNoOther) {
    const testing::TempDir dir;
    const auto file = dir / "quarantine.jsonl";
    Quarantine first;
    first.open(file);
    first.add(Quarantine::lines(bad({3, 4}), Named(), 0));
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);
    Quarantine second;
    second.open(file);
    second.add(Quarantine::lines(bad({4, 5}), Named(), 0));
    second.add(Quarantine::lines(bad({6}), Named(), 0));
    std::vector<std::string> keys;
    for (const std::string& line : lines_of(file)) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_object()) {
            keys.push_back(json.at("key"));
        }
    }
    EXPECT_EQ(keys, (std::vector<std::string>{"cat/3", "cat/4", "cat/5", "cat/6"}));
}

TEST(Quarantine, ADeepLineIsNoSample) {
    const testing::TempDir dir;
    const auto file = dir / "quarantine.jsonl";
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    std::ofstream(file) << R"({"source": 1, "key": )" << deep << "}\n";
    Quarantine quarantine;
    quarantine.open(file);
    quarantine.add(Quarantine::lines(bad({3}), Named(), 0));
    EXPECT_EQ(lines_of(file).size(), 2);
}

TEST(Quarantine, ThrowsWhereItCannotWrite) {
    Quarantine quarantine;
    quarantine.open("/proc/none/quarantine.jsonl");
    EXPECT_THROW(quarantine.add(Quarantine::lines(bad({1}), Named(), 0)), IoError);
}

}  // namespace
}  // namespace stoker
