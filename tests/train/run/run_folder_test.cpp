// The files that a run folder keeps and removes, and that a run that fails early leaves none.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "stoker/base/error.h"
#include "stoker/track/event_file.h"
#include "support/failing_flock.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::every;
using testing::live;
using testing::small_data;
using testing::SquareDataset;
using testing::TempDir;

TEST(RunFolder, KeepsTheNewestThreeCheckpoints) {
    const TempDir folder;
    live(every(2, false), folder / "run");
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints")) {
        names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, (std::set<std::string>{"18", "20", "21"}));
}

// A run folder that somebody hands over must not lead a run to other files of its user.
TEST(RunFolder, LinksAreRefusedAndWhatTheyLeadToStays) {
    for (const char* name : {"metrics.jsonl", "quarantine.jsonl", "checkpoints", "best", "recipe.toml",
                             "metrics.jsonl.damaged", "account.json"}) {
        const TempDir folder;
        const fs::path run = folder / "run";
        live(every(1, true), run, 3);
        const fs::path own = folder / "own";
        if (fs::exists(run / name)) {
            fs::rename(run / name, own);
        } else {
            std::ofstream(own) << "mine";
        }
        fs::create_symlink(own, run / name);
        const auto count = [&] {
            return fs::is_directory(own) ? static_cast<std::uintmax_t>(std::distance(fs::directory_iterator(own), {}))
                                         : fs::file_size(own);
        };
        const auto before = count();
        EXPECT_THROW(live(every(1, true), run), InvalidArgument) << name;
        EXPECT_EQ(count(), before) << name;
    }
}

TEST(RunFolder, ALinkToTheFolderItselfIsFollowed) {
    const TempDir folder;
    fs::create_directory(folder / "disk");
    fs::create_directory_symlink(folder / "disk", folder / "run");
    live(every(1, true), folder / "run", 3);
    EXPECT_TRUE(fs::exists(folder / "disk" / "metrics.jsonl"));
}

TEST(RunFolder, LeftoversOfAKilledProcessAreRemoved) {
    const TempDir folder;
    const fs::path checkpoints = folder / "run" / "checkpoints";
    live(every(1, true), folder / "run", 3);
    fs::create_directory(checkpoints / ".writing-9");
    std::ofstream(checkpoints / ".writing-9" / "state.json") << "half";
    fs::create_directory(checkpoints / "14");  // the newest, but incomplete without state.json
    std::ofstream(checkpoints / "14" / "model.safetensors") << "half";
    EXPECT_EQ(live(every(1, true), folder / "run").result.resumed_from_step, 3);
    EXPECT_FALSE(fs::exists(checkpoints / ".writing-9"));
    EXPECT_TRUE(fs::exists(checkpoints / "14" / "state.json"));
}

// If names cannot be exchanged, a process may be killed when the old checkpoint has lost its name and the new one
// has not got it.
TEST(RunFolder, ACheckpointThatWasBeingReplacedIsFound) {
    const TempDir folder;
    const fs::path checkpoints = folder / "run" / "checkpoints";
    live(every(1, false), folder / "run", 3);
    fs::copy(checkpoints / "2", checkpoints / ".replaced-best", fs::copy_options::recursive);
    fs::copy(checkpoints / "3", checkpoints / ".writing-3", fs::copy_options::recursive);
    fs::rename(checkpoints / "3", checkpoints / ".replaced-3");
    EXPECT_EQ(RunFolder(folder / "run").find_start("auto"), checkpoints / "3");
    EXPECT_EQ(read_step(folder / "run" / "best"), 2);
    fs::copy(checkpoints / "3", checkpoints / ".replaced-3", fs::copy_options::recursive);  // the new one had its name
    EXPECT_EQ(live(every(1, false), folder / "run").result.resumed_from_step, 3);
    EXPECT_FALSE(fs::exists(checkpoints / ".replaced-3"));
    EXPECT_FALSE(fs::exists(checkpoints / ".writing-3"));
}

// Without shuffling, so that the index of a bad sample decides in which step it is read. The loader reads sample 0 when
// it is made.
Recipe in_order() {
    Recipe recipe = every(1, true);
    recipe.data.shuffle = false;
    recipe.data.bad_samples = {};
    return recipe;
}

std::shared_ptr<SquareDataset> bad_at(std::int64_t bad) {
    auto source = std::make_shared<SquareDataset>(100);
    source->before_read = [bad](std::int64_t index) {
        if (index == bad) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    };
    return source;
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.insert(is_event_file(entry.path()) ? "events" : entry.path().filename().string());
    }
    return names;
}

TEST(RunFolder, ARunThatFailedInItsFirstStepLeavesNone) {
    const TempDir folder;
    fs::create_directory(folder / "made");
    for (const char* name : {"run", "made"}) {
        Trainer trainer(in_order(), {bad_at(3), nullptr});
        try {
            trainer.fit({.out = folder / name});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().index, 3);
        }
        EXPECT_EQ(names_in(folder / name), (std::set<std::string>{"failed.json", "quarantine.jsonl"}))
            << "the list of bad samples stays";
        EXPECT_FALSE(RunFolder(folder / name).exists()) << "the next run may begin there";
        Trainer again(in_order(), small_data());
        EXPECT_EQ(again.fit({.out = folder / name}).steps, 21);
        EXPECT_FALSE(fs::exists(folder / name / "quarantine.jsonl")) << "the list of an earlier run is removed";
    }
}

// The loss of its last step is not finite, so it leaves no checkpoint.
Recipe diverging() {
    Recipe recipe = in_order();
    recipe.optimizer = {.name = "sgd", .lr = 1e30};
    recipe.schedule.name = "constant";
    return recipe;
}

TEST(RunFolder, WhatWasTrainedBeforeAFailureIsInACheckpoint) {
    const TempDir folder;
    Trainer trainer(in_order(), {bad_at(77), nullptr});
    EXPECT_THROW(trainer.fit({.out = folder / "run"}), DataError);
    const std::set<std::string> left = {"checkpoints",   "curves.svg",       "events",     "failed.json",
                                        "metrics.jsonl", "quarantine.jsonl", "recipe.toml"};
    EXPECT_EQ(names_in(folder / "run"), left);
    EXPECT_EQ(find_checkpoint(folder / "run"), folder / "run/checkpoints/4");
    EXPECT_EQ(std::ranges::count(testing::metrics_of(folder / "run"), '\n'), 4)
        << "the steps of 16 samples before the bad one";
    const auto why = nlohmann::json::parse(testing::text_of(folder / "run" / "failed.json"));
    EXPECT_NE(why.at("error").get<std::string>().find("rubbish"), std::string::npos);
}

TEST(RunFolder, AFailedRunWithoutACheckpointStaysUntilTheNextRun) {
    const TempDir folder;
    Trainer trainer(diverging(), {small_data().train, nullptr});
    EXPECT_THROW(trainer.fit({.out = folder / "run"}), InvalidArgument);
    const std::set<std::string> left = {"curves.svg", "events", "failed.json", "metrics.jsonl", "recipe.toml"};
    EXPECT_EQ(names_in(folder / "run"), left);

    Trainer again(in_order(), small_data());
    EXPECT_EQ(again.fit({.out = folder / "run"}).steps, 21);
    Trainer alone(in_order(), small_data());
    alone.fit({.out = folder / "alone"});
    EXPECT_EQ(testing::metrics_of(folder / "run"), testing::metrics_of(folder / "alone"));
    EXPECT_EQ(names_in(folder / "run"), names_in(folder / "alone")) << "nothing is left of the run that failed";
    EXPECT_EQ(std::ranges::count_if(fs::directory_iterator(folder / "run"),
                                    [](const auto& entry) { return is_event_file(entry.path()); }),
              1);
}

TEST(RunFolder, ARepeatedFailureKeepsTheRecipeThatWasThere) {
    const TempDir folder;
    Trainer first(diverging(), {small_data().train, nullptr});
    EXPECT_THROW(first.fit({.out = folder / "run"}), InvalidArgument);
    std::ofstream(folder / "run" / "recipe.toml") << "mine\n";  // the recipe that the following runs are given
    const std::set<std::string> left = {"failed.json", "quarantine.jsonl", "recipe.toml"};
    for (int i = 0; i < 2; ++i) {
        Trainer second(in_order(), {bad_at(3), nullptr});
        EXPECT_THROW(second.fit({.out = folder / "run"}), DataError);
        EXPECT_EQ(names_in(folder / "run"), left);
        EXPECT_EQ(testing::text_of(folder / "run" / "recipe.toml"), "mine\n");
    }
}

TEST(RunFolder, AFailureInTheFirstStepRemovesOnlyWhatItMade) {
    const TempDir folder;
    fs::create_directories(folder / "run" / "checkpoints" / "mine");
    std::ofstream(folder / "run" / "recipe.toml") << "mine\n";
    Trainer trainer(in_order(), {bad_at(3), nullptr});
    EXPECT_THROW(trainer.fit({.out = folder / "run", .resume = "auto"}), DataError);
    const std::set<std::string> left = {"checkpoints", "failed.json", "quarantine.jsonl", "recipe.toml"};
    EXPECT_EQ(names_in(folder / "run"), left);
    EXPECT_EQ(testing::text_of(folder / "run" / "recipe.toml"), "mine\n");
    EXPECT_TRUE(fs::exists(folder / "run" / "checkpoints" / "mine"));
}

TEST(RunFolder, AFailureRightAfterAResumeLeavesTheRun) {
    const TempDir folder;
    live(in_order(), folder / "run", 3);
    const std::set<std::string> names = names_in(folder / "run");
    const std::string metrics = testing::metrics_of(folder / "run");
    const std::string recipe = testing::text_of(folder / "run" / "recipe.toml");
    const auto gone = std::make_shared<SquareDataset>(100);
    Recipe longer = in_order();
    longer.train.epochs = 5;
    longer.data.workers = 0;
    Trainer trainer(longer, {gone, small_data().val});
    gone->before_read = [](std::int64_t) { throw IoError({.where = "disk", .expected = "bytes", .got = "no answer"}); };
    EXPECT_THROW(trainer.fit({.out = folder / "run", .resume = "auto"}), IoError);
    EXPECT_TRUE(find_checkpoint(folder / "run"));
    EXPECT_EQ(testing::metrics_of(folder / "run"), metrics);
    EXPECT_EQ(testing::text_of(folder / "run" / "recipe.toml"), recipe) << "no step was trained with the longer recipe";
    std::set<std::string> left = names;
    left.insert("failed.json");
    EXPECT_EQ(names_in(folder / "run"), left);
    EXPECT_EQ(live(in_order(), folder / "run").result.steps, 21);
}

TEST(RunFolder, AFailureOfTheSystemInTheFirstStepLeavesNone) {
    const TempDir folder;
    const auto gone = std::make_shared<SquareDataset>(100);
    gone->before_read = [](std::int64_t index) {
        if (index == 7) {
            throw IoError({.where = "disk", .expected = "bytes", .got = "no answer"});
        }
    };
    fs::create_directory(folder / "made");
    for (const char* name : {"run", "made"}) {
        Trainer trainer(in_order(), {gone, nullptr});
        EXPECT_THROW(trainer.fit({.out = folder / name}), IoError);
    }
    EXPECT_FALSE(fs::exists(folder / "run"));
    EXPECT_TRUE(fs::exists(folder / "made") && fs::is_empty(folder / "made"))
        << "a folder that the user made stays, empty";
}

TEST(RunFolder, FailedRunWithACheckpointKeepsIt) {
    const TempDir folder;
    auto reads = std::make_shared<std::atomic<int>>(0);
    const auto bad = std::make_shared<SquareDataset>(100);
    bad->before_read = [reads](std::int64_t) {
        if (++*reads > 150) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    };
    Trainer trainer(every(1, false), {bad, nullptr});
    EXPECT_THROW(trainer.fit({.out = folder / "run"}), DataError);
    EXPECT_TRUE(find_checkpoint(folder / "run"));
    EXPECT_TRUE(fs::exists(folder / "run" / "failed.json"));
    EXPECT_FALSE(RunFolder(folder / "run").failed_early());
    bad->before_read = nullptr;
    Trainer again(every(1, false), {bad, nullptr});
    EXPECT_THROW(again.fit({.out = folder / "run"}), InvalidArgument) << "a run with a checkpoint is not replaced";
    EXPECT_EQ(again.fit({.out = folder / "run", .resume = "auto"}).steps, 21);
    EXPECT_FALSE(fs::exists(folder / "run" / "failed.json"));
}

TEST(RunFolder, ForeignFileOfARunsNameIsARunAndStays) {
    const TempDir folder;
    for (const char* name : {"metrics.jsonl", "account.json", "curves.svg"}) {
        const fs::path run = folder / name;
        fs::create_directory(run);
        std::ofstream(run / name) << "mine\n";
        Trainer trainer(every(1, true), small_data());
        EXPECT_THROW(trainer.fit({.out = run}), InvalidArgument) << name;
        EXPECT_EQ(testing::text_of(run / name), "mine\n");
        EXPECT_FALSE(fs::exists(run / "recipe.toml"));
    }
}

TEST(RunFolder, AFolderOfOtherFilesIsRefused) {
    const TempDir folder;
    fs::create_directories(folder / "data" / "cat");
    std::ofstream(folder / "labels.csv") << "path,label\n";
    for (const fs::path& run : {folder / "data", folder.path()}) {
        Trainer trainer(every(1, true), small_data());
        const std::set<std::string> before = names_in(run);
        try {
            trainer.fit({.out = run, .resume = "auto"});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const InvalidArgument& error) {
            const std::string text = error.what();
            EXPECT_NE(
                text.find("expected a run folder, or a new or empty folder, got a folder with other files, such as "),
                std::string::npos)
                << text;
        }
        EXPECT_EQ(names_in(run), before);
    }
    fs::create_directory(folder / "empty");
    const std::ofstream keep(folder / "empty" / ".keep");
    std::ofstream(folder / "empty" / "job-17.out") << "of a batch system\n";
    Trainer trainer(every(1, true), small_data());
    EXPECT_EQ(trainer.fit({.out = folder / "empty"}).steps, 21);
}

TEST(RunFolder, OtherProgramsEventFilesStay) {
    const TempDir folder;
    const std::string theirs = "events.out.tfevents.1700000000.host.7.0";
    std::ofstream(folder / theirs) << "theirs\n";
    for (const std::int64_t bad : {3, 3, -1}) {  // the bad sample is in the first step, or in none
        Trainer trainer(in_order(), {bad_at(bad), nullptr});
        if (bad >= 0) {
            EXPECT_THROW(trainer.fit({.out = folder.path()}), DataError);
        } else {
            EXPECT_EQ(trainer.fit({.out = folder.path()}).steps, 21);
        }
        EXPECT_EQ(testing::text_of(folder / theirs), "theirs\n") << bad;
    }
}

TEST(RunFolder, CreateRemovesNothingFromAFolderThatIsNoRun) {
    const TempDir folder;
    for (const char* name : {"curves.svg", "quarantine.jsonl", "notes"}) {
        std::ofstream(folder / name) << "mine\n";
    }
    RunFolder run(folder.path());
    run.create("recipe");
    run.fail("nothing was done", /*trained=*/false);
    for (const char* name : {"curves.svg", "quarantine.jsonl", "notes"}) {
        EXPECT_EQ(testing::text_of(folder / name), "mine\n") << name;
    }
    EXPECT_FALSE(fs::exists(folder / "recipe.toml"));
}

// Limits the size of files for its lifetime, like a full disk.
class FullDisk {
  public:
    explicit FullDisk(rlim_t bytes) {
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &was_), 0);
        const rlimit small{.rlim_cur = bytes, .rlim_max = was_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;
    ~FullDisk() {
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &was_), 0);
        std::signal(SIGXFSZ, signal_);
    }

  private:
    rlimit was_{};
    void (*signal_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST(RunFolder, AFullDiskLosesAndRepeatsNoLine) {
    const TempDir folder;
    RunFolder run(folder.path());
    run.create("recipe");
    std::string lines;
    for (int i = 0; i < 20; ++i) {
        const std::string line = fmt::format(R"({{"step":{}}})", i);
        run.metric(line);
        lines += line + "\n";
    }
    {
        const FullDisk full(25);  // in the middle of a line
        EXPECT_THROW(run.flush_metrics(), IoError);
        EXPECT_EQ(run.metrics_bytes(), 25);
        EXPECT_THROW(run.flush_metrics(), IoError);
    }
    run.flush_metrics();
    EXPECT_EQ(testing::text_of(folder / "metrics.jsonl"), lines);
    EXPECT_EQ(run.metrics_bytes(), std::ssize(lines));
}

TEST(RunFolder, FailingThrowsNothing) {
    RunFolder impossible(std::string(300, 'x'));  // longer than file names may be
    EXPECT_NO_THROW(impossible.fail("before it began", /*trained=*/false));
    const TempDir folder;
    RunFolder run(folder / "run");
    run.create("recipe");
    fs::remove_all(folder / "run");
    EXPECT_NO_THROW(run.fail("the folder is gone", /*trained=*/true));
    EXPECT_NO_THROW(run.fail("the folder is gone", /*trained=*/false));
}

TEST(RunFolder, ADamagedBestIsRemovedWithTheLaterCheckpoints) {
    const TempDir folder;
    const fs::path run = folder / "run";
    live(every(1, true), run);
    fs::copy(run / "checkpoints/21", run / "best");
    std::ofstream(run / "best/state.json") << "half";
    RunFolder(run).remove_checkpoints_after(7);
    EXPECT_TRUE(fs::exists(run / "checkpoints/7"));
    EXPECT_FALSE(fs::exists(run / "checkpoints/14"));
    EXPECT_FALSE(fs::exists(run / "best"));
}

TEST(RunFolder, LockKeepsASecondOneOutUntilItGoes) {
    const TempDir folder;
    std::optional<RunFolder> first(folder.path());
    first->lock();
    RunFolder second(folder.path());
    EXPECT_THROW(second.lock(), InvalidArgument);
    EXPECT_THROW(second.lock(), InvalidArgument) << "the refused one did not lock";
    EXPECT_NO_THROW(first->lock()) << "its own lock";
    first.reset();
    EXPECT_NO_THROW(second.lock());
}

TEST(RunFolder, TrainsWithOneWarningOnAFileSystemWithoutLocks) {
    const TempDir folder;
    for (const int code : {0, ENOLCK, EOPNOTSUPP}) {
        const testing::FailingFlock no_locks(code);
        std::vector<std::string> warnings;
        Trainer trainer(every(1, true), small_data());
        const fs::path run = folder / std::to_string(code);
        trainer.fit({.out = run, .on_warning = [&](const std::string& line) { warnings.push_back(line); }});
        EXPECT_TRUE(fs::exists(run / "checkpoints" / "21" / "state.json"));
        if (code == 0) {
            EXPECT_EQ(warnings, std::vector<std::string>());
        } else {
            ASSERT_EQ(warnings.size(), 1U);
            EXPECT_EQ(warnings[0], run.string() + ": the file system cannot lock this folder (" + errno_text(code) +
                                       "); do not train in it from two processes at once");
        }
    }
}

TEST(RunFolder, ASecondRunRemovesNothing) {
    const TempDir folder;
    RunFolder first(folder.path());
    first.lock();
    RunFolder second(folder.path());
    EXPECT_THROW(second.create("second"), InvalidArgument);
    first.create("first");
    second.fail("came second", /*trained=*/false);
    EXPECT_EQ(testing::text_of(folder / "recipe.toml"), "first");
}

TEST(RunFolder, TwoTrainersDoNotShareOne) {
    const TempDir folder;
    Trainer trainer(every(1, true), small_data());
    FitOptions options{.out = folder / "run"};
    options.on_step = [&](const Progress& progress) {
        if (progress.epoch == 2 && progress.batch == 3) {
            EXPECT_THROW(live(every(1, true), folder / "run"), InvalidArgument);
        }
    };
    const TrainResult result = trainer.fit(options);
    Trainer alone(every(1, true), small_data());
    EXPECT_EQ(live(every(1, true), folder / "run").result.resumed_from_step, 21) << "unlocked after the run";
    EXPECT_EQ(testing::figures(result.epochs), testing::figures(alone.fit({.out = folder / "alone"}).epochs));
    EXPECT_EQ(testing::metrics_of(folder / "run"), testing::metrics_of(folder / "alone"));
}

// Root may remove everything, so a test that runs as root gets another user id for the lifetime of this object.
class Nobody {
  public:
    explicit Nobody(const fs::path& folder) {
        constexpr uid_t kNobody = 65534;
        if (was_ == 0 && (::chown(folder.c_str(), kNobody, kNobody) != 0 || ::seteuid(kNobody) != 0)) {
            ADD_FAILURE() << "cannot change the user id";
        }
    }
    Nobody(const Nobody&) = delete;
    Nobody& operator=(const Nobody&) = delete;
    ~Nobody() { EXPECT_EQ(::seteuid(was_), 0); }

  private:
    uid_t was_ = ::geteuid();
};

TEST(RunFolder, OldCheckpointThatCannotBeRemovedStopsNoRun) {
    const TempDir folder;
    const Nobody nobody(folder.path());
    const fs::path checkpoints = folder / "run" / "checkpoints";
    Trainer trainer(every(2, false), small_data());
    std::int64_t steps = 0;
    FitOptions options{.out = folder / "run"};
    options.on_step = [&](const Progress&) {
        ++steps;
        if (steps == 7) {
            fs::permissions(checkpoints / "2", fs::perms::owner_read | fs::perms::owner_exec);
        } else if (steps == 15) {
            EXPECT_TRUE(fs::exists(checkpoints / ".old-2"));
            fs::permissions(checkpoints / ".old-2", fs::perms::owner_all);
        }
    };
    EXPECT_EQ(trainer.fit(options).steps, 21);
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints)) {
        names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, (std::set<std::string>{"18", "20", "21"}));
}

TEST(RunFolder, WithoutOneNothingIsWritten) {
    const TempDir folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    Trainer trainer(every(1, true), small_data());
    EXPECT_EQ(trainer.fit().epochs.size(), 3u);
    fs::current_path(before);
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace stoker
