// Ranks write a checkpoint together: the files are those of one writer, and damage to any rank's bytes is seen.
#include "stoker/train/run/checkpoint_parts.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/train/run/checkpoint_files.h"
#include "train/run/rank_runs.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::as_ranks;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::small_recipe;
using testing::TempDir;
using testing::text_of;
using testing::train_ranks;

constexpr const char* kLast = "checkpoints/7";
const std::vector<std::string> kParts = {"model.safetensors", "optimizer.safetensors", "ema.safetensors"};

Recipe sharded_recipe(const std::string& shard) {
    Recipe recipe = small_recipe(1);
    recipe.data.batch_size = 15;
    recipe.model.hidden = {24, 16};
    recipe.optimizer.name = "adam";
    recipe.train.ema = 0.9;
    recipe.train.shard = shard;
    return recipe;
}

Json written_in(const fs::path& checkpoint, const std::string& file) {
    return Json::parse(text_of(checkpoint / "state.json"))["files"][file];
}

TEST(CheckpointParts, EveryRankWritesItsElements) {
    const TempDir dir;
    train_ranks(sharded_recipe("full"), 3, dir / "full");
    train_ranks(sharded_recipe("optimizer"), 3, dir / "optimizer");
    for (const std::string& file : kParts) {
        const Json written = written_in(dir / "full" / kLast, file);
        ASSERT_EQ(written.size(), 3U) << file;
        for (const Json& rank : written) {
            EXPECT_GE(rank["bytes"].size(), 1U) << file;
        }
    }
    EXPECT_GE(written_in(dir / "optimizer" / kLast, "optimizer.safetensors")[2]["bytes"].size(), 1U);
    EXPECT_EQ(written_in(dir / "optimizer" / kLast, "model.safetensors")[2]["bytes"].size(), 0U) << "rank 0 has it";
}

TEST(CheckpointParts, ADamagedByteOfAnyRankIsSeen) {
    const TempDir dir;
    train_ranks(sharded_recipe("full"), 3, dir / "run");
    const fs::path checkpoint = dir / "run" / kLast;
    EXPECT_EQ(read_step(checkpoint), 7);
    for (const std::string& file : kParts) {
        const std::string good = text_of(checkpoint / file);
        for (const Json& rank : written_in(checkpoint, file)) {
            for (const Json& range : rank["bytes"]) {
                std::string bad = good;
                const auto begin = range[0].get<std::size_t>();
                const std::size_t at = begin == 0 ? range[1].get<std::size_t>() - 1 : begin;  // not in the header
                bad[at] = static_cast<char>(bad[at] ^ 1);
                std::ofstream(checkpoint / file, std::ios::binary) << bad;
                EXPECT_THROW(read_checkpoint(checkpoint), DataError) << file << " " << at;
            }
        }
        std::ofstream(checkpoint / file, std::ios::binary) << good;
        read_checkpoint(checkpoint);
    }
}

TEST(CheckpointParts, RangesMustCoverTheFile) {
    const std::string text = "0123456789";
    const auto record = [&](const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
        std::string all;
        for (const auto& [from, to] : ranges) {
            all += from < to && to <= text.size() ? text.substr(from, to - from) : "";
        }
        return Json::array({to_json(WrittenRanges{.hash = hash_text(all), .ranges = ranges})});
    };
    EXPECT_TRUE(is_as_written(as_bytes(text), record({{0, 4}, {4, 10}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), record({{0, 4}, {5, 10}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), record({{0, 4}, {3, 10}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), record({{0, 9}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), record({{0, 12}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), record({{0, 12}, {12, 10}})));
    EXPECT_FALSE(is_as_written(as_bytes(text), Json::array()));
    EXPECT_TRUE(is_as_written(as_bytes(text), Json(to_hex(hash_text(text)))));
}

// A rank in another working folder looks for the files elsewhere, as one on another host does.
TEST(CheckpointParts, WithoutACommonFileSystemRankZeroWritesAll) {
    const TempDir dir;
    const fs::path before = fs::current_path();
    fs::create_directories(dir / "elsewhere/run/checkpoints/.writing-7");
    for (const std::string& file : kParts) {
        std::ofstream(dir / "elsewhere/run/checkpoints/.writing-7" / file) << "of another run";
    }
    const auto errors = as_ranks(3, [&](const std::shared_ptr<Group>& group) {
        ASSERT_EQ(unshare(CLONE_FS), 0);
        ASSERT_EQ(chdir((group->rank() == 1 ? dir / "elsewhere" : dir.path()).c_str()), 0);
        Trainer trainer(sharded_recipe("full"), testing::odd_data(), nullptr, OptimizerKernel::fused, false, group);
        trainer.fit({.out = "run"});
    });
    EXPECT_THAT(errors, Each(""));
    EXPECT_EQ(fs::current_path(), before);
    train_ranks(sharded_recipe("full"), 3, dir / "common");
    for (const std::string& file : kParts) {
        EXPECT_TRUE(written_in(dir / "run" / kLast, file).is_string()) << file;
        EXPECT_TRUE(text_of(dir / "run" / kLast / file) == text_of(dir / "common" / kLast / file)) << file;
        EXPECT_EQ(text_of(dir / "elsewhere/run/checkpoints/.writing-7" / file), "of another run");
    }
    EXPECT_EQ(read_checkpoint(dir / "run" / kLast).model.size(), 6U);
}

// Another header would move all elements behind it.
TEST(CheckpointParts, RanksWithOtherMetadataWriteNothing) {
    const TempDir dir;
    EXPECT_THAT(as_ranks(2,
                         [&](const std::shared_ptr<Group>& group) {
                             StateParts model;
                             model.add_whole({{"weight", at::ones({4})}}, !group->first());
                             const std::string classes = group->first() ? "[\"ash\"]" : "[\"beech\"]";
                             const CheckpointParts parts{.model = model, .metadata = {{"classes", classes}}};
                             const fs::path folder = group->first() ? dir.path() : fs::path();
                             EXPECT_FALSE(write_parts(*group, folder, parts, group->first() ? "{}" : ""));
                         }),
                Each(""));
    EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(CheckpointParts, WhereAFileCannotBeMadeNoneIsComplete) {
    const TempDir dir;
    const auto errors = as_ranks(2, [&](const std::shared_ptr<Group>& group) {
        StateParts model;
        model.add_whole({{"weight", at::ones({4})}}, group->first());
        CheckpointParts parts{.model = model, .optimizer = {}, .ema = {}};
        const fs::path folder = dir / "checkpoint";
        if (group->first()) {
            fs::create_directory(folder);
            std::ofstream(folder / "model.safetensors") << "in the way";
        }
        write_parts(*group, group->first() ? folder : "", parts, group->first() ? "{}" : "");
    });
    EXPECT_THAT(errors[0], HasSubstr("model.safetensors"));
    EXPECT_NE(errors[1], "");
    EXPECT_FALSE(fs::exists(dir / "checkpoint/state.json"));
}

}  // namespace
}  // namespace stoker
