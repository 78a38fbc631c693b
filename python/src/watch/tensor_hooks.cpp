// Hooks of copies between host and device, and of reads, which make the host wait for the device. Each has the time
// that no other hook within it has. A tensor of the program is asked nothing that its `__torch_function__` or modes
// would see.
#include "python/src/watch/hook.h"

namespace stoker::watch {

namespace {

enum class Place { Host, Device, Unknown, Error };

// Where a plain tensor is. Subclasses may stand for devices, and modes would see the question: unknown.
Place place_of(PyObject* tensor) {
    if (!is(tensor, torch.tensor) && !is(tensor, torch.parameter)) {
        return Place::Unknown;
    }
    const int modes = ask(torch.modes);
    if (modes != 0) {
        return modes < 0 ? Place::Error : Place::Unknown;
    }
    PyObject* is_cpu = PyObject_GetAttr(tensor, torch.is_cpu);
    const int host = is_cpu == nullptr ? -1 : PyObject_IsTrue(is_cpu);
    Py_XDECREF(is_cpu);
    if (host < 0) {
        return Place::Error;
    }
    return host == 1 ? Place::Host : Place::Device;
}

// calls[0] takes the tensor, what it became, and nanoseconds.
PyObject* note_move(const Hook* hook, PyObject* tensor, PyObject* moved, std::int64_t nanoseconds) {
    const Place from = place_of(tensor);
    const Place to = from == Place::Error ? from : place_of(moved);
    if (to == Place::Error) {
        if (!fail(hook)) {
            Py_CLEAR(moved);
        }
        return moved;
    }
    if (from == to && from != Place::Unknown) {
        return moved;
    }
    PyObject* took = PyLong_FromLongLong(nanoseconds);
    if (took == nullptr) {
        Py_DECREF(moved);
        return nullptr;
    }
    const std::array<PyObject*, 3> arguments = {tensor, moved, took};
    moved = tell(hook->calls[0], moved, arguments.data(), arguments.size());
    Py_DECREF(took);
    return moved;
}

// calls[1]: whether a tensor that was not asked here has its values, or a graph is being traced; calls[2]: whether one
// is. Negative: Python has an error.
int needs_no_wait(const Hook* hook, Place place, PyObject* tensor) {
    if (place == Place::Device) {
        return ask(hook->calls[2]);
    }
    PyObject* answer = call_with(hook->calls[1], tensor);
    const int passes = answer == nullptr ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return passes;
}

// calls[0] takes nanoseconds.
PyObject* read(Hook* hook, Arguments arguments, std::size_t count, PyObject* names) {
    Account* account = hook->account();
    hook->flags->reading = 1;
    const std::int64_t start = account->running();
    PyObject* result = call_original(hook, arguments, count, names);
    hook->flags->reading = 0;
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &error, &trace);
    PyObject* took = PyLong_FromLongLong(account->running() - start);
    PyErr_Restore(type, error, trace);
    if (took == nullptr) {
        return result;
    }
    const std::array<PyObject*, 1> told = {took};
    result = tell(hook->calls[0], result, told.data(), told.size());
    Py_DECREF(took);
    return result;
}

}  // namespace

PyObject* call_move(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    HookFlags* flags = hook->flags;
    if (flags->moving || flags->reading || PyVectorcall_NARGS(count) < 1 || !flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    flags->moving = 1;
    const std::int64_t start = hook->account()->running();
    PyObject* moved = call_original(hook, arguments, count, names);
    flags->moving = 0;
    if (moved == nullptr || moved == arguments[0]) {
        return moved;
    }
    return note_move(hook, arguments[0], moved, hook->account()->running() - start);
}

PyObject* call_read(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    if (hook->flags->reading || PyVectorcall_NARGS(count) < 1 || !hook->flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    const Place place = place_of(arguments[0]);
    if (place == Place::Error && !fail(hook)) {
        return nullptr;
    }
    if (place == Place::Host || place == Place::Error) {
        return call_original(hook, arguments, count, names);
    }
    const int passes = needs_no_wait(hook, place, arguments[0]);
    if (passes < 0 && !fail(hook)) {
        return nullptr;
    }
    return passes == 0 ? read(hook, arguments, count, names) : call_original(hook, arguments, count, names);
}

PyObject* call_wait(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    if (hook->flags->reading || !hook->flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    return read(hook, arguments, count, names);
}

}  // namespace stoker::watch
