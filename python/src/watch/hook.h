// What stands in the place of a function of PyTorch while a watch runs: stoker._watch.Hook.
#pragma once

#include "python/src/watch/hook_types.h"

namespace stoker::watch {

inline constexpr std::size_t kHookCalls = 6;

// It calls `original` with the same arguments and returns its result. In a class it is a method.
struct Hook {
    PyObject_HEAD vectorcallfunc call;
    PyObject* attributes;  // __dict__: the name and the text of what it replaces
    PyObject* references;  // weak ones
    PyObject* original;
    PyObject* place;  // of a method of Tensor: owner and name; else null
    PyObject* owner;  // the class of modules that inherits what the hook replaces; else null
    PyObject* above;  // super(owner, type of the last module), which finds what it inherits
    PyTypeObject* last;
    HookFlags* flags;
    std::array<PyObject*, kHookCalls> calls;  // functions of Python for what is rare
    int number;                               // a phase, or whether it is a whole backward pass
    Py_buffer sums;                           // of a FetchClock, in the order of kSumNames
    char measures;                            // the last batch took long enough to read the CPU time of the next one

    Account* account() const { return flags->account; }
    StepState* steps() const { return flags->steps; }
};

using Arguments = PyObject* const*;
inline Hook* hook_of(PyObject* self) {
    return reinterpret_cast<Hook*>(self);
}
inline PyObject* call_original(Hook* hook, Arguments arguments, std::size_t count, PyObject* names) {
    return PyObject_Vectorcall(hook->original, arguments, count, names);
}

// PyObject_CallOneArg, which the stable ABI of Python 3.12 lacks.
inline PyObject* call_with(PyObject* function, PyObject* argument) {
    return PyObject_Vectorcall(function, &argument, 1, nullptr);
}

// Gives Python's present error to the watch, which ends. False: Python has an error, because that failed, or because it
// is no Exception: Ctrl-C and what else ends a program may come while our functions run.
bool fail(const Hook* hook);

// Calls a function of ours after `result` is there, or null with an error of the program, which stays. Takes over the
// reference to the result, and gives it back; null if the call fails.
PyObject* tell(PyObject* function, PyObject* result, Arguments arguments, std::size_t count);

// The entry points, one for each kind.
PyObject* call_phase(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_next(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_forward(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_backward(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_optimizer_begin(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_optimizer_end(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_move(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_read(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);
PyObject* call_wait(PyObject* self, Arguments arguments, std::size_t count, PyObject* names);

// What the entry points know of PyTorch, set by stoker._watch.learn.
struct Torch {
    PyObject* tensor = nullptr;     // the class
    PyObject* parameter = nullptr;  // likewise
    PyObject* module = nullptr;     // likewise
    PyObject* modes = nullptr;      // how many of the program see calls of plain tensors, too
    PyObject* with_grad = nullptr;  // torch.is_grad_enabled
    // Names that are looked up.
    PyObject *training = nullptr, *workers = nullptr, *is_cpu = nullptr, *shape = nullptr, *call = nullptr,
             *requires_grad = nullptr;
};
extern Torch torch;

// Whether a function of `torch` without arguments returns something true. -1: Python has an error.
int ask(PyObject* function);
inline bool is(PyObject* object, PyObject* type) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}
// Whether a weak reference is to the object. None is to nobody.
bool refers_to(PyObject* reference, PyObject* object);

}  // namespace stoker::watch
