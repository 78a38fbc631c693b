// Fibers are those of ucontext. ASan is told of each switch, since it follows the stack.
#include "support/cuda_on_cpu/grid.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace stoker::on_cpu {

dim3 thread_index, block_index, block_size, grid_size;

namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostShared = std::size_t{48} << 10;

struct {
    Order order = Order::forwards;
    std::uint64_t seed = 1;
} settings;

// The order of `count` blocks or threads.
std::vector<unsigned> turns(unsigned count, std::mt19937_64& random) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0U);
    if (settings.order == Order::backwards) {
        std::ranges::reverse(order);
    } else if (settings.order == Order::shuffled) {
        std::ranges::shuffle(order, random);
    }
    return order;
}

// A context with the names that the sanitizers have for it.
struct Context {
    ucontext_t registers{};
    void* fake_stack = nullptr;
    const void* stack = nullptr;
    std::size_t stack_bytes = 0;
};

void switch_to(Context& from, Context& to, bool from_ends = false) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#endif
    ::swapcontext(&from.registers, &to.registers);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
    static_cast<void>(from_ends);
}

enum class State { ready, at_block_barrier, at_warp_barrier, ended };

struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
};

struct Thread {
    Context context;
    State state = State::ready;
    unsigned mask = 0;        // of the lanes that it waits for
    std::uint64_t given = 0;  // to them
    std::vector<std::uint64_t> got = {};
    std::deque<std::vector<Copy>> copies = {};  // groups, the oldest first
    std::vector<Copy> group = {};               // not yet committed
};

class Block {
  public:
    Block(dim3 threads, const std::function<void()>& body) : body_(body), threads_(threads.count()), size_(threads) {
        const std::size_t all = kStack * threads_.size();
        stacks_ = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { ::munmap(stacks_, kStack * threads_.size()); }

    void run(std::mt19937_64& random) {
        shared_.clear();
        begin();
        while (turn(random)) {
            if (error_) {
                std::rethrow_exception(error_);
            }
            release();
        }
    }

    static Block& current() { return *current_; }

    void wait(State state) {
        Thread& own = threads_[at_];
        own.state = state;
        switch_to(own.context, scheduler_);
    }

    std::vector<std::uint64_t> exchange(unsigned mask, std::uint64_t value) {
        Thread& own = threads_[at_];
        if ((mask >> at_ % kWarp & 1U) == 0) {
            throw KernelFault("a warp's operation whose mask leaves out its caller");
        }
        own.mask = mask;
        own.given = value;
        wait(State::at_warp_barrier);
        return std::move(own.got);
    }

    void copy_later(const Copy& copy) {
        const auto place = reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from);
        if ((copy.bytes != 4 && copy.bytes != 8 && copy.bytes != 16) || place % copy.bytes != 0) {
            throw KernelFault("a copy of " + std::to_string(copy.bytes) + " bytes that the device does not have");
        }
        threads_[at_].group.push_back(copy);
    }

    void commit_copies() { threads_[at_].copies.push_back(std::exchange(threads_[at_].group, {})); }

    void wait_for_copies(std::size_t groups) {
        for (auto& copies = threads_[at_].copies; copies.size() > groups; copies.pop_front()) {
            for (const Copy& copy : copies.front()) {
                std::memcpy(copy.to, copy.from, copy.bytes);
            }
        }
    }

    void* shared_memory(const void* key, std::size_t bytes) {
        auto& memory = shared_[key];
        if (memory == nullptr) {
            shared_bytes_ += bytes;
            if (shared_bytes_ > kMostShared) {
                throw KernelFault("more than 48 KiB of shared memory");
            }
            memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{16})));
            std::memset(memory.get(), 0xFF, bytes);
        }
        return memory.get();
    }

  private:
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{16}); }
    };

    void begin() {
        shared_bytes_ = 0;
        error_ = nullptr;
        current_ = this;
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            Thread& thread = threads_[i];
            thread = Thread();
            auto* stack = static_cast<std::byte*>(stacks_) + i * kStack;
            thread.context.stack = stack;
            thread.context.stack_bytes = kStack;
#if defined(__SANITIZE_ADDRESS__)
            ASAN_UNPOISON_MEMORY_REGION(stack, kStack);  // the last block's frames
#endif
            ::getcontext(&thread.context.registers);
            thread.context.registers.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = kStack};
            thread.context.registers.uc_link = nullptr;
            ::makecontext(&thread.context.registers, &Block::enter, 0);
        }
    }

    // The first function of a fiber. It never returns.
    static void enter() {
        Block& block = current();
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_.stack, &block.scheduler_.stack_bytes);
#endif
        Thread& own = block.threads_[block.at_];
        try {
            block.body_();
        } catch (...) {
            block.error_ = std::current_exception();
        }
        own.state = State::ended;
        switch_to(own.context, block.scheduler_, /*from_ends=*/true);
    }

    // Each thread that is ready runs until it waits or ends. False if all have ended.
    bool turn(std::mt19937_64& random) {
        bool ran = false;
        for (const unsigned i : turns(static_cast<unsigned>(threads_.size()), random)) {
            if (threads_[i].state != State::ready || error_) {
                continue;
            }
            ran = true;
            at_ = i;
            thread_index = {i % size_.x, i / size_.x % size_.y, i / size_.x / size_.y};
            switch_to(scheduler_, threads_[i].context);
        }
        const bool ended = std::ranges::all_of(threads_, [](const Thread& t) { return t.state == State::ended; });
        if (!ran && !ended) {
            throw KernelFault("threads that wait for each other at different barriers");
        }
        return !ended || error_;
    }

    // Threads at barriers that all threads they wait for have reached are ready.
    void release() {
        for (std::size_t first = 0; first < threads_.size(); first += kWarp) {
            release_warp(first);
        }
        const bool all = std::ranges::all_of(
            threads_, [](const Thread& t) { return t.state == State::at_block_barrier || t.state == State::ended; });
        for (Thread& thread : threads_) {
            thread.state = all && thread.state == State::at_block_barrier ? State::ready : thread.state;
        }
    }

    void release_warp(std::size_t first) {
        for (std::size_t own = first; own < std::min(first + kWarp, threads_.size()); ++own) {
            const unsigned mask = threads_[own].mask;
            if (threads_[own].state != State::at_warp_barrier || !arrived(first, mask)) {
                continue;
            }
            std::vector<std::uint64_t> values(kWarp);
            for (std::size_t lane = 0; lane < kWarp; ++lane) {
                values[lane] = (mask >> lane & 1U) != 0 ? threads_[first + lane].given : 0;
            }
            for (std::size_t lane = 0; lane < kWarp; ++lane) {
                if ((mask >> lane & 1U) != 0) {
                    threads_[first + lane].got = values;
                    threads_[first + lane].state = State::ready;
                }
            }
        }
    }

    // Whether all lanes of the mask wait with the same mask.
    bool arrived(std::size_t first, unsigned mask) const {
        for (std::size_t lane = 0; lane < kWarp; ++lane) {
            if ((mask >> lane & 1U) == 0) {
                continue;
            }
            if (first + lane >= threads_.size() || threads_[first + lane].state == State::ended) {
                throw KernelFault("a warp's operation whose mask names a lane that has ended");
            }
            const Thread& other = threads_[first + lane];
            if (other.state != State::at_warp_barrier || other.mask != mask) {
                return false;
            }
        }
        return true;
    }

    static Block* current_;

    const std::function<void()>& body_;
    std::vector<Thread> threads_;
    dim3 size_;
    void* stacks_ = nullptr;
    Context scheduler_;
    std::size_t at_ = 0;  // the thread that runs
    std::exception_ptr error_;
    std::map<const void*, std::unique_ptr<std::byte, Free>> shared_;
    std::size_t shared_bytes_ = 0;
};

Block* Block::current_ = nullptr;

}  // namespace

void set_order(Order order, std::uint64_t seed) {
    settings = {order, seed};
}

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& body) {
    if (blocks.count() == 0 || threads.count() == 0 || threads.count() > kMostThreads) {
        throw KernelFault("a launch of " + std::to_string(blocks.count()) + " blocks of " +
                          std::to_string(threads.count()) + " threads");
    }
    std::mt19937_64 random(settings.seed);
    grid_size = blocks;
    block_size = threads;
    Block block(threads, body);
    for (const unsigned i : turns(blocks.count(), random)) {
        block_index = {i % blocks.x, i / blocks.x % blocks.y, i / blocks.x / blocks.y};
        block.run(random);
    }
}

void wait_for_block() {
    Block::current().wait(State::at_block_barrier);
}

std::vector<std::uint64_t> exchange(unsigned mask, std::uint64_t value) {
    return Block::current().exchange(mask, value);
}

void copy_later(void* to, const void* from, std::size_t bytes) {
    Block::current().copy_later({to, from, bytes});
}

void commit_copies() {
    Block::current().commit_copies();
}

void wait_for_copies(std::size_t groups) {
    Block::current().wait_for_copies(groups);
}

void* shared_memory(const void* key, std::size_t bytes) {
    return Block::current().shared_memory(key, bytes);
}

}  // namespace stoker::on_cpu
