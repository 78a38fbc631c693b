// The ring between workers and consumer: order, back-pressure, changes while it runs, errors, shutdown.
#include "stoker/pipeline/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

namespace stoker {
namespace {

using std::chrono::milliseconds;
constexpr std::int64_t kCapacity = 40;
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

// A ring of batches of int64s whose value i is sequence * 1000 + i, and the threads that fill them.
class RingBench {
  public:
    explicit RingBench(std::int64_t end, std::function<std::int64_t(std::int64_t)> size_of = nullptr,
                       std::int64_t first = 0)
        : ring(std::make_shared<BatchRing>(
              [this] {
                  if (refuse_slots) {
                      throw std::bad_alloc();
                  }
                  ++slots;
                  return std::make_unique<Batch>(std::vector<FieldSpec>{{.name = "v", .dtype = DType::int64}},
                                                 kCapacity, host_allocator());
              },
              [this, size_of](Batch& batch, std::int64_t sequence) {
                  batch.reset(0, sequence, size_of ? size_of(sequence) : kCapacity);
                  opened = sequence + 1;
              },
              first, end)) {}
    RingBench(const RingBench&) = delete;
    RingBench& operator=(const RingBench&) = delete;
    ~RingBench() {
        if (ring) {
            ring->stop();
        }
        join();
    }

    void start(int workers) {
        ring->set_workers(workers);
        for (int id = static_cast<int>(threads.size()); id < workers; ++id) {
            threads.emplace_back([this, id, held = ring] {
                while (const auto task = held->take(id)) {
                    fill(*held, *task);
                }
                ++ended;
            });
        }
    }
    void join() {
        for (auto& thread : threads) {
            thread.join();
        }
        threads.clear();
    }

    std::shared_ptr<BatchRing> ring;
    std::atomic<int> slots{0};
    std::atomic<bool> refuse_slots{false};
    std::atomic<std::int64_t> opened{0};  // number of the last batch opened, plus 1
    std::atomic<int> ended{0};            // workers that left
    std::function<void(std::int64_t sequence, std::int64_t i)> on_sample;
    std::vector<std::thread> threads;

  private:
    void fill(BatchRing& held, const RingTask& task) {
        std::int64_t i = task.begin;
        std::exception_ptr error;
        try {
            const auto v = task.batch->field("v").as<std::int64_t>();
            for (; i < task.end; ++i) {
                if (on_sample) {
                    on_sample(task.sequence, i);
                }
                v[static_cast<std::size_t>(i)] = task.sequence * 1000 + i;
            }
        } catch (...) {
            error = std::current_exception();
        }
        held.complete(task, std::move(error), i);
    }
};

void expect_batch(const std::shared_ptr<Batch>& batch, std::int64_t sequence, std::int64_t size = kCapacity) {
    ASSERT_NE(batch, nullptr);
    ASSERT_EQ(batch->number(), sequence);
    ASSERT_EQ(batch->size(), size);
    const auto v = batch->field("v").as<std::int64_t>();
    for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(v[static_cast<std::size_t>(i)], sequence * 1000 + i);
    }
}

TEST(BatchRing, BatchesComeInOrderFromManyWorkers) {
    for (const int workers : {1, 2, 8}) {
        for (const std::int64_t grain : {1, 7, 100}) {
            RingBench bench(200);
            bench.ring->set_depth(4);
            bench.ring->set_grain(grain);
            bench.start(workers);
            for (std::int64_t k = 0; k < 200; ++k) {
                expect_batch(bench.ring->pop(), k);
            }
            EXPECT_EQ(bench.ring->pop(), nullptr);
            EXPECT_EQ(bench.ring->pop(), nullptr);
            EXPECT_LE(bench.slots, 5);
        }
    }
}

TEST(BatchRing, ReservedBatchesAreMadeOnceAndKept) {
    RingBench bench(kForever);
    bench.ring->set_depth(2);
    bench.ring->reserve(6);
    EXPECT_EQ(bench.slots, 6);
    bench.start(1);
    for (int round = 0; round < 3; ++round) {
        std::vector<std::shared_ptr<Batch>> held;
        for (int i = 0; i < 4; ++i) {
            held.push_back(bench.ring->pop());
        }
    }
    EXPECT_EQ(bench.slots, 6);
}

TEST(BatchRing, IsFullOnceAllThatFitsIsFinished) {
    RingBench bench(10);
    bench.ring->set_depth(3);
    std::atomic<bool> held = true;
    bench.on_sample = [&](std::int64_t sequence, std::int64_t) {
        while (sequence == 2 && held) {
            std::this_thread::sleep_for(milliseconds(1));
        }
    };
    const auto fills = [&] {
        for (int i = 0; i < 5000 && !bench.ring->full(); ++i) {
            std::this_thread::sleep_for(milliseconds(1));
        }
        return bench.ring->full();
    };
    EXPECT_FALSE(bench.ring->full()) << "no batch has begun";
    bench.start(1);
    while (bench.ring->finished() < 2) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_FALSE(bench.ring->full()) << "the worker stands still within the third batch";
    held = false;
    EXPECT_TRUE(fills());
    EXPECT_EQ(bench.ring->finished(), 3);
    for (std::int64_t k = 0; k < 9; ++k) {
        expect_batch(bench.ring->pop(), k);
    }
    EXPECT_TRUE(fills()) << "one batch is left of all";
}

TEST(BatchRing, WaitsNoLongerThanAllowedAndNotAtAllForWhatIsReady) {
    RingBench bench(2);
    std::atomic<bool> held = true;
    bench.on_sample = [&](std::int64_t /*sequence*/, std::int64_t /*i*/) {
        while (held) {
            std::this_thread::sleep_for(milliseconds(1));
        }
    };
    bench.start(1);
    EXPECT_FALSE(bench.ring->wait_for(milliseconds(5)));
    held = false;
    EXPECT_TRUE(bench.ring->wait_for(milliseconds(60'000)));
    expect_batch(bench.ring->pop(), 0);
    EXPECT_TRUE(bench.ring->wait_for(milliseconds(60'000)));
    expect_batch(bench.ring->pop(), 1);
    EXPECT_TRUE(bench.ring->wait_for(milliseconds(60'000)));  // at the end it does not wait
    EXPECT_EQ(bench.ring->pop(), nullptr);
}

TEST(BatchRing, SlowWorkersAndSlowConsumers) {
    RingBench slow_workers(30);
    slow_workers.on_sample = [](std::int64_t sequence, std::int64_t i) {
        std::this_thread::sleep_for(std::chrono::microseconds((sequence * 7 + i * 13) % 5 == 0 ? 500 : 0));
    };
    slow_workers.ring->set_depth(3);
    slow_workers.ring->set_grain(5);
    slow_workers.start(4);
    for (std::int64_t k = 0; k < 30; ++k) {
        expect_batch(slow_workers.ring->pop(), k);
    }

    RingBench slow_consumer(30);
    slow_consumer.ring->set_depth(3);
    slow_consumer.start(4);
    for (std::int64_t k = 0; k < 30; ++k) {
        std::this_thread::sleep_for(milliseconds(2));
        expect_batch(slow_consumer.ring->pop(), k);
    }
}

TEST(BatchRing, NeverOpensMoreThanItsDepth) {
    for (const std::int64_t depth : {1, 2, 5}) {
        RingBench bench(kForever);
        bench.ring->set_depth(depth);
        bench.ring->set_grain(3);
        bench.start(3);
        for (std::int64_t k = 0; k < 20; ++k) {
            std::this_thread::sleep_for(milliseconds(1));
            EXPECT_LE(bench.opened, k + depth);
            const auto batch = bench.ring->pop();
            expect_batch(batch, k);
        }
        EXPECT_LE(bench.slots, depth + 1);
    }
}

TEST(BatchRing, TheFrontHalfIsUrgent) {
    RingBench bench(kForever);
    bench.ring->set_grain(kCapacity);
    const auto urgent = [&] {
        const std::optional<RingTask> task = bench.ring->try_take();
        bench.ring->complete(*task);
        return task->urgent;
    };
    for (const std::int64_t depth : {1, 2, 3, 4, 5}) {
        bench.ring->set_depth(depth);
        for (std::int64_t i = 0; i < depth; ++i) {
            EXPECT_EQ(urgent(), i < (depth + 1) / 2) << "batch " << i << " of " << depth;
        }
        bench.ring->pop();
        EXPECT_EQ(urgent(), depth == 1) << "the batches before it are finished";
        while (bench.ring->ready()) {
            bench.ring->pop();
        }
    }
}

TEST(BatchRing, FirstBatchMayBeAny) {
    RingBench bench(12, nullptr, 10);
    bench.start(2);
    expect_batch(bench.ring->pop(), 10);
    expect_batch(bench.ring->pop(), 11);
    EXPECT_EQ(bench.ring->pop(), nullptr);
}

TEST(BatchRing, DepthAndWorkersChangeWhileItRuns) {
    RingBench bench(600);
    bench.ring->set_grain(4);
    bench.start(2);
    for (std::int64_t k = 0; k < 600; ++k) {
        if (k % 20 == 0) {
            bench.ring->set_depth(1 + (k / 20) % 7);
            bench.ring->set_grain(1 + (k / 20) % 11);
        }
        if (k == 100) {
            bench.start(6);
        }
        if (k == 200) {  // four of them end, and only those
            bench.ring->set_workers(2);
            while (bench.ended < 4) {
                std::this_thread::yield();
            }
        }
        expect_batch(bench.ring->pop(), k);
    }
    EXPECT_EQ(bench.ended, 4);
}

TEST(BatchRing, ALowerDepthHoldsWorkersBackUntilItIsReached) {
    RingBench bench(kForever);
    bench.ring->set_depth(6);
    bench.start(2);
    while (bench.opened < 6) {
        std::this_thread::yield();
    }
    bench.ring->set_depth(2);
    for (std::int64_t k = 0; k < 4; ++k) {
        expect_batch(bench.ring->pop(), k);
    }
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(bench.opened, 6);
    expect_batch(bench.ring->pop(), 4);
    expect_batch(bench.ring->pop(), 5);
    expect_batch(bench.ring->pop(), 6);
}

TEST(BatchRing, TheLowestSampleOfABatchIsTheOneReported) {
    for (const std::int64_t grain : {1, 4, 40}) {
        RingBench bench(5);
        bench.on_sample = [](std::int64_t sequence, std::int64_t i) {
            if (sequence == 2 && (i == 9 || i == 21 || i == 39)) {
                // The error of the lowest item comes last.
                std::this_thread::sleep_for(milliseconds(i == 9 ? 20 : 0));
                throw std::runtime_error(std::to_string(i));
            }
        };
        bench.ring->set_depth(3);
        bench.ring->set_grain(grain);
        bench.start(4);
        expect_batch(bench.ring->pop(), 0);
        expect_batch(bench.ring->pop(), 1);
        try {
            bench.ring->pop();
            ADD_FAILURE() << "no error";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "9");
        }
        expect_batch(bench.ring->pop(), 3);
        expect_batch(bench.ring->pop(), 4);
        EXPECT_EQ(bench.ring->pop(), nullptr);
    }
}

TEST(BatchRing, StopWakesEverybody) {
    RingBench bench(kForever);
    std::atomic<bool> got_null{false};
    std::thread consumer([&] { got_null = bench.ring->pop() == nullptr; });  // no workers: waits
    std::this_thread::sleep_for(milliseconds(5));
    bench.ring->stop();
    consumer.join();
    EXPECT_TRUE(got_null);
    EXPECT_FALSE(bench.ring->try_take());
    EXPECT_TRUE(bench.ring->ready());

    RingBench full(kForever);
    full.ring->set_depth(2);
    full.start(4);
    while (full.opened < 2) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(milliseconds(5));  // all workers wait for room by now
    full.ring->stop();
    full.join();
    EXPECT_EQ(full.ended, 4);
    EXPECT_EQ(full.ring->pop(), nullptr);
}

TEST(BatchRing, BatchesOutliveTheRing) {
    std::vector<std::shared_ptr<Batch>> held;
    {
        RingBench bench(8);
        bench.ring->set_depth(3);
        bench.start(2);
        while (const auto batch = bench.ring->pop()) {
            held.push_back(batch);
        }
        EXPECT_EQ(bench.slots, 8) << "a held slot is not filled again";
    }
    for (std::size_t k = 0; k < held.size(); ++k) {
        expect_batch(held[k], static_cast<std::int64_t>(k));
    }
    std::thread([last = std::move(held)]() mutable { last.clear(); }).join();  // freed on another thread
}

TEST(BatchRing, HeldBatchesDoNotHoldWorkersBack) {
    RingBench bench(50);
    bench.start(2);
    std::vector<std::shared_ptr<Batch>> held;
    for (std::int64_t k = 0; k < 50; ++k) {
        held.push_back(bench.ring->pop());
        expect_batch(held.back(), k);
    }
    for (std::size_t k = 0; k < held.size(); ++k) {
        expect_batch(held[k], static_cast<std::int64_t>(k));
    }
}

// A rank's slice of the last batch may be empty: such a batch needs no work and is still delivered in order.
TEST(BatchRing, EmptyBatchesTakeTheirTurn) {
    for (const int workers : {1, 2, 8}) {
        const auto size_of = [](std::int64_t sequence) { return sequence % 3 == 2 || sequence < 2 ? 0 : kCapacity; };
        RingBench bench(600, size_of);
        bench.ring->set_depth(3);
        bench.ring->set_grain(10);
        bench.start(workers);
        for (std::int64_t k = 0; k < 600; ++k) {
            expect_batch(bench.ring->pop(), k, size_of(k));
        }
        EXPECT_EQ(bench.ring->pop(), nullptr);
    }
}

TEST(BatchRing, OnlyEmptyBatches) {
    RingBench bench(500, [](std::int64_t) { return std::int64_t{0}; });
    bench.start(4);
    for (std::int64_t k = 0; k < 500; ++k) {
        expect_batch(bench.ring->pop(), k, 0);
    }
    EXPECT_EQ(bench.ring->pop(), nullptr);
}

TEST(BatchRing, TheConsumersOwnThreadDoesTheWork) {
    RingBench bench(4, [](std::int64_t sequence) { return sequence == 1 ? 0 : kCapacity; });
    bench.ring->set_grain(15);
    for (std::int64_t k = 0; k < 4; ++k) {
        while (!bench.ring->ready()) {
            const auto task = bench.ring->try_take();
            ASSERT_TRUE(task || bench.ring->ready()) << "neither work nor a batch";
            if (task) {
                const auto v = task->batch->field("v").as<std::int64_t>();
                for (std::int64_t i = task->begin; i < task->end; ++i) {
                    v[static_cast<std::size_t>(i)] = task->sequence * 1000 + i;
                }
                bench.ring->complete(*task);
            }
        }
        expect_batch(bench.ring->pop(), k, k == 1 ? 0 : kCapacity);
    }
    EXPECT_TRUE(bench.ring->ready());
    EXPECT_FALSE(bench.ring->try_take());
    EXPECT_EQ(bench.ring->pop(), nullptr);
}

// A batch that cannot be allocated is an error of that batch, thrown by pop.
TEST(BatchRing, ASlotThatCannotBeMadeIsTheConsumersError) {
    RingBench bench(20);
    bench.refuse_slots = true;
    bench.start(3);
    EXPECT_THROW(bench.ring->pop(), std::bad_alloc);
    bench.refuse_slots = false;
    std::int64_t good = 0;
    for (std::int64_t k = 1; k < 20; ++k) {
        try {
            expect_batch(bench.ring->pop(), k);
            ++good;
        } catch (const std::bad_alloc&) {
        }
    }
    EXPECT_GE(good, 17) << "only those that were opened meanwhile";
    EXPECT_EQ(bench.ring->pop(), nullptr);
}

}  // namespace
}  // namespace stoker
