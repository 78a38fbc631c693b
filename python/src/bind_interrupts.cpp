// Ctrl-C that waits: while an object is entered, SIGINT is remembered by a handler in C. Python's own handlers would
// not do: Python may run them, and raise, between any two lines, also those that set a handler and put it back.
#include <nanobind/nanobind.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>

#include "python/src/bindings.h"

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

}  // namespace

void bind_interrupts(nb::module_& module) {
    pthread_atfork(nullptr, nullptr, start_again_in_child);
    nb::class_<HeldInterrupts>(module, "HeldInterrupts")
        .def(nb::init<bool>(), nb::arg("blocked") = false)
        .def("__enter__", &HeldInterrupts::enter)
        .def("__exit__", [](HeldInterrupts& held, const nb::args& /*error*/) { held.leave(); });
}

}  // namespace stoker::python
