// Ctrl-C that waits, and workers that end with their parent. While an object is entered, SIGINT is remembered by a
// handler in C: Python may run its own handlers, and raise, between any two lines, also those that set a handler.
#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "python/src/bindings.h"
#include "stoker/base/error.h"

namespace stoker::python {
namespace {

volatile std::sig_atomic_t arrived = 0;
int entered = 0;  // guarded by Python's lock
struct sigaction usual = {};

void remember(int /*number*/) {
    arrived = 1;
}

// Unless somebody has set another handler meanwhile.
void restore() {
    struct sigaction now = {};
    sigaction(SIGINT, nullptr, &now);
    if (now.sa_handler == remember) {
        sigaction(SIGINT, &usual, nullptr);
    }
}

// A forked child does not leave what its parent entered.
void start_again_in_child() {
    if (entered > 0) {
        entered = 0;
        arrived = 0;
        restore();
    }
}

// May be nested. `blocked` also blocks the signal, for processes that are started meanwhile. Not everywhere: another
// thread takes the signal then, and may tell Python of it inside of the next object.
class HeldInterrupts {
  public:
    explicit HeldInterrupts(bool blocked) : blocked_(blocked) {}

    void enter() {
        if (blocked_) {
            sigset_t interrupt;
            sigemptyset(&interrupt);
            sigaddset(&interrupt, SIGINT);
            pthread_sigmask(SIG_BLOCK, &interrupt, &mask_);
        }
        if (entered++ == 0) {
            struct sigaction held = {};
            held.sa_handler = remember;
            held.sa_flags = SA_RESTART | SA_ONSTACK;
            sigaction(SIGINT, &held, &usual);
        }
        if (PyErr_CheckSignals() != 0) {  // one that came before, and would be raised between two lines
            leave();
            throw nb::python_error();
        }
    }

    void leave() {
        entered = std::max(entered - 1, 0);  // a forked child has begun at 0
        if (entered == 0) {
            restore();
        }
        if (blocked_) {
            pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
        }
        if (entered == 0 && arrived != 0) {
            arrived = 0;
            std::raise(SIGINT);
        }
    }

  private:
    bool blocked_;
    sigset_t mask_ = {};
};

// Ends this process when the other end of `fd`, a socket or pipe, is closed. A native thread notices it also while a
// data set's own code holds Python's lock. The process gets two seconds to see the end, and to leave as it likes.
void exit_after_hangup(int fd) {
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
        throw errno_error("worker process", "a copy of its pipe");
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits it: signals are the program's
    std::thread([own] {
        pollfd end{.fd = own, .events = 0, .revents = 0};
        while (poll(&end, 1, -1) < 0 && errno == EINTR) {
        }
        constexpr std::chrono::seconds kMoment{2};
        std::this_thread::sleep_for(kMoment);
        _exit(0);
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void bind_interrupts(nb::module_& module) {
    pthread_atfork(nullptr, nullptr, start_again_in_child);
    module.def("exit_after_hangup", exit_after_hangup, nb::arg("fd"));
    nb::class_<HeldInterrupts>(module, "HeldInterrupts")
        .def(nb::init<bool>(), nb::arg("blocked") = false)
        .def("__enter__", &HeldInterrupts::enter)
        .def("__exit__", [](HeldInterrupts& held, const nb::args& /*error*/) { held.leave(); });
}

}  // namespace stoker::python
