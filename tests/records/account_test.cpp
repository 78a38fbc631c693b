// Every nanosecond is counted in exactly one phase, for any nesting of spans.
#include "stoker/records/account.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>

#include "stoker/records/accounting.h"
#include "stoker/records/stages.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Phase phase_at(std::size_t i) {
    return static_cast<Phase>(i);
}

nanoseconds time_of(const StepRecord& record, Phase phase) {
    return record.times[static_cast<std::size_t>(phase)];
}

TEST(Account, NamesAreThoseOfTheDocument) {
    std::string names;
    for (std::size_t i = 0; i < kPhases; ++i) {
        names += std::string(phase_name(phase_at(i))) + " ";
    }
    EXPECT_EQ(names, "wait copy forward backward optimizer step communication sync evaluate checkpoint unmeasured ");
}

TEST(Account, PartsSumToTheWallTime) {
    const auto before = Account::Clock::now();
    Account account;
    const auto begin = Account::Clock::now();
    for (int i = 0; i < 2000; ++i) {
        const PhaseSpan outer(account, phase_at(static_cast<std::size_t>(i) % kPhases));
        const PhaseSpan inner(account, phase_at(static_cast<std::size_t>(i * 7) % kPhases));
    }
    const auto end = Account::Clock::now();
    const StepRecord record = account.take_record();
    const auto after = Account::Clock::now();
    EXPECT_GE(record.total(), end - begin);
    EXPECT_LE(record.total(), after - before);
    double shares = 0;
    nanoseconds sum{0};
    for (std::size_t i = 0; i < kPhases; ++i) {
        EXPECT_GE(record.times[i].count(), 0);
        shares += record.share(phase_at(i));
        sum += record.times[i];
    }
    EXPECT_EQ(sum, record.total());
    EXPECT_NEAR(shares, 1.0, 1e-12);
}

TEST(Account, AListenerHearsEachChangeOfPhase) {
    struct Heard : PhaseListener {
        std::string phases;
        void entered(Phase phase) noexcept override { phases += std::string(phase_name(phase)) + " "; }
    } heard;
    Account account;
    { const PhaseSpan before(account, Phase::copy); }
    account.listen(&heard);
    {
        const PhaseSpan outer(account, Phase::forward);
        account.take_record();
        const PhaseSpan same(account, Phase::forward);
        const PhaseSpan inner(account, Phase::backward);
    }
    account.listen(nullptr);
    { const PhaseSpan after(account, Phase::wait); }
    EXPECT_EQ(heard.phases, "forward backward forward unmeasured ");
}

// The shortest of several tries, since a busy machine may suspend the thread at any point.
template <typename Make>
StepRecord least_of(Make make) {
    StepRecord best = make();
    for (int i = 0; i < 4; ++i) {
        const StepRecord record = make();
        if (record.total() < best.total()) {
            best = record;
        }
    }
    return best;
}

// A pause in one phase is counted in that phase and in no other.
TEST(Account, APauseLandsInItsPhaseAlone) {
    constexpr auto kPause = milliseconds(20);
    for (std::size_t slow = 0; slow < kPhases; ++slow) {
        const StepRecord record = least_of([&] {
            Account account;
            for (std::size_t i = 0; i < kPhases; ++i) {
                const PhaseSpan span(account, phase_at(i));
                if (i == slow) {
                    std::this_thread::sleep_for(kPause);
                }
            }
            return account.take_record();
        });
        EXPECT_GE(record.times[slow], kPause) << phase_name(phase_at(slow));
        EXPECT_LT(record.total() - record.times[slow], kPause / 2) << phase_name(phase_at(slow));
    }
}

TEST(Account, ANestedPhaseSuspendsTheOuterOne) {
    const StepRecord record = least_of([] {
        Account account;
        {
            const PhaseSpan backward(account, Phase::backward);
            std::this_thread::sleep_for(milliseconds(15));
            {
                const PhaseSpan communication(account, Phase::communication);
                std::this_thread::sleep_for(milliseconds(30));
            }
            std::this_thread::sleep_for(milliseconds(15));
        }
        return account.take_record();
    });
    EXPECT_GE(time_of(record, Phase::backward), milliseconds(30));
    EXPECT_LT(time_of(record, Phase::backward), milliseconds(55));
    EXPECT_GE(time_of(record, Phase::communication), milliseconds(30));
    EXPECT_LT(time_of(record, Phase::communication), milliseconds(55));
}

TEST(Account, SpansEndInThePhaseThatRanBefore) {
    Account account;
    EXPECT_EQ(account.enter(Phase::forward), Phase::unmeasured);
    {
        const PhaseSpan span(account, Phase::copy);
        const PhaseSpan same(account, Phase::copy);
    }
    EXPECT_EQ(account.enter(Phase::unmeasured), Phase::forward);
}

TEST(Account, AnExceptionClosesItsSpan) {
    Account account;
    try {
        const PhaseSpan span(account, Phase::forward);
        throw 1;
    } catch (int) {
    }
    EXPECT_EQ(account.enter(Phase::wait), Phase::unmeasured);
}

TEST(Account, RecordsSumExactly) {
    const auto begin = Account::Clock::now();
    Account account;
    PhaseTimes sum{};
    for (int step = 0; step < 50; ++step) {
        const PhaseSpan span(account, phase_at(static_cast<std::size_t>(step) % kPhases));
        const StepRecord record = account.take_record();  // within a phase: the rest of it belongs to the next record
        for (std::size_t i = 0; i < kPhases; ++i) {
            sum[i] += record.times[i];
        }
    }
    EXPECT_EQ(account.sum().times, sum);
    account.take_record();
    EXPECT_LE(account.sum().total(), Account::Clock::now() - begin);
}

TEST(Account, RestoreContinuesFromASum) {
    StepRecord saved;
    saved.times[static_cast<std::size_t>(Phase::forward)] = std::chrono::hours(1);
    Account account;
    std::this_thread::sleep_for(milliseconds(5));  // belongs neither to the saved run nor to the resumed one
    const auto begin = Account::Clock::now();
    account.restore(saved);
    const StepRecord first = account.take_record();
    EXPECT_LE(first.total(), Account::Clock::now() - begin);
    EXPECT_EQ(account.sum().total(), first.total() + std::chrono::hours(1));
    EXPECT_EQ(time_of(account.sum(), Phase::forward), std::chrono::hours(1) + time_of(first, Phase::forward));
}

TEST(Account, JsonHasEveryShare) {
    StepRecord record;
    record.times[static_cast<std::size_t>(Phase::wait)] = milliseconds(500);
    record.times[static_cast<std::size_t>(Phase::forward)] = milliseconds(1500);
    const auto json = nlohmann::json::parse(account_json(record));
    EXPECT_EQ(json.size(), kPhases + 2);
    EXPECT_EQ(json.at("schema"), 1);
    EXPECT_EQ(json.at("seconds"), 2.0);
    EXPECT_EQ(json.at("wait"), 0.25);
    EXPECT_EQ(json.at("forward"), 0.75);
    EXPECT_EQ(json.at("unmeasured"), 0.0);
    EXPECT_EQ(nlohmann::json::parse(account_json({})).at("wait"), 0.0) << "no time, no share";
}

TEST(StageClock, ChargesEachLapToItsStage) {
    const auto begin = std::chrono::steady_clock::now();
    StageTimes times;
    StageClock clock(times);
    std::this_thread::sleep_for(milliseconds(20));
    clock.lap(Stage::read);
    clock.lap(Stage::pixels);
    std::this_thread::sleep_for(milliseconds(10));
    clock.lap(Stage::augment);
    EXPECT_LE(times[Stage::read] + times[Stage::pixels] + times[Stage::augment],
              std::chrono::steady_clock::now() - begin);
    EXPECT_GE(times[Stage::read], milliseconds(20));
    EXPECT_GE(times[Stage::augment], milliseconds(10));
    EXPECT_EQ(times[Stage::blocked].count(), 0);
    times.samples = 3;
    StageTimes sum = times;
    sum += times;
    EXPECT_EQ(sum[Stage::read], 2 * times[Stage::read]);
    EXPECT_EQ(sum.samples, 6);
}

TEST(StageClock, ReadsNoClockWhileTheAccountIsOff) {
    StageTimes times;
    StageClock clock(times);
    set_accounting(false);
    std::this_thread::sleep_for(milliseconds(1));
    clock.lap(Stage::read);
    set_accounting(true);
    EXPECT_EQ(times[Stage::read].count(), 0);
    clock.lap(Stage::read);
    EXPECT_GE(times[Stage::read], milliseconds(1));
}

TEST(StageClock, DoesNothingWhereItIsOff) {
    StageTimes times;
    StageClock clock(times, false);
    std::this_thread::sleep_for(milliseconds(1));
    clock.lap(Stage::read);
    clock.move(Stage::pixels, Stage::entropy, milliseconds(1));
    EXPECT_EQ(times[Stage::read].count(), 0);
    EXPECT_EQ(times[Stage::entropy].count(), 0);
}

// Short samples are timed one in 61, long ones all; the stages share the whole time of a task in both cases, also of a
// task without a timed sample.
TEST(StageSampler, TheWholeTimeIsExact) {
    for (const auto& [length, timed] : {std::pair{milliseconds(0), 0}, std::pair{milliseconds(1), 32}}) {
        StageSampler sampler;
        StageTimes times;
        int least = 32;  // timed samples of a task; a task that lost its core is not short
        for (int task = 0; task < 10; ++task) {
            int on = 0;
            times = {};
            const auto begin = std::chrono::steady_clock::now();
            sampler.begin_task(stage_now());
            for (int i = 0; i < 32; ++i) {
                sampler.next_sample();
                on += sampler.on() ? 1 : 0;
                StageClock clock(sampler.timed(), sampler.on());
                std::this_thread::sleep_for(length);
                clock.lap(Stage::read);
                clock.lap(Stage::augment);
                ++sampler.timed().samples;
            }
            sampler.end_task(times, stage_now());
            const std::chrono::nanoseconds whole = std::chrono::steady_clock::now() - begin;
            least = std::min(least, on);
            EXPECT_EQ(times.samples, 32);
            EXPECT_LE(times[Stage::read] + times[Stage::augment], whole);
            EXPECT_GE(times[Stage::read], 32 * length * 9 / 10);
            EXPECT_GT(times[Stage::read].count(), 0);
        }
        EXPECT_EQ(least, timed);
    }
}

TEST(StageClock, NamesAreThoseOfTheDocument) {
    EXPECT_EQ(stage_name(Stage::read), "read");
    EXPECT_EQ(stage_name(Stage::pixels), "pixels");
    EXPECT_EQ(stage_name(Stage::augment), "augment");
    EXPECT_EQ(stage_name(Stage::blocked), "blocked");
}

}  // namespace
}  // namespace stoker
