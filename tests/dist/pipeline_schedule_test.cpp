// Schedules do each pass once, in an order that cannot deadlock, and hold no more activations than they may.
#include "stoker/dist/pipeline_schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace stoker {
namespace {

using ::testing::ElementsAre;

constexpr auto k1f1b = PipelineOrder::one_forward_one_backward;

PipelineAction forward(std::int64_t micro_batch) {
    return {.backward = false, .micro_batch = micro_batch};
}

PipelineAction backward(std::int64_t micro_batch) {
    return {.backward = true, .micro_batch = micro_batch};
}

TEST(PipelineSchedule, IsThatOfThePapers) {
    EXPECT_THAT(pipeline_actions(PipelineOrder::gpipe, 0, 2, 3),
                ElementsAre(forward(0), forward(1), forward(2), backward(0), backward(1), backward(2)));
    EXPECT_THAT(pipeline_actions(k1f1b, 0, 2, 3),
                ElementsAre(forward(0), forward(1), backward(0), forward(2), backward(1), backward(2)));
    EXPECT_THAT(pipeline_actions(k1f1b, 1, 2, 3),
                ElementsAre(forward(0), backward(0), forward(1), backward(1), forward(2), backward(2)));
    EXPECT_EQ(pipeline_order("1f1b"), k1f1b);
    EXPECT_EQ(pipeline_order("gpipe"), PipelineOrder::gpipe);
}

TEST(PipelineSchedule, TheBubbleShrinksWithTheMicroBatches) {
    EXPECT_DOUBLE_EQ(bubble_share(4, 1), 0.75);
    EXPECT_DOUBLE_EQ(bubble_share(4, 9), 0.25);
    EXPECT_EQ(bubble_share(1, 5), 0);
}

// Stages as they run: each sends a result to a neighbour and receives what its next action needs.
class Simulation {
  public:
    explicit Simulation(const std::vector<std::vector<PipelineAction>>& stages) {
        for (const std::vector<PipelineAction>& actions : stages) {
            stages_.push_back({.actions = actions});
        }
    }

    // Sends block until the neighbour receives. A stage whose send waits may receive for its next action meanwhile, as
    // an exchange of two neighbours does, and nothing else. True: all stages did all of their actions.
    bool runs_with_blocking_sends() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
                moved = deliver(stage) || moved;
                moved = act(stage) || moved;
            }
        }
        return std::ranges::all_of(stages_, [](const State& state) { return state.next == state.actions.size(); });
    }

  private:
    struct State {
        std::vector<PipelineAction> actions;
        std::size_t next = 0;                                  // the action that comes next
        std::optional<PipelineAction> sending = std::nullopt;  // the one whose result nobody has received yet
        bool received = false;                                 // the input of the next action
    };

    // The neighbour that gets the result of `action`, or that sends its input; -1 for neither.
    int neighbour(std::size_t stage, const PipelineAction& action, bool sends) const {
        const int other = static_cast<int>(stage) + (action.backward == sends ? -1 : 1);
        return other < static_cast<int>(stages_.size()) ? other : -1;
    }

    // The result that `stage` sends reaches the neighbour, if that waits for it.
    bool deliver(std::size_t stage) {
        State& from = stages_[stage];
        if (!from.sending) {
            return false;
        }
        const int other = neighbour(stage, *from.sending, /*sends=*/true);
        State& to = stages_[static_cast<std::size_t>(other)];
        if (to.next == to.actions.size() || to.received || to.actions[to.next] != *from.sending) {
            return false;
        }
        to.received = true;
        from.sending.reset();
        return true;
    }

    bool act(std::size_t stage) {
        State& state = stages_[stage];
        if (state.next == state.actions.size() || state.sending) {
            return false;
        }
        const PipelineAction action = state.actions[state.next];
        if (neighbour(stage, action, /*sends=*/false) >= 0 && !state.received) {
            return false;
        }
        ++state.next;
        state.received = false;
        if (neighbour(stage, action, /*sends=*/true) >= 0) {
            state.sending = action;
        }
        return true;
    }

    std::vector<State> stages_;
};

class Schedules : public ::testing::TestWithParam<std::tuple<PipelineOrder, int, std::int64_t>> {};

TEST_P(Schedules, DoNotDeadlock) {
    const auto [order, stages, micro_batches] = GetParam();
    std::vector<std::vector<PipelineAction>> all;
    for (int stage = 0; stage < stages; ++stage) {
        all.push_back(pipeline_actions(order, stage, stages, micro_batches));
    }
    EXPECT_TRUE(Simulation(all).runs_with_blocking_sends());
}

TEST_P(Schedules, DoEachPassOnceAndHoldNoMoreThanTheyMay) {
    const auto [order, stages, micro_batches] = GetParam();
    for (int stage = 0; stage < stages; ++stage) {
        const auto actions = pipeline_actions(order, stage, stages, micro_batches);
        std::int64_t forwards = 0;
        std::int64_t backwards = 0;
        std::int64_t most = 0;
        for (const PipelineAction& action : actions) {
            EXPECT_EQ(action.micro_batch, action.backward ? backwards : forwards) << "in order";
            ++(action.backward ? backwards : forwards);
            ASSERT_GE(forwards, backwards);
            most = std::max(most, forwards - backwards);
        }
        EXPECT_EQ(forwards, micro_batches);
        EXPECT_EQ(backwards, micro_batches);
        EXPECT_EQ(most, most_in_flight(order, stage, stages, micro_batches));
        EXPECT_EQ(most, order == k1f1b ? std::min<std::int64_t>(stages - stage, micro_batches) : micro_batches);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, Schedules,
                         ::testing::Combine(::testing::Values(k1f1b, PipelineOrder::gpipe),
                                            ::testing::Values(1, 2, 3, 4, 7), ::testing::Values(1, 2, 3, 4, 8, 17)));

// The second stage wants two micro-batches before it goes back, the first sends one at a time.
TEST(PipelineSchedule, TheSimulationFindsADeadlock) {
    const std::vector<PipelineAction> one_at_a_time = {forward(0), backward(0), forward(1), backward(1)};
    const std::vector<PipelineAction> both = {forward(0), forward(1), backward(0), backward(1)};
    EXPECT_FALSE(Simulation({one_at_a_time, both}).runs_with_blocking_sends());
    EXPECT_TRUE(Simulation({both, both}).runs_with_blocking_sends());
}

}  // namespace
}  // namespace stoker
