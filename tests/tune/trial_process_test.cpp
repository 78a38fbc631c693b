// Children that answer, refuse, die and hang, as shell scripts.
#include "stoker/tune/trial_process.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace stoker {
namespace {

const std::string kFacts = to_json(TrialFacts{.device = "cpu", .samples = 7, .workers = 3, .format = "image_folder"});

std::vector<std::string> script(const std::string& rest) {
    return {"/bin/sh", "-c", "echo '" + kFacts + "'; " + rest};
}

std::string why(const std::function<void()>& call) {
    try {
        call();
    } catch (const TrialFailed& failed) {
        return failed.what();
    }
    return "";
}

class TrialProcessTest : public testing::Test {
  protected:
    std::atomic<int> stop_ = 0;
};

TEST(Measurement, SurvivesTheWayThroughALine) {
    Measurement one{.images = 640, .steps = 10, .seconds = 1.5, .cpu_seconds = 2.5, .peak_rss_mb = 300};
    one.device_bytes = 12;
    one.host.times[2] = std::chrono::nanoseconds(5);
    one.workers[Stage::pixels] = std::chrono::nanoseconds(6);
    one.workers.samples = 640;
    one.cached_bytes = 9;
    const Measurement two = parse_measurement(to_json(one));
    EXPECT_EQ(to_json(two), to_json(one));
    EXPECT_EQ(two.workers[Stage::pixels].count(), 6);
    EXPECT_DOUBLE_EQ(two.rate(), 640 / 1.5);
    EXPECT_THROW(parse_measurement("{}"), InternalError);
    EXPECT_THROW(parse_measurement("x"), InternalError);
}

TEST_F(TrialProcessTest, AnswersRequests) {
    const std::string answer = to_json(Measurement{.images = 20, .seconds = 2});
    TrialProcess trial(script("while read name seconds count; do echo '" + answer + "'; done"), stop_);
    EXPECT_EQ(trial.facts().workers, 3);
    EXPECT_EQ(trial.facts().format, "image_folder");
    EXPECT_EQ(trial.ask("measure", 0.1).rate(), 10);
    EXPECT_EQ(trial.ask("measure", 0.1).rate(), 10);
}

TEST_F(TrialProcessTest, AReasonIsPassedOn) {
    EXPECT_EQ(why([&] { TrialProcess({"/bin/sh", "-c", "echo '{\"error\": \"no memory\"}'"}, stop_); }), "no memory");
}

TEST_F(TrialProcessTest, AnEndIsAFailure) {
    EXPECT_EQ(why([&] { TrialProcess({"/bin/sh", "-c", "exit 3"}, stop_); }), "it ended with exit status 3");
    TrialProcess trial(script("read line; kill -9 $$"), stop_);
    EXPECT_THAT(why([&] { trial.ask("measure", 0.1); }), testing::HasSubstr("memory ran out"));
    EXPECT_EQ(why([&] { trial.ask("measure", 0.1); }), "the trial has ended");
}

TEST_F(TrialProcessTest, MemoryIsAReasonOfItsOwn) {
    const std::string line = R"(echo '{"error": "no memory", "memory": true}')";
    EXPECT_THROW(TrialProcess({"/bin/sh", "-c", line}, stop_), TrialOutOfMemory);
    TrialProcess trial(script("read line; kill -9 $$"), stop_);
    EXPECT_THROW(trial.ask("measure", 0.1), TrialOutOfMemory);
}

TEST_F(TrialProcessTest, WhateverGoesWrongIsTheTrialsFailure) {
    EXPECT_THAT(why([&] { TrialProcess({"/no/such/program"}, stop_); }), testing::HasSubstr("/no/such/program"));
    EXPECT_THAT(why([&] { TrialProcess({"/bin/sh", "-c", "echo nonsense"}, stop_); }), testing::HasSubstr("nonsense"));
    EXPECT_EQ(why([&] { TrialProcess({"/bin/sh", "-c", "echo '{\"error\": 7}'"}, stop_); }), "7");
    TrialProcess trial(script("read line; echo '{}'; sleep 100"), stop_);
    EXPECT_THAT(why([&] { trial.ask("measure", 0.1); }), testing::HasSubstr("its figures"));
}

TEST_F(TrialProcessTest, ALineWithoutAnEndIsNoLackOfMemory) {
    TrialProcess trial(script("read line; head -c 200000 /dev/zero; exec sleep 100"), stop_);
    EXPECT_EQ(why([&] { trial.ask("measure", 0.1); }), "its answer has more than 64 KiB");
}

// A slow loader's later answers take as long as its first one.
TEST_F(TrialProcessTest, PatienceFollowsTheSlowestAnswer) {
    Patience patience(60, 600);
    EXPECT_EQ(patience.limit("load"), 600);
    patience.took("start", 1);
    EXPECT_EQ(patience.limit("start"), 60);  // no later child holds the search for ten minutes
    EXPECT_EQ(patience.limit("load"), 600);
    patience.took("load", 30);
    patience.took("load", 2);
    EXPECT_EQ(patience.limit("load"), 300);
    patience.took("load", 100);
    EXPECT_EQ(patience.limit("load"), 600);
}

TEST_F(TrialProcessTest, AnswersTeachPatience) {
    const auto patience = std::make_shared<Patience>(0.2, 20);
    const std::string answer = to_json(Measurement{.images = 20, .seconds = 2});
    TrialProcess trial(script("read a; sleep 0.1; echo '" + answer + "'; read a; exec sleep 1000"), stop_, patience);
    trial.ask("measure", 0);
    EXPECT_LT(patience->limit("measure"), 19);
    EXPECT_EQ(patience->limit("load"), 20);
    EXPECT_THAT(why([&] { trial.ask("measure", 0); }), testing::HasSubstr("no answer within"));
}

TEST_F(TrialProcessTest, AHangingChildIsKilled) {
    TrialProcess trial(script("echo $$ > " + testing::TempDir() + "/trial.pid; exec sleep 1000"), stop_,
                       std::make_shared<Patience>(0.3, 0.3));
    EXPECT_EQ(why([&] { trial.ask("measure", 0.1); }), "no answer within 0 s");
    pid_t child = 0;
    std::ifstream(testing::TempDir() + "/trial.pid") >> child;
    ASSERT_GT(child, 0);
    EXPECT_NE(kill(child, 0), 0);
}

TEST_F(TrialProcessTest, TheStopFlagEndsTheWait) {
    TrialProcess trial(script("exec sleep 1000"), stop_);
    std::jthread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        stop_ = SIGINT;
    });
    EXPECT_THROW(trial.ask("measure", 100), TrialStopped);
}

}  // namespace
}  // namespace stoker
