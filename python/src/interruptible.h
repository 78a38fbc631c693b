// Calls that may take long, such as those to a server, end at once with Ctrl-C: they run on a separate thread, while
// the caller's looks for signals. Python runs handlers of signals on the main thread alone.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <thread>
#include <type_traits>
#include <utility>

namespace stoker::python {

// The longest time from a signal to its handler.
inline constexpr std::chrono::milliseconds kSignalPoll{50};

// What `call` returns or throws. It runs without the interpreter's lock and owns all that it uses: after Ctrl-C nobody
// waits for it, and its result is dropped.
template <typename Call>
auto interruptible(Call call) {
    std::packaged_task<std::invoke_result_t<Call&>()> task(std::move(call));
    auto result = task.get_future();
    std::thread thread(std::move(task));
    for (;;) {
        {
            const nanobind::gil_scoped_release release;
            if (result.wait_for(kSignalPoll) == std::future_status::ready) {
                thread.join();
                return result.get();
            }
        }
        if (PyErr_CheckSignals() != 0) {
            thread.detach();
            throw nanobind::python_error();
        }
    }
}

}  // namespace stoker::python
