// The hook of a DataLoader's iterator: waiting for a batch, and how large it is. What is rare is done by functions of
// Python, which hooks.py gives it.
#include "python/src/watch/hook.h"

namespace stoker::watch {

namespace {

enum Call : std::size_t { Asks, Ready, Length, First, Ended, Settle };
constexpr std::int64_t kShortFetch = 200'000;  // nanoseconds: the CPU time of shorter fetches is not read
constexpr long long kUnknown = -1, kError = -2;

// Samples of the usual batch: a list or tuple whose first element is a plain tensor. Others are unknown, also a nested
// tensor, which has no shape.
long long usual_length(PyObject* batch) {
    PyObject* first = nullptr;
    if (PyTuple_CheckExact(batch) && PyTuple_Size(batch) > 0) {
        first = PyTuple_GetItem(batch, 0);
    } else if (PyList_CheckExact(batch) && PyList_Size(batch) > 0) {
        first = PyList_GetItem(batch, 0);
    }
    if (first == nullptr || !is(first, torch.tensor)) {
        return kUnknown;
    }
    const int modes = ask(torch.modes);
    if (modes != 0) {
        return modes < 0 ? kError : kUnknown;
    }
    PyObject* shape = PyObject_GetAttr(first, torch.shape);
    if (shape == nullptr && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return kUnknown;
    }
    if (shape == nullptr) {
        return kError;
    }
    const Py_ssize_t dimensions = PyTuple_Size(shape);
    const long long length = dimensions > 0 ? PyLong_AsLongLong(PyTuple_GetItem(shape, 0)) : 1;
    Py_DECREF(shape);
    return dimensions < 0 || PyErr_Occurred() ? kError : length;
}

// A number that a function of Python returns; None is unknown.
long long number_of(PyObject* function, PyObject* argument) {
    PyObject* answer = call_with(function, argument);
    if (answer == nullptr) {
        return kError;
    }
    const long long number = answer == Py_None ? kUnknown : PyLong_AsLongLong(answer);
    Py_DECREF(answer);
    return PyErr_Occurred() ? kError : number;
}

// 1 or 0: whether the iterator has no workers. Negative: Python has an error.
int is_alone(PyObject* iterator) {
    PyObject* workers = PyObject_GetAttr(iterator, torch.workers);
    const int some = workers == nullptr ? -1 : PyObject_IsTrue(workers);
    Py_XDECREF(workers);
    return some < 0 ? some : 1 - some;
}

// The loop asks for its next batch. False: Python has an error.
bool ask_for_batch(const Hook* hook, PyObject* iterator, bool alone, long long& ready) {
    ready = alone ? kUnknown : number_of(hook->calls[Ready], iterator);
    if (ready == kError) {
        return false;
    }
    if (refers_to(hook->steps()->asked, iterator)) {
        return true;
    }
    PyObject* done = call_with(hook->calls[Asks], iterator);
    Py_XDECREF(done);
    return done != nullptr;
}

// A step of an optimizer that has raised left its phase behind. Within a closure it is the right one. False: Python has
// an error.
bool settle_base(const Hook* hook) {
    if (hook->flags->base == Unmeasured) {
        return true;
    }
    PyObject* done = PyObject_CallNoArgs(hook->calls[Settle]);
    Py_XDECREF(done);
    return done != nullptr;
}

void add_fetch(Hook* hook, long long samples, std::int64_t wall, std::int64_t core) {
    auto* sums = static_cast<std::int64_t*>(hook->sums.buf);
    sums[Fetch] += wall;
    sums[Core] += core != 0 ? core : wall;
    sums[Samples] += samples > 0 ? samples : 1;
    hook->measures = wall > kShortFetch;
}

// False: Python has an error.
bool note_batch(Hook* hook, PyObject* batch, long long ready, bool alone, std::int64_t wall, std::int64_t core) {
    StepState* steps = hook->steps();
    long long samples = steps->per_batch > 0 ? steps->per_batch : usual_length(batch);
    if (steps->per_batch < 0 && samples != kError) {
        samples = number_of(hook->calls[First], batch);  // and sets per_batch
    } else if (samples == kUnknown) {
        samples = number_of(hook->calls[Length], batch);
    }
    if (samples == kError) {
        return false;
    }
    steps->batches += 1;
    steps->samples += samples;
    steps->ready = ready;
    if (alone) {
        add_fetch(hook, samples, wall, core);
    }
    return true;
}

// Python has an error of the program, which stays. If it is the end of the loop, the watch is told.
PyObject* no_batch(const Hook* hook, PyObject* iterator, std::int64_t wall) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
        return nullptr;
    }
    PyObject *type = nullptr, *stop = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &stop, &trace);
    PyObject* done = PyObject_CallFunction(hook->calls[Ended], "OL", iterator, static_cast<long long>(wall));
    if (done == nullptr && !fail(hook)) {
        Py_XDECREF(type);
        Py_XDECREF(stop);
        Py_XDECREF(trace);
        return nullptr;
    }
    Py_XDECREF(done);
    PyErr_Restore(type, stop, trace);
    return nullptr;
}

}  // namespace

PyObject* call_next(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    Account* account = hook->account();
    if (PyVectorcall_NARGS(count) != 1 || account->phase == Wait || !hook->flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    PyObject* iterator = arguments[0];
    const int alone = is_alone(iterator);
    long long ready = kUnknown;
    if ((alone < 0 || !settle_base(hook) || !ask_for_batch(hook, iterator, alone == 1, ready)) && !fail(hook)) {
        return nullptr;
    }
    const bool fetches = alone == 1 && hook->sums.buf != nullptr;  // else the batch was made elsewhere
    account->enter(Wait);
    const std::int64_t start = account->since;
    const std::int64_t core = fetches && hook->measures ? core_nanoseconds() : 0;
    PyObject* batch = call_original(hook, arguments, count, names);
    const std::int64_t used = core != 0 ? core_nanoseconds() - core : 0;
    account->enter(hook->flags->base);
    const std::int64_t wall = account->since - start;
    if (batch == nullptr) {
        return no_batch(hook, iterator, wall);
    }
    if (!note_batch(hook, batch, ready, fetches, wall, used) && !fail(hook)) {
        Py_CLEAR(batch);
    }
    return batch;
}

}  // namespace stoker::watch
