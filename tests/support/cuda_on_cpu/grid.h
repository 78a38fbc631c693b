// Runs a kernel's blocks one after another on the CPU. The threads of a block are fibers: each runs until it waits for
// others, then the next one runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

struct dim3 {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
    dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
    unsigned count() const { return x * y * z; }
};

namespace stoker::on_cpu {

// The order in which blocks, and the threads of a block, take turns.
enum class Order { forwards, backwards, shuffled };
inline constexpr Order kOrders[] = {Order::forwards, Order::backwards, Order::shuffled};

// Sets the order of the launches from now on.
void set_order(Order order, std::uint64_t seed = 1);

// Calls work() once for each order.
template <typename Work>
void every_order(const Work& work) {
    for (const Order order : kOrders) {
        set_order(order);
        work();
    }
    set_order(Order::forwards);
}

// A mistake of a kernel that the layer detects: a barrier that not all threads reach.
class KernelFault : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Calls body() for each thread of each block, with the indices below set.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& body);

// The indices of the running thread.
extern dim3 thread_index, block_index, block_size, grid_size;

// Waits for the other threads of the block that have not ended.
void wait_for_block();
// Gives `value` to the lanes of `mask`, waits for theirs, and returns lane i's at [i]. Throws KernelFault if the mask
// leaves out the caller or names a lane that has ended.
std::vector<std::uint64_t> exchange(unsigned mask, std::uint64_t value);

// Copies of the thread that runs, in groups: each is done when the thread waits until no more than `groups` later ones
// are left. Throws KernelFault for a number of bytes or an alignment that the device does not copy.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(std::size_t groups);

constexpr unsigned kWarp = 32;

// The block's memory under this key: new for each block, and every byte 0xFF.
void* shared_memory(const void* key, std::size_t bytes);

// What translate.cmake makes of `__shared__ T name;`: `line` tells declarations apart.
template <typename T, int line>
T& shared() {
    static const char key = 0;
    return *static_cast<T*>(shared_memory(&key, sizeof(T)));
}

// kernel<<<blocks, threads, bytes, stream>>>(arguments...)
template <typename Kernel>
auto launch(Kernel kernel, dim3 blocks, dim3 threads, std::size_t /*dynamic_bytes*/ = 0, const void* /*stream*/ = {}) {
    return [=](auto... arguments) { run_grid(blocks, threads, [&] { kernel(arguments...); }); };
}

}  // namespace stoker::on_cpu
